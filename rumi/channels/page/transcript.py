"""Transcript of a chat for all of its browser views: messages, growing answers, and replies.

It is built from the chat's events, and from what the journal has stored. Each message that an event concerns
is read from the journal again when its reply has come, so a transcript is the same after a restart.
"""

from collections.abc import Iterable, Sequence
from secrets import token_urlsafe
from typing import Final, Protocol

import trio

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
from rumi.agent.todo_list import TODO
from rumi.channels.page.entries import (
    Part,
    TranscriptEntry,
    command_buttons,
    message_of,
    oldest_of,
    outcome,
    question_part,
    reply_entry,
    said_entry,
    said_parts,
    same_part,
    text_part,
    todo_part,
    tool_part,
    turn_at,
    with_usage,
)
from rumi.channels.page.rendering.blocks import GrowingMarkdown
from rumi.channels.page.stored import close, entries_of
from rumi.chats.events import MOST_STEPS, OUTPUT_CHARS, ChatEvent, Queued, Replied, TurnRestarted, TurnStarted
from rumi.models.model import Discarded, TextDelta, Waiting
from rumi.store.journal.records import Attachment
from rumi.store.journal.shown import CallFigures, ShownQuestion
from rumi.store.journal.transcript import StoredMessage

MOST_ENTRIES: Final = 200
"""Maximum number of entries in memory. Above it, the oldest are dropped; the journal stores all of them."""

MESSAGES: Final = 60
"""Maximum number of messages that are read from the journal at once."""


MOST_CHANGED: Final = 8
"""Number of earlier messages that are read again after each reply, because it may have changed them."""


class Watcher(Protocol):
    """Is told that something changed."""

    def wake(self) -> None:
        """Look for changes. Must not wait."""
        ...


