"""A server's list of tools: each tool that can be used, and the reason for each that cannot."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from rumi.agent.mcp.described import schema_for_models
from rumi.agent.mcp.messages import Listing, RemoteTool, ServerRefused
from rumi.models.schemas import SchemaError
from rumi.texts import Text

MOST_TOOLS: Final = 1000
MOST_PAGES: Final = 100
MOST_NAME_CHARS: Final = 256
MOST_DESCRIPTION_CHARS: Final = 100_000
_SCHEMAS: Final = ("inputSchema", "input_schema", "parameters")


Ask: TypeAlias = Callable[[str | None], Awaitable[object]]
"""Asks for the page of a cursor. Raises `McpError`."""


async def list_all(ask: Ask, hide: Callable[[str], str]) -> Listing:
    """Return the tools of all pages of a server's list; see `listed`.

    If the server refuses a later page, or its list never ends, the pages before are the list.

    Raises:
        McpError: The server refused the first page, or did not answer.
    """
    found: list[object] = []
    names: set[str] = set()
    cursor: str | None = None
    seen: set[str | None] = set()
    note: Text | None = None
    while True:
        seen.add(cursor)
        try:
            page = await ask(cursor)
        except ServerRefused:
            if cursor is None:
                raise
            note = Text("The server refused a later page of its list of tools.")
            break
        known: Mapping[str, Any] = page if isinstance(page, Mapping) else {"tools": page}
        more = _entries(known.get("tools"))
        if "tools" not in known or not isinstance(known["tools"], list | Mapping):
            note = Text("The server's answer has no list of tools.")
            break
        fresh = [entry for entry in more if _key(entry) not in names]
        names.update(map(_key, more))
        following = known.get("nextCursor", known.get("next_cursor"))
        following = None if following is None else str(following)
        if (more and not fresh and cursor is not None) or (following in seen and following is not None):
            found += fresh
            note = Text("The server's list of tools repeats itself; each tool is used once.")
            break
        found += more
        if following is None:
            break
        if len(seen) >= MOST_PAGES:
            note = Text(
                "The server's list of tools does not end; its first {count} pages are used.", count=MOST_PAGES
            )
            break
        cursor = following
    all_tools = listed(found, hide)
    # An empty cursor is the end of the list for many servers, and one more page for others.
    return all_tools if note is None or cursor == "" else replace(all_tools, notes=(*all_tools.notes, note))


def _key(entry: object) -> str:
    return json.dumps(entry.get("name") if isinstance(entry, Mapping) else entry)


def listed(found: object, hide: Callable[[str], str]) -> Listing:
    """Return the tools in the answers to `tools/list`, which are joined to one list.

    `hide` hides secrets in texts. An odd definition costs its own tool only.
    """
    tools: dict[str, RemoteTool] = {}
    unusable: dict[str, Text] = {}
    entries = _entries(found)
    for number, entry in enumerate(entries[:MOST_TOOLS], 1):
        name, problem = _name(entry, number)
        if problem is None:
            try:
                tool = _tool(entry, name, hide)
                schema_for_models(tool.parameters)
            except SchemaError as error:
                problem = error.message
            else:
                if tools.setdefault(name, tool) != tool:
                    name = f"{name} ({number})"
                    problem = Text("The server has another tool of this name.")
        if problem is not None:
            unusable[hide(name)] = problem
    notes = []
    if len(entries) > MOST_TOOLS:
        notes.append(
            Text("The server lists {count} tools; {most} are used.", count=len(entries), most=MOST_TOOLS)
        )
    return Listing(tuple(tools.values()), unusable, tuple(notes))


def _entries(found: object) -> list[object]:
    """Return the definitions in a list, or in an object by name."""
    if isinstance(found, Mapping):
        named = [{"name": name, **tool} for name, tool in found.items() if isinstance(tool, Mapping)]
        return [found] if "name" in found and not named else [*named]
    return found if isinstance(found, list) else []


def _name(entry: object, number: int) -> tuple[str, Text | None]:
    """Return a tool's name, and the problem with it, if there is one."""
    place = f"#{number}"
    if not isinstance(entry, Mapping):
        return place, Text("Its definition is not an object.")
    name = entry.get("name")
    if isinstance(name, int) and not isinstance(name, bool):
        name = str(name)
    if not isinstance(name, str) or not name.strip():
        return place, Text("It has no name.")
    if len(name) > MOST_NAME_CHARS:
        return f"{name[:40]}…", Text("Its name is longer than {most} characters.", most=MOST_NAME_CHARS)
    if name.encode("utf-8", "replace").decode() != name:
        return place, Text("Its name is not valid text.")
    return name, None


def _tool(entry: object, name: str, hide: Callable[[str], str]) -> RemoteTool:
    known: Mapping[str, Any] = entry if isinstance(entry, Mapping) else {}
    given = known.get("annotations")
    hints: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    texts = (known.get("description"), hints.get("title"), known.get("title"))
    description = next((text for text in map(_text, texts) if text.strip()), "")
    schema: Any = next((known[word] for word in _SCHEMAS if known.get(word) is not None), {})
    if not isinstance(schema, Mapping | bool):
        raise SchemaError("Its schema is not an object.")
    destructive = hints.get("destructiveHint")
    return RemoteTool(
        hide(name),
        hide(description[:MOST_DESCRIPTION_CHARS]),
        schema if isinstance(schema, Mapping) else {},
        # Only the exact values lower the caution: "true" or 1 is no claim.
        read_only=hints.get("readOnlyHint") is True,
        open_world=hints.get("openWorldHint") is not False,
        destructive=destructive if isinstance(destructive, bool) else None,
    )


def _text(value: object) -> str:
    """Return a text without lone surrogates, which no request can carry."""
    if isinstance(value, list):
        value = "\n".join(text for text in value if isinstance(text, str))
    text = "" if value is None or isinstance(value, Mapping | bool) else str(value)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
