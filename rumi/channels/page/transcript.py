"""Transcript of a chat for all of its browser views: messages, replies, and growing answers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any, Literal, Protocol

from rumi.agent.compaction.record import last_todo
from rumi.agent.events import (
    ConfirmationAsked,
    ConfirmationEnded,
    Thinking,
    ToolFinished,
    ToolOutput,
    ToolProgress,
    ToolStarted,
    TurnFinished,
    title_of,
)
from rumi.agent.prompts.message_entries import without_note
from rumi.agent.todo_list import MARKS, TODO, todo_items
from rumi.agent.tool import ToolResult
from rumi.chats.events import MOST_STEPS, OUTPUT_CHARS, ChatEvent, Queued, Replied, TurnRestarted, TurnStarted
from rumi.chats.session import ended
from rumi.models.model import Discarded, Message, TextDelta, Waiting
from rumi.platform.untrusted_text import read_block
from rumi.sandbox.incoming import file_in
from rumi.store.journal.records import StoredEntry

MOST_ENTRIES = 200
"""Maximum number of entries in memory. Above it, the oldest are dropped; the journal stores all of them."""

SHOWN_CHARS = 2000
"""Maximum number of characters shown of a tool's result."""

TITLE_CHARS = 400
"""Maximum number of characters shown of a tool call's arguments."""


class Watcher(Protocol):
    """Receives the ids of changed entries."""

    def changed(self, entry: str) -> None:
        """Mark the entry as changed. Must not wait."""
        ...


@dataclass(slots=True, eq=False)
class TranscriptEntry:
    """A message, an answer that may still grow, or a reply to a command.

    `parts` have the format that the page's script expects. `steps` counts the steps and pieces of output that
    running tool calls report. `revision` counts all other changes, except growth of the last part's text.
    `delivery` is the number of the reply's delivery, which is acknowledged when a person has seen the entry.
    """

    id: str
    kind: Literal["you", "answer", "reply"]
    state: Literal["sending", "sent", "failed", "queued", "running", "done"]
    parts: list[dict[str, object]]
    began: float = 0.0
    turn: str = ""
    number: int = 0
    reason: str = ""
    delivery: int = 0
    revision: int = 0
    steps: int = 0

    def shape(self) -> dict[str, object]:
        """Return the entry as an object that JSON can represent."""
        return {
            "id": self.id,
            "kind": self.kind,
            "state": self.state,
            "parts": [dict(part) for part in self.parts],
            "began": self.began,
            "reason": self.reason,
            "delivery": self.delivery,
        }

    @property
    def showing(self) -> dict[str, object]:
        """Return the latest steps and output of each running tool call, by call id."""
        running = (part for part in self.parts if part.get("state") == "running")
        shown = ("steps", "output")
        return {str(part["id"]): {key: part[key] for key in shown if key in part} for part in running}

    @property
    def growing(self) -> str:
        """Return the text of the last part; empty if the last part is not a text."""
        last = self.parts[-1] if self.parts else {}
        return str(last["text"]) if last.get("kind") == "text" else ""


def stored_entries(rows: Sequence[StoredEntry]) -> Iterator[TranscriptEntry]:
    """Yield entries for stored history rows, with a separator between sessions.

    Of the calls, only the last todo list of each turn is shown.
    """
    session = rows[0].session if rows else 0
    last: dict[str, tuple[int, dict[str, object]]] = {}
    for row in rows:
        if (todo := _todo_in(row.entry.message)) is not None:
            last[row.entry.turn] = (row.id, todo)
    lists = dict(last.values())
    for row in rows:
        message, turn = row.entry.message, row.entry.turn
        id, text = f"h{row.id}", message.content
        text = without_note(text) if message.role == "user" else text
        if row.session != session and text:
            session = row.session
            yield TranscriptEntry(f"s{row.id}", "reply", "done", [{"kind": "session"}], row.at)
        if message.role == "user" and text and not _announces(text):
            yield TranscriptEntry(id, "you", "sent", [_handed(text)], row.at, turn)
        elif message.role == "assistant" and (text or row.id in lists):
            said, reason = ended(text)
            parts = [*([_text(said)] if said else []), *([lists[row.id]] if row.id in lists else [])]
            yield TranscriptEntry(id, "answer", "done", parts, row.at, turn, reason=reason)