class Transcript:
    """The entries of a chat. `mark` counts the changes, so that a view knows what it has sent.

    A view reads the current state, so a slow view sees fewer intermediate states. `epoch` names this object:
    marks of another one mean nothing. `wanted` are the numbers of messages to read from the journal.
    `stirred` is set when there is something to render or to read.
    """

    def __init__(self) -> None:
        self.epoch = token_urlsafe(6)
        self.mark = 0
        self.entries: dict[str, TranscriptEntry] = {}
        self.earlier = False
        """True if the journal has entries that precede the first entry in memory."""
        self.watchers: set[Watcher] = set()
        self.wanted: set[int] = set()
        self.stirred = trio.Event()
        self.gone: dict[str, int] = {}
        """The marks at which entries were removed, by id."""
        self.figures: dict[str, object] = {}
        self.figures_changed = 0
        self._created: dict[str, int] = {}
        self._branched: set[str] = set()
        self._touched: dict[str, int] = {}  # marks of the last changes, in their order
        self._hidden: set[str] = set()  # turns of schedules, which are shown with their reply or never

    @property
    def working(self) -> bool:
        """Return True if a turn is running."""
        return any(entry.state == "running" for entry in self.entries.values())

    def created(self, entry: TranscriptEntry) -> int:
        """Return the mark at which an entry was added."""
        return self._created[entry.id]

    def in_order(self) -> list[TranscriptEntry]:
        """Return the entries in the order in which they are shown."""
        return sorted(self.entries.values(), key=lambda entry: entry.at)

    def since(self, mark: int) -> list[TranscriptEntry]:
        """Return the entries that were added, have changed or have grown after a mark, in their order.

        Takes time in proportion to these entries, because each view asks each time words are added.
        """
        found: list[TranscriptEntry] = []
        for id in reversed(self._touched):
            if self._touched[id] <= mark:
                break
            found.append(self.entries[id])
        return sorted(found, key=lambda entry: entry.at)

    # What the journal has

    def begin(self, messages: Sequence[StoredMessage], more: bool) -> None:
        """Add what is stored. `more` means that the journal has earlier messages."""
        self.stored(messages)
        self.earlier = self.earlier or more

    def stored(self, messages: Iterable[StoredMessage]) -> None:
        """Add or correct the entries of messages that were read from the journal."""
        for message in messages:
            self.wanted.discard(message.message)
            if message.branches and f"t{message.message}" not in self._branched:
                # What it leaves behind has become an earlier version.
                self._branched.add(f"t{message.message}")
                self.want(*self._numbers(message.branches, message.message))
            for entry in entries_of(message):
                self._put(entry)

    def _put(self, new: TranscriptEntry) -> None:
        old = self.entries.get(new.id)
        if old is None:
            self._add(new)
            return
        if old.state == "running" and new.state == "running":
            self._complete(old, new)
            return
        if old.state == "running" or (old.state == "done" and new.state in ("running", "queued")):
            return  # the reader was faster than the events, or the other way round
        head = old.head
        old.state, old.began, old.ended, old.reason = new.state, new.began, new.ended, new.reason
        old.at, old.messages, old.session, old.source = new.at, new.messages, new.session, new.source
        old.buttons = new.buttons
        old.branches, old.undone, old.replaced, old.about = new.branches, new.undone, new.replaced, new.about
        old.delivery, old.seen = new.delivery, new.seen
        kept = {part.n: part for part in old.parts}
        parts = [same_part(kept.get(part.n), part) for part in new.parts]
        fresh = [part for part in parts if part is not kept.get(part.n)]
        if old.head != head or fresh or len(parts) != len(old.parts):
            old.parts = parts
            self._changed(old, *fresh)

    def _complete(self, live: TranscriptEntry, stored: TranscriptEntry) -> None:
        """Put what a running turn did before its events were followed in front of what they have shown."""
        shown = {part.data.get("id") for part in live.parts if part.kind == "tool"}
        before = [part for part in stored.parts if part.data.get("state") != "running"]
        if any(part.kind == "tool" and part.data["id"] in shown for part in before):
            return  # the turn was followed from its beginning
        first = next((part.raw.strip() for part in live.parts if part.kind == "text"), None)
        if before and before[-1].kind == "text" and (first is None or before[-1].raw.strip() == first):
            before.pop()
        if not before:
            return
        parts = [*before, *live.parts]
        for number, part in enumerate(parts):
            part.n = number
        live.parts = parts
        self._changed(live, *parts)

    # Actions of browser views

    def said(self, number: int, text: str, now: float, attachments: Sequence[Attachment] = ()) -> None:
        """Show a message that was stored under this number."""
        entry = self.entries.get(f"m{number}")
        parts = said_parts(text, attachments)
        if entry is None:
            self._add(said_entry(number, parts, now))
        elif [part.data for part in entry.parts] != parts:
            entry.parts = [Part(place, data) for place, data in enumerate(parts)]
            self._changed(entry, *entry.parts)

    def seen(self, delivery: int) -> None:
        """Record that a person has seen the reply with this delivery."""
        for entry in self.entries.values():
            if entry.delivery == delivery and not entry.seen:
                entry.seen = True
                self._changed(entry)

    def interrupted(self) -> None:
        """End running entries, because the worker that reported them no longer runs."""
        for entry in list(self.entries.values()):
            if entry.state == "running":
                self.wanted.update(entry.messages)
                self._finish(entry, "interrupted", "", 0.0)
        self.stir()

    # Events

    def happened(self, event: ChatEvent) -> None:
        """Apply an event of the chat."""
        match event.what:
            case TurnStarted() as started:
                self._started(event, started)
            case Queued(message, text):
                entry = self._message(message, "", event.time)
                entry.state, entry.about = "queued", {"note": text}
                self._changed(entry)
            case Replied() as reply:
                self._replied(event, reply)
            case _ if event.turn not in self._hidden:
                found = self.entries.get(event.turn)
                if found is not None and found.state == "running":
                    self._work(found, event)
            case _:
                pass

    def _started(self, event: ChatEvent, started: TurnStarted) -> None:
        if started.schedule:
            self._hidden.add(event.turn)
            return
        number = started.message or message_of(event.turn)
        said = self._message(number, started.text, event.time)
        if said.state == "queued":
            said.state, said.about = "sent", {}
            self._changed(said)
        entry = self.entries.get(event.turn)
        if entry is None:
            entry = TranscriptEntry(
                event.turn, turn_at((number,)), "answer", began=event.time, messages=(number,)
            )
            entry.state = "running"
            self._add(entry)
        elif entry.state != "running":  # a turn that goes on after a restart
            entry.state, entry.reason = "running", ""
            for part in entry.parts:
                if part.data.get("state") == "running":
                    part.data["state"] = "failed"
            self._changed(entry, *entry.parts)

    def _message(self, number: int, text: str, at: float) -> TranscriptEntry:
        """Return the entry of what was said; read it from the journal if it was not sent from here."""
        entry = self.entries.get(f"m{number}")
        if entry is None:
            self.want(number)
            entry = self._add(said_entry(number, [text_part(text)] if text else [], at))
        return entry

    def _work(self, entry: TranscriptEntry, event: ChatEvent) -> None:
        match event.what:
            case TextDelta(text):
                self._grow(entry, text)
            case Thinking():
                self._seal(entry)
                self._drop_waiting(entry)
            case TurnRestarted(_, messages):
                for number in messages:
                    said = self._message(number, "", event.time)
                    said.state, said.about = "sent", {}
                    self._changed(said)
                entry.messages, entry.at, entry.parts = messages, turn_at(messages), []
                self._changed(entry)
            case Discarded():
                if entry.last_text is not None and entry.last_text.growing is not None:
                    entry.parts.pop()
                self._changed(entry)
            case Waiting(seconds, why):
                self._drop_waiting(entry)
                part = entry.add({"kind": "waiting", "until": event.time + seconds, "why": why})
                self._changed(entry, part)
            case CallFigures() as call:
                entry.about = with_usage(entry.about, call)
                thought = entry.think(call)
                self._changed(entry, *([] if thought is None else [thought]))
            case ToolStarted(call, arguments) if call.name == TODO and (data := todo_part(arguments)):
                self._seal(entry)
                self._changed(entry, entry.list_todo(data))
            case ToolStarted(call) as started:
                self._seal(entry)
                part = entry.add(tool_part(call.id, call.name, title_of(started, str)))
                self._changed(entry, part)
            case ToolProgress(call_id, text, number):
                for part in entry.tools(call_id):
                    # A new list: shapes refer to the old one.
                    steps = [*part.data.get("steps", ()), {"number": number, "text": text}]
                    part.data["steps"] = steps[-MOST_STEPS:]
                    self._grown(part)
            case ToolOutput(call_id, text):
                for part in entry.tools(call_id):
                    part.data["output"] = (str(part.data.get("output", "")) + text)[-OUTPUT_CHARS:]
                    self._grown(part)
            case ToolFinished(call, shown=shown):
                for part in entry.tools(call.id):
                    data = {key: value for key, value in part.data.items() if key not in ("output", "steps")}
                    part.data = data | outcome(shown)
                    self._changed(entry, part)
            case ConfirmationAsked(id, text, whole):
                self._seal(entry)
                part = entry.add(question_part(ShownQuestion(id, text, whole)))
                self._changed(entry, part)
            case ConfirmationEnded(id, verdict):
                for part in entry.parts:
                    if part.kind == "question" and part.data["id"] == id:
                        part.data = part.data | {"verdict": verdict}
                        self._changed(entry, part)
            case TurnFinished(reason, answer):
                self._finish(entry, reason, answer, event.time)
            case _:
                pass

    def _grow(self, entry: TranscriptEntry, text: str) -> None:
        part = entry.last_text
        if part is None or part.growing is None:
            self._drop_waiting(entry)
            part = entry.add(text_part(text), [])
            part.growing = GrowingMarkdown()
            self._changed(entry, part)
        else:
            part.data["raw"] += text
            self._grown(part)
        if "\n" in text:
            self.stir()

    def _seal(self, entry: TranscriptEntry) -> None:
        """End the growth of the last text."""
        if entry.last_text is not None and entry.last_text.growing is not None:
            entry.last_text.ended = True
            self.stir()

    def _drop_waiting(self, entry: TranscriptEntry) -> None:
        if entry.parts and entry.parts[-1].kind == "waiting":
            entry.parts.pop()
            self._changed(entry)

    def _finish(self, entry: TranscriptEntry, reason: str, answer: str, time: float) -> None:
        """End an answer: `answer` is its final text, or what is said of a turn without one."""
        self._drop_waiting(entry)
        changed = list[Part]()
        for part in entry.parts:
            if part.data.get("state") == "running":
                part.data = part.data | {"state": "failed"}
                changed.append(part)
            if part.data.get("verdict") == "":
                part.data = part.data | {"verdict": "expired"}
                changed.append(part)
        entry.reason, entry.state, entry.ended = reason, "done", time or entry.ended
        self._changed(entry, *changed)
        self._end(entry, answer)

    def _end(self, entry: TranscriptEntry, text: str) -> None:
        """Make this the final text of an entry whose reason is known."""
        last = entry.last_text
        before, count = last.raw if last is not None else "", len(entry.parts)
        growing = None if last is None else last.growing
        close(entry, text, entry.reason)
        if len(entry.parts) > count:
            self._changed(entry, entry.parts[-1])
        elif last is not None and last.raw != before:
            if growing is not None and last.raw.startswith(before):
                last.blocks = list(growing.blocks)
                self._grown(last)
            else:
                last.growing = None
                self._changed(entry, last)
        for part in entry.parts:
            part.ended = True
        self.stir()

    def _replied(self, event: ChatEvent, reply: Replied) -> None:
        hidden = event.turn in self._hidden
        self._hidden.discard(event.turn)
        if reply.figures is not None:
            figures = reply.figures
            self.mark += 1
            self.figures_changed = self.mark
            self.figures = {"session": figures.session, "tokens": figures.tokens, "window": figures.window}
        if reply.silent:
            for number in reply.messages:
                self._remove(f"m{number}")
            return
        for number in reply.messages:
            said = self.entries.get(f"m{number}")
            if said is not None and said.state == "queued":
                said.state, said.about = "sent", {}
                self._changed(said)
        self.want(*reply.messages)
        # A reply may have changed what came before it: an undo strikes turns out, a retry replaces one.
        self.want(*self._numbers(0, min(reply.messages, default=0))[-MOST_CHANGED:])
        if hidden:
            return  # it is shown with what is read from the journal
        entry = self.entries.get(event.turn) if event.turn else None
        if entry is not None:
            if entry.state == "running":  # the event of its end was missed
                self._finish(entry, reply.reason or "", "", event.time)
            entry.buttons = command_buttons(reply)
            self._end(entry, reply.text)
            entry.delivery, entry.seen = reply.delivery, False
            if reply.note and not any(part.data.get("text") == reply.note for part in entry.parts):
                self._changed(entry, entry.add({"kind": "note", "text": reply.note}))
            self._changed(entry)
        elif f"r{reply.delivery}" not in self.entries:
            self._add(reply_entry(reply, event.time))

    def _add(self, entry: TranscriptEntry) -> TranscriptEntry:
        self.entries[entry.id] = entry
        self.mark += 1
        self._created[entry.id] = self.mark
        self._changed(entry)
        if len(self.entries) > MOST_ENTRIES:
            self._drop_oldest(entry)
        return entry

    def _numbers(self, first: int, behind: int) -> list[int]:
        """Return the numbers of the messages in memory, from `first` on and before `behind`."""
        known = {number for entry in self.entries.values() for number in entry.messages}
        return sorted(number for number in known if first <= number < behind)

    def _drop_oldest(self, added: TranscriptEntry) -> None:
        """Drop the oldest message that is done, with its turn and reply. They are read again together."""
        for entry in oldest_of(self.in_order(), added.messages):
            self._forget(entry.id)
            self.earlier = True

    def _forget(self, id: str) -> None:
        del self.entries[id], self._created[id], self._touched[id]

    def _remove(self, id: str) -> None:
        """Remove an entry: its message was dropped while it waited."""
        if id in self.entries:
            self._forget(id)
            self.mark += 1
            self.gone[id] = self.mark
            self._wake()

    def want(self, *numbers: int) -> None:
        """Read these messages from the journal soon."""
        self.wanted.update(number for number in numbers if number > 0)
        self.stir()

    def stir(self) -> None:
        """Wake the task that renders and reads."""
        self.stirred.set()

    def growing(self) -> list[Part]:
        """Return the parts whose text grows, or has ended and is not rendered to its end."""
        return [part for entry in self.entries.values() for part in entry.parts if part.growing is not None]

    def rendered(self, part: Part, of: GrowingMarkdown, *, ended: bool) -> None:
        """Take over the blocks that were rendered of a growing part; `ended` means to its end."""
        if part.growing is not of:
            return  # the text was replaced while it was rendered
        before, part.blocks = part.blocks or [], list(of.blocks)
        if ended and of.text == part.raw:  # otherwise it has ended or grown meanwhile
            part.growing = None
        self._grown(part)
        if of.restated and part.blocks[: len(before)] != before:
            part.changed = self.mark

    def _grown(self, part: Part) -> None:
        self.mark += 1
        part.grown = self.mark
        # The last entries are the ones that grow.
        entry = next((entry for entry in reversed(self.entries.values()) if part in entry.parts), None)
        if entry is not None:
            self._touch(entry)
        self._wake()

    def _changed(self, entry: TranscriptEntry, *parts: Part) -> None:
        self.mark += 1
        entry.changed = self.mark
        for part in parts:
            part.changed = self.mark
        self._touch(entry)
        self._wake()

    def _touch(self, entry: TranscriptEntry) -> None:
        if self.entries.get(entry.id) is entry:  # not one that was dropped meanwhile
            self._touched.pop(entry.id, None)
            self._touched[entry.id] = self.mark

    def _wake(self) -> None:
        for watcher in self.watchers:
            watcher.wake()
