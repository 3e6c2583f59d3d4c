"""Preview text of a running turn: the answer so far, the todo list, and the running tools."""

from collections.abc import Sequence

from telegram import MessageEntity

from rumi.agent.events import ToolStarted
from rumi.agent.todo_list import TodoItem, shown_lines
from rumi.agent.tool_names import FILE_TOOLS
from rumi.channels.telegram.formatting.reply import MessagePart, format_preview, stacked
from rumi.channels.telegram.formatting.spans import LIMIT_UNITS, blank, clean, units
from rumi.chats.events import TurnState
from rumi.chats.status import gist
from rumi.platform.printable import last_lines
from rumi.platform.texts import telegram as telegram_texts
from rumi.texts import Language, gettext

TOOL_CHARS = 60
"""Maximum number of characters shown of a tool's arguments."""

STEP_CHARS = 100
"""Maximum number of characters shown of a call's last step, or of a line of its output."""

OUTPUT_LINES = 3
"""Maximum number of lines shown of a running command's output."""

TODO_CHARS = 100
"""Maximum number of characters shown of an item of the todo list."""

MOST_CALLS = 3
"""Maximum number of running calls that are shown with their last step."""


def has_content(state: TurnState) -> bool:
    """Return True if a turn has text, running tools or a todo list; False if the model is only thinking."""
    return bool(state.calls or state.todo) or not blank(state.words)


def sketch(state: TurnState, language: Language, *, plain: bool = False) -> MessagePart:
    """Return a turn's preview: the text so far, the todo list, and the running tools.

    `plain` omits formatting.
    """
    line, said = _tools(state, language), state.words
    if state.todo:
        todo = _todo(state.todo)
        if line is None and blank(said):
            line = _idle(state, language)
        line = stacked(todo, line) if line else todo
    if not blank(said):
        words = format_preview(said, LIMIT_UNITS - (units(line.text) + 2 if line else 0))
        line = stacked(words, line) if line else words
    if line is None:
        line = _idle(state, language)
    return line.plain() if plain else line


def _idle(state: TurnState, language: Language) -> MessagePart:
    """Return the line for a turn in which nothing runs but the model: what it waits for, if anything."""
    if state.waiting is not None:
        return MessagePart(f"⏳ {_short(state.waiting.what.why, STEP_CHARS)}")
    return MessagePart(gettext(language, "💭 thinking…"))


def _todo(items: Sequence[TodoItem]) -> MessagePart:
    text, codes = "", []
    for line in shown_lines(items):
        mark, _, item = line.partition(" ")
        text += f"\n{mark} " if text else f"{mark} "
        item = _short(item, TODO_CHARS)
        codes.append(MessageEntity(MessageEntity.CODE, units(text), units(item)))  # prevents links
        text += item
    return MessagePart(text, tuple(codes))


def _tools(state: TurnState, language: Language) -> MessagePart | None:
    """Return lines for the latest running tool and for running tools with steps, each above its last step."""
    if not state.calls:
        return None
    calls = [event.what for event in state.calls.values()]
    below = {started.call.id: _below_call(state, started.call.id) for started in calls}
    shown = [started for started in calls if started is calls[-1] or below[started.call.id]][-MOST_CALLS:]
    first, *others = (_tool(started, below[started.call.id], language) for started in shown)
    for line in others:
        first = stacked(first, line, "\n")
    return first


def _below_call(state: TurnState, call: str) -> list[str]:
    """Return the last step of a running call, or the last lines of its output."""
    lines = last_lines(state.output(call), OUTPUT_LINES) or [state.step(call)]
    return [line for line in (_short(line, STEP_CHARS) for line in lines) if line]


def _tool(called: ToolStarted, below: Sequence[str], language: Language) -> MessagePart:
    what = tool_line(called)
    line = telegram_texts.tool_runs(language, what, called.call.name if gist(called.arguments) else "")
    codes = [MessageEntity(MessageEntity.CODE, units(line[: line.rindex(what)]), units(what))]
    for step in below:
        line += "\n↳ "
        codes.append(MessageEntity(MessageEntity.CODE, units(line), units(step)))  # prevents links
        line += step
    return MessagePart(line, tuple(codes))


def tool_line(started: ToolStarted) -> str:
    """Return a short description of a call, on one line: `bash: sleep 600`, or the file of a file tool."""
    name, summary = started.call.name, gist(started.arguments)
    summary = f"{name}: {summary}" if summary and name not in FILE_TOOLS else summary or name
    return _short(summary, TOOL_CHARS) or "?"


def _short(text: str, most: int) -> str:
    """Return the text on one line, shortened to at most `most` characters."""
    said = " ".join(clean(text).split())
    return said if len(said) <= most else f"{said[: most - 1]}…"
