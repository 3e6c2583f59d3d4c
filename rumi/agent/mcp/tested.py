"""What a test of a server has found, as JSON: its tools, and what has changed since they were accepted."""

import hashlib
import json
from dataclasses import asdict

from rumi.agent.mcp.described import DescriptionChange, changes_of, said_of
from rumi.agent.mcp.messages import RemoteTool
from rumi.agent.mcp.server import KnownServer
from rumi.texts import Language, text_of, translate


def changes_since(known: KnownServer) -> dict[str, tuple[DescriptionChange, ...]]:
    """Return how each tool has changed since the user accepted it; nothing at the first connection."""
    before = known.earlier
    if before is None:
        return {}
    now = {tool.name: tool for tool in known.tools}
    changed = [name for name, tool in now.items() if not before.takes(tool)]
    # With a list of wanted tools, the server's other tools are left out here and are not missing.
    gone = [name for name in before.tools if name not in now and not known.settings.section.tools]
    return {
        **{name: changes_of(before.said.get(name), said_of(now[name])) for name in changed},
        **dict.fromkeys(gone, ()),
    }


def effect_of(tool: RemoteTool) -> str:
    """Return what a tool may do, by its server's own claims."""
    if tool.read_only:
        return "only reads, outside too" if tool.open_world else "only reads"
    return "destroys" if tool.destructive else "may change things"


def is_accepted(known: KnownServer, tool: RemoteTool) -> bool:
    """Return True if the user has accepted a tool as the server describes it now."""
    return known.pin is not None and known.pin.takes(tool)


def tool_rows(known: KnownServer, language: Language) -> list[dict[str, object]]:
    """Return a row for each tool: its name, whether it is accepted, and each change in full."""
    changes = changes_since(known)
    rows: list[dict[str, object]] = [
        {
            "name": tool.name,
            "asks": effect_of(tool),
            "accepted": is_accepted(known, tool),
            "changes": [asdict(change) for change in changes.get(tool.name, ())],
        }
        for tool in known.tools
    ]
    return [
        *rows,
        *(
            {"name": tool, "accepted": False, "unusable": translate(language, text_of(why))}
            for tool, why in known.unusable.items()
        ),
    ]


def digest_of_all(known: KnownServer) -> str:
    """Return a digest of all that a server says of its tools: who has read it accepts that, and no more."""
    said = {tool.name: said_of(tool) for tool in known.tools}
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=dict).encode()).hexdigest()


def tested_as_json(known: KnownServer, language: Language) -> dict[str, object]:
    """Return what a test of a server has found: its tools with descriptions, and what is missing."""
    about = {tool.name: tool.description for tool in known.tools}
    now = {tool.name for tool in known.tools}
    return {
        "name": known.settings.name,
        "tools": [
            {**row, "description": about.get(str(row["name"]), "")} for row in tool_rows(known, language)
        ],
        "digest": digest_of_all(known),
        "gone": [name for name in changes_since(known) if name not in now],
        "notes": [translate(language, text_of(note)) for note in known.notes],
        "refused": [
            {"host": str(refusal.address or refusal.host), "times": times}
            for refusal, times in known.asked.refused().items()
        ],
    }
