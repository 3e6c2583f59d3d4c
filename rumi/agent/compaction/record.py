"""The record: what the program knows exactly about the part of a conversation that a summary replaces.

It is computed from the arguments of calls and from their results, never written by a model: the files that
were read and changed, the todo list, the ends of errors that nothing resolved, and the request of a turn
whose later steps are still in the prompt. It is stored as the end of the summary's text, from which the next
record is read again.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rumi.agent.todo_list import TODO, TodoItem, todo_items
from rumi.agent.tool_names import CHANGING_FILES
from rumi.models.fitting import without_notes
from rumi.models.model import Message, text_tokens

RECORD: Final = "[Recorded by the program]"
"""The first line of a record."""

READING: Final = frozenset({"read_file", "read"})

MOST_FILES: Final = 40
PATH_CHARS: Final = 200
MOST_ERRORS: Final = 3
ERROR_LINES: Final = 6
LINE_CHARS: Final = 160
REQUEST_CHARS: Final = 1_200

_CHANGED: Final = "Files changed:"
_READ: Final = "Files read:"
_LIST: Final = "Todo list:"
_ERRORS: Final = "Last errors:"
_REQUEST: Final = "The user's last request: "

_ITEM: Final = re.compile(r"- \[(open|doing|done)\] (.+)")
_FAILED: Final = re.compile(r"[^\n]*\bexit code (?!0\b)|timed out|killed|the sandbox ended")
"""The first line of the result of a command that failed."""
_NO_CHANGE: Final = re.compile(r"[^\n]{0,300} is as it was|(?:edit|write)_file |not run|interrupted")
"""The beginning of the result of a file tool that changed nothing."""


@dataclass(frozen=True, slots=True)
class Record:
    """The files, the todo list and the errors, each with the latest last. `errors` maps calls to lines."""

    changed: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    todo: tuple[TodoItem, ...] = ()
    errors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    request: str = ""

    def text(self, max_tokens: int) -> str:
        """Return the record as a block of at most about `max_tokens` tokens; empty if there is nothing.

        Old errors and files are left out first.
        """
        left = max_tokens - text_tokens(RECORD)
        todo = [f"- [{item.state}] {item.text}" for item in self.todo]
        errors = [
            "\n".join((f"- {call}", *(f"  | {line}" for line in lines)))
            for call, lines in self.errors.items()
        ]
        changed, read = ([f"- {name}" for name in names] for names in (self.changed, self.read))
        parts: list[str] = []
        for title, rows, share in (
            (_LIST, todo, 1.0),
            (_REQUEST, [self.request] if self.request else [], 1.0),
            (_CHANGED, changed, 0.5),
            (_ERRORS, errors, 1.0),
            (_READ, read, 1.0),
        ):
            kept = _latest(rows, int(left * share) - text_tokens(title))
            if kept:
                part = "\n".join((title, *kept)) if title != _REQUEST else title + kept[0]
                left -= text_tokens(part)
                parts.append(part)
        return "\n".join((RECORD, *parts)) if parts else ""


def record_of(messages: Sequence[Message], earlier: str = "", *, cut: bool = False) -> Record:
    """Return the record of these messages, which continues the record in the text of an `earlier` summary.

    `cut` means that the messages end within a turn, whose request the record then contains.
    """
    last = recorded_in(earlier)
    changed, read, errors = list(last.changed), list(last.read), dict(last.errors)
    todo, request = last.todo, last.request
    results = {message.tool_call_id: message.content for message in messages if message.role == "tool"}
    for message in messages:
        if message.role == "user" and message.content.strip():
            request = _middle_out(" ".join(message.content.split()), REQUEST_CHARS)
        for call in message.tool_calls:
            arguments, result = call.parsed_arguments, without_notes(results.get(call.id, ""))
            path = arguments.get("path")
            if call.name == TODO:
                items = todo_items(arguments)
                todo = todo if items is None else items
            elif isinstance(path, str) and call.name in CHANGING_FILES and not _NO_CHANGE.match(result):
                _move_to_end(changed, path)
            elif isinstance(path, str) and call.name in READING:
                _move_to_end(read, path)
            elif call.name == "bash":
                title = _line(f"$ {arguments.get('command', '')}")
                errors.pop(title, None)
                if lines := _end_of_error(result):
                    errors[title] = lines
    return Record(
        tuple(changed[-MOST_FILES:]),
        tuple(name for name in read if name not in changed)[-MOST_FILES:],
        todo,
        dict(list(errors.items())[-MOST_ERRORS:]),
        request if cut else "",
    )


def recorded_in(text: str) -> Record:
    """Return the record at the end of a summary's text; an empty record if there is none."""
    _, found, block = text.rpartition(RECORD)
    if not found:
        return Record()
    names: dict[str, list[str]] = {_CHANGED: [], _READ: []}
    todo: list[TodoItem] = []
    errors: dict[str, list[str]] = {}
    request = title = call = ""
    for line in block.splitlines():
        if line in (_CHANGED, _READ, _LIST, _ERRORS):
            title = line
        elif line.startswith(_REQUEST):
            request, title = line.removeprefix(_REQUEST), ""
        elif title == _LIST and (item := _ITEM.fullmatch(line)):
            todo.append(TodoItem(item[2], item[1]))  # type: ignore[arg-type]
        elif title in names and line.startswith("- "):
            names[title].append(line[2:])
        elif title == _ERRORS and line.startswith("- "):
            call = line[2:]
            errors[call] = []
        elif title == _ERRORS and line.startswith("  | ") and call:
            errors[call].append(line[4:])
    ends = {call: tuple(lines) for call, lines in errors.items()}
    return Record(tuple(names[_CHANGED]), tuple(names[_READ]), tuple(todo), ends, request)


def without_record(text: str) -> str:
    """Return a summary's text without its record."""
    head, found, _ = text.rpartition(RECORD)
    return head.rstrip() if found else text


def last_todo(messages: Iterable[Message], summary: str = "") -> tuple[TodoItem, ...]:
    """Return the latest todo list of a history, whose beginning the `summary` replaces."""
    for message in reversed(list(messages)):
        for call in reversed(message.tool_calls):
            if call.name == TODO and (items := todo_items(call.parsed_arguments)) is not None:
                return items
    return recorded_in(summary).todo


def _move_to_end(names: list[str], path: str) -> None:
    name = " ".join(path.removeprefix("/workspace/").split())[:PATH_CHARS]
    if name in names:
        names.remove(name)
    if name:
        names.append(name)


def _end_of_error(result: str) -> tuple[str, ...]:
    """Return the last lines of a failed command's result; none if it succeeded or printed nothing."""
    if not _FAILED.match(result):
        return ()
    first, *lines = filter(None, map(str.strip, result.splitlines()))
    said = [line for line in lines if line not in ("(no output)", "output:", "error output:")]
    return (
        tuple(map(_line, (first, *said[-ERROR_LINES:]))) if said or not first.startswith("exit code") else ()
    )


def _line(text: str) -> str:
    """Return a text as one line that no part of a record can be mistaken for."""
    line = " ".join(text.split()).replace(RECORD, "")
    return line if len(line) <= LINE_CHARS else f"{line[: LINE_CHARS - 1]}…"


def _middle_out(text: str, most: int) -> str:
    text = text.replace(RECORD, "")
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 2 :]}"


def _latest(rows: Sequence[str], max_tokens: int) -> list[str]:
    """Return the last rows that take at most `max_tokens` together, in order."""
    kept: list[str] = []
    for row in reversed(rows):
        max_tokens -= text_tokens(row) + 1
        if max_tokens < 0:
            break
        kept.insert(0, row)
    return kept
