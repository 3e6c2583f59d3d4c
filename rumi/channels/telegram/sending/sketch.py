"""The user's view of a running turn: the words so far, and the tool that works."""

from telegram import MessageEntity

from rumi import texts
from rumi.agent import ToolStarted
from rumi.channels.telegram.formatting import Part, format_preview
from rumi.channels.telegram.formatting.characters import LIMIT_UNITS, blank, clean, units
from rumi.chats import TurnState, gist
from rumi.texts import Language
from rumi.tools import FILE_TOOLS

TOOL_CHARS = 60
"""The maximum length of a tool's arguments."""


def tells(state: TurnState) -> bool:
    """Return True if there is more to show of a turn than that it thinks."""
    return bool(state.calls) or not blank(state.words)


def sketch(state: TurnState, language: Language, *, plain: bool = False) -> Part:
    """Return the chat's view of a turn: the words so far, and the running tool. `plain`: unformatted."""
    line, said = _line(state, language), state.words
    if not blank(said):
        words = format_preview(said, LIMIT_UNITS - (units(line.text) + 2 if line else 0))
        line = _below(words, line) if line else words
    if line is None:
        line = Part(texts.thinking(language))
    return line.plain() if plain else line


def _line(state: TurnState, language: Language) -> Part | None:
    """Return the running tool: the one that was called last."""
    if not state.calls:
        return None
    called = next(reversed(state.calls.values())).what
    what = tool_line(called)
    line = texts.tool_runs(language, what, called.call.name if gist(called.arguments) else "")
    code = MessageEntity(MessageEntity.CODE, units(line[: line.rindex(what)]), units(what))
    return Part(line, (code,))


def tool_line(started: ToolStarted) -> str:
    """Return a call in a few words, on one line: `bash: sleep 600`, or of a file tool the file."""
    name, told = started.call.name, gist(started.arguments)
    told = f"{name}: {told}" if told and name not in FILE_TOOLS else told or name
    said = " ".join(clean(told).split()) or "?"
    return said if len(said) <= TOOL_CHARS else f"{said[: TOOL_CHARS - 1]}…"


def _below(words: Part, line: Part) -> Part:
    above = f"{words.text}\n\n"
    moved = (MessageEntity(each.type, each.offset + units(above), each.length) for each in line.entities)
    return Part(above + line.text, (*words.entities, *moved))