class Transcript:
    """The entries of a chat, oldest first. Watchers are told which entries changed, but not how.

    A watcher then reads the current state, so a slow watcher sees fewer intermediate states and stores at
    most one mark per entry.
    """

    def __init__(self) -> None:
        self.entries: dict[str, TranscriptEntry] = {}
        self.earlier = False
        """True if the journal has entries that precede the first entry in memory."""
        self.watchers: set[Watcher] = set()
        self._ids = count(1)
        self._scheduled: tuple[ChatEvent | None, TurnFinished | None] = (None, None)

    @property
    def working(self) -> bool:
        """Return True if a turn is running."""
        return any(entry.state == "running" for entry in self.entries.values())

    # Actions of browser views

    def say(self, text: str, now: float, files: Sequence[str] = ()) -> TranscriptEntry:
        """Add a message that is about to be sent, so that it precedes all entries that result from it."""
        parts = [*map(_file, files), *([_text(text)] if text.strip() else [])]
        return self._add(TranscriptEntry(self._id(), "you", "sending", parts, now))

    def sent(self, entry: TranscriptEntry, number: int) -> None:
        """Record that the message is stored under this number."""
        entry.number, entry.state = number, "sent"
        self._changed(entry)

    def failed(self, entry: TranscriptEntry, why: str) -> None:
        """Record that the message was not accepted."""
        entry.state = "failed"
        entry.parts.append({"kind": "note", "text": why})
        self._changed(entry)

    # History

    def begin(self, rows: Sequence[StoredEntry]) -> None:
        """Insert the stored history before entries that events added while the history was loading."""
        since, self.entries = self.entries, {}
        followed = {entry.turn for entry in since.values()}
        self.earlier = len(rows) >= MOST_ENTRIES
        # Turns that were followed live have entries already.
        for entry in stored_entries([row for row in rows if row.entry.turn not in followed]):
            self._add(entry)
        for entry in since.values():
            self._add(entry)

    def undelivered(self, reply: Replied) -> None:
        """Add an unacknowledged reply, unless it was already added from an event or from the history."""
        if any(entry.delivery == reply.delivery for entry in self.entries.values()):
            return
        # The history has no delivery numbers: a last answer with the same text is this reply.
        last = next(reversed(self.entries.values()), None)
        if last is not None and last.kind == "answer" and last.growing == reply.text:
            last.delivery = reply.delivery
            self._changed(last)
        else:
            self._reply(reply, 0.0)

    def interrupted(self) -> None:
        """End running entries, because the worker that reported them no longer runs."""
        for entry in list(self.entries.values()):
            if entry.state == "running":
                self._finish(entry, "interrupted", entry.growing)

    # Events

    def happened(self, event: ChatEvent) -> None:
        """Apply an event of the chat."""
        match event.what:
            case TurnStarted(schedule=schedule) if schedule:
                self._scheduled = (event, None)
            case TurnFinished() as finished if event.turn == self._scheduled_turn:
                self._scheduled = (self._scheduled[0], finished)
            case TurnStarted(text, number):
                self._said(text, number, event.time)
                self._add(TranscriptEntry(self._id(), "answer", "running", [], event.time, event.turn))
            case Queued(_, text):
                note: dict[str, object] = {"kind": "note", "text": text}
                self._add(TranscriptEntry(self._id(), "reply", "queued", [note], event.time))
            case Replied() as reply:
                self._replied(event, reply)
            case _:
                entry = self._answer(event.turn)
                if entry is not None:
                    self._work(entry, event)

    def _work(self, entry: TranscriptEntry, event: ChatEvent) -> None:
        match event.what:
            case TextDelta(text):
                last = entry.parts[-1] if entry.parts else {}
                if last.get("kind") == "text":
                    last["text"] = f"{last['text']}{text}"
                    self._changed(entry, grown=True)
                else:
                    entry.parts.append(_text(text))
                    self._changed(entry)
            case Thinking():
                if entry.growing:
                    entry.parts.append(_text(""))
                    self._changed(entry)
            case TurnRestarted() as restarted:
                self._said_more(restarted)
                entry.parts.clear()
                self._changed(entry)
            case Discarded():
                if entry.growing:
                    entry.parts.pop()
                    self._changed(entry)
            case Waiting(seconds, why):
                entry.parts.append({"kind": "note", "text": f"{why} ({seconds:.0f} s)"})
                self._changed(entry)
            case ToolStarted(call, arguments) if call.name == TODO and todo_items(arguments) is not None:
                todo = _todo(arguments)
                known = next((each for each in entry.parts if each["kind"] == "todo"), None)
                if known is None:
                    entry.parts.append(todo)
                else:
                    known |= todo
                self._changed(entry)
            case ToolStarted(call) as started:
                title = title_of(started, str)
                title = title if len(title) <= TITLE_CHARS else f"{title[:TITLE_CHARS]}…"
                entry.parts.append({"kind": "tool", "id": call.id, "title": title, "state": "running"})
                self._changed(entry)
            case ToolProgress(call_id, text, number):
                for part in _running(entry, call_id):
                    steps = [
                        *part.get("steps", ()),
                        {"number": number, "text": text},
                    ]  # a new list: shapes refer to the old one
                    part["steps"] = steps[-MOST_STEPS:]
                    entry.steps += 1
                self._changed(entry, grown=True)
            case ToolOutput(call_id, text):
                for part in _running(entry, call_id):
                    part["output"] = (str(part.get("output", "")) + text)[-OUTPUT_CHARS:]
                    entry.steps += 1
                self._changed(entry, grown=True)
            case ToolFinished(call, result, count):
                for part in _running(entry, call.id):
                    part.pop("output", None)  # the result has it
                    part |= _outcome(result) | {"count": count}
                self._changed(entry)
            case ConfirmationAsked(id, text, whole):
                entry.parts.append(
                    {"kind": "question", "id": id, "text": text, "whole": whole, "verdict": ""}
                )
                self._changed(entry)
            case ConfirmationEnded(id, verdict):
                for part in entry.parts:
                    if part["kind"] == "question" and part["id"] == id:
                        part["verdict"] = verdict
                self._changed(entry)
            case TurnFinished(reason, answer):
                self._finish(entry, reason, answer)
            case _:
                pass

    def _finish(self, entry: TranscriptEntry, reason: str, answer: str) -> None:
        """Replace the growing text with the final answer, and end all parts that are still running."""
        if entry.growing and answer.startswith(entry.growing.rstrip()):
            entry.parts.pop()
        entry.parts = [part for part in entry.parts if part.get("text") != ""]
        for part in entry.parts:
            if part.get("state") == "running":
                part["state"] = "failed"
            if part.get("verdict") == "":
                part["verdict"] = "expired"
        if answer:
            entry.parts.append(_text(answer))
        entry.reason, entry.state = reason, "done"
        self._changed(entry)

    def _said(self, text: str, number: int, at: float) -> None:
        """Add the message that started a turn, unless it was sent from this page and so is already there."""
        for entry in reversed(self.entries.values()):
            files = any(part["kind"] == "file" for part in entry.parts)
            if entry.number == number:
                return
            # Its number is not known before `send` returns, and the turn may start earlier: compare the
            # content.
            if entry.state == "sending" and (files or entry.parts == [_text(text)]):
                return
        self._add(TranscriptEntry(self._id(), "you", "sent", [_text(text)], at, number=number))

    def _said_more(self, restarted: TurnRestarted) -> None:
        """Show all of the turn's message, unless the page shows its parts, because they were sent from it."""
        first, *further = restarted.messages
        entries = [entry for entry in self.entries.values() if entry.kind == "you"]
        if any(entry.number in further or entry.state == "sending" for entry in entries):
            return
        for entry in entries:
            if entry.number == first:
                entry.parts = [part for part in entry.parts if part["kind"] != "text"]
                entry.parts.append(_text(restarted.text))
                self._changed(entry)

    @property
    def _scheduled_turn(self) -> str:
        """The running turn of a schedule, which is shown only with its reply, because it may be silent."""
        started = self._scheduled[0]
        return "" if started is None else started.turn

    def _show_scheduled(self) -> None:
        """Show the beginning and the end of a schedule's turn, whose reply has come."""
        (started, finished), self._scheduled = self._scheduled, (None, None)
        if started is not None and isinstance(started.what, TurnStarted):
            self._said(started.what.text, started.what.message, started.time)
            answer = TranscriptEntry(self._id(), "answer", "running", [], started.time, started.turn)
            self._add(answer)
            if finished is not None:
                self._finish(answer, finished.reason, finished.answer)

    def _replied(self, event: ChatEvent, reply: Replied) -> None:
        if event.turn and event.turn == self._scheduled_turn:
            if reply.silent:
                self._scheduled = (None, None)
            else:
                self._show_scheduled()
        if reply.silent:
            return
        entry = self._answer(event.turn)
        if any(other.delivery == reply.delivery for other in self.entries.values()):
            return
        if entry is None:
            self._reply(reply, event.time)
            return
        if entry.state == "running":  # the event of its end was missed
            self._finish(entry, "", reply.text)
        entry.delivery = reply.delivery
        if reply.note:
            entry.parts.append({"kind": "note", "text": reply.note})
        self._changed(entry)

    def _reply(self, reply: Replied, at: float) -> None:
        self._add(
            TranscriptEntry(
                self._id(), "reply", "done", [_text(reply.with_commands)], at, delivery=reply.delivery
            )
        )

    def _answer(self, turn: str) -> TranscriptEntry | None:
        if not turn:
            return None
        found = (entry for entry in reversed(self.entries.values()) if entry.turn == turn)
        return next(found, None)

    def _add(self, entry: TranscriptEntry) -> TranscriptEntry:
        self.entries[entry.id] = entry
        while len(self.entries) > MOST_ENTRIES:
            del self.entries[next(iter(self.entries))]
            self.earlier = True
        self._changed(entry)
        return entry

    def _changed(self, entry: TranscriptEntry, *, grown: bool = False) -> None:
        if not grown:
            entry.revision += 1
        for watcher in self.watchers:
            watcher.changed(entry.id)

    def _id(self) -> str:
        return f"e{next(self._ids)}"


def _running(entry: TranscriptEntry, call: str) -> Iterator[dict[str, Any]]:
    """Yield the entry's part that shows this running tool call; nothing if no part shows it."""
    for part in entry.parts:
        if part.get("id") == call and part.get("state") == "running":
            yield part


def _outcome(result: ToolResult) -> dict[str, object]:
    return {
        "state": "ok" if result.ok and not result.exit_code else "failed",
        "exit": result.exit_code,
        "ms": result.duration_ms,
        "said": result.content[:SHOWN_CHARS],
        "diff": result.diff,
        "shows": list(result.shows),
        "cut": len(result.content) > SHOWN_CHARS or result.truncated,
    }


def _todo(arguments: Mapping[str, object]) -> dict[str, object]:
    """Return the part that shows a todo list. A new list, because shapes refer to the old one."""
    items = todo_items(arguments) or ()
    rows = [{"text": item.text, "state": item.state, "mark": MARKS[item.state]} for item in items]
    return {"kind": "todo", "items": rows}


def _todo_in(message: Message) -> dict[str, object] | None:
    """Return the part that shows the todo list of a stored message; None if the message has none."""
    items = last_todo([message])
    return _todo({"items": [asdict(item) for item in items]}) if items else None


def _text(text: str) -> dict[str, object]:
    return {"kind": "text", "text": text}


def _announces(text: str) -> bool:
    """Return True if the text only announces attachments, which have separate entries."""
    return text in ("[The user sends files.]", "[The user sends a voice message.]")


def _handed(text: str) -> dict[str, object]:
    """Return a part: the text that the user wrote, an attached file, or forwarded content with its source."""
    found = read_block(text)
    if found is None:
        return _text(text)
    sent = file_in(found[1])
    return {"kind": "handed", "source": found[0], "text": found[1]} if sent is None else _file(sent[0])


def _file(name: str) -> dict[str, object]:
    return {"kind": "file", "path": name}
