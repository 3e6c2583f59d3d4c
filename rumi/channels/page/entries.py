"""Entries of a chat on the page: what was said, answers with all their parts, and replies without a turn.

An entry is named after the number that the journal has given its message: `m12` is what was said, `t12` the
turn that message 12 began, and `r34` a reply without a turn, named after its delivery. So the same entry has
the same name while it grows, after a reload and after a restart. `at` orders entries.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, TypeAlias

from rumi.agent.todo_list import MARKS, todo_items
from rumi.channels.page.rendering.blocks import ClosedBlock, GrowingMarkdown, blocks_of
from rumi.chats.events import Replied
from rumi.store.journal.records import Attachment
from rumi.store.journal.shown import THOUGHT_CHARS, CallFigures, ShownCall, ShownQuestion

Kind: TypeAlias = Literal["you", "event", "answer", "reply"]
State: TypeAlias = Literal["sent", "queued", "running", "done"]

THOUGHT: Final = -1
"""Number of the part that shows the model's reasoning: it comes first, although it is known last."""

TITLE_CHARS: Final = 400
"""Maximum number of characters shown of a tool call's arguments."""

_PLACES: Final = 4
"""Number of places in the order for each message number: what was said, its turn, and its reply."""


@dataclass(slots=True, eq=False)
class Part:
    """A part of an entry: `n` is its number in the entry, `data` what clients get of it.

    A text part has its Markdown in `data["raw"]`, and its closed `blocks`, or None if they are not rendered.
    `growing` renders a text that still grows; `ended` means that no more text comes. `changed` and `grown`
    are the transcript's marks of the last change, and of the last growth of its text or output.
    """

    n: int
    data: dict[str, Any]
    blocks: list[ClosedBlock] | None = None
    growing: GrowingMarkdown | None = None
    ended: bool = False
    changed: int = 0
    grown: int = 0

    @property
    def kind(self) -> str:
        """Return what the part shows: `text`, `tool`, `todo`, `question`, `note`, `file` or `handed`."""
        return str(self.data["kind"])

    @property
    def raw(self) -> str:
        """Return the Markdown of a text part; empty for other parts."""
        return str(self.data.get("raw", ""))

    def render(self) -> None:
        """Render the text of a part that does not grow, unless it is rendered already. Blocking."""
        if self.blocks is None and self.kind == "text":
            self.blocks = list(blocks_of(self.raw))

    def shape(self) -> dict[str, Any]:
        """Return the part as an object that JSON can represent."""
        blocks = {} if self.blocks is None else {"blocks": [block.form() for block in self.blocks]}
        return {"n": self.n, **self.data, **blocks}


@dataclass(slots=True, eq=False)
class TranscriptEntry:
    """What was said, an answer that may still grow, or a reply.

    `source` names the origin of an event. `branches` is the number of the earlier message from before which
    the conversation continues here. `about` has the model, tokens and times of an answer. `buttons` are
    labels, each with the words that a press sends. `messages` are the numbers of the messages that the entry
    shows or answers. `delivery` is the number of the reply's delivery, which is acknowledged when a person
    has seen the entry. `changed` is the transcript's mark of the last change of anything but the parts.
    """

    id: str
    at: int
    kind: Kind
    state: State = "done"
    parts: list[Part] = field(default_factory=list)
    began: float = 0.0
    ended: float = 0.0
    session: int = 0
    messages: tuple[int, ...] = ()
    reason: str = ""
    source: str = ""
    branches: int = 0
    undone: bool = False
    replaced: bool = False
    delivery: int = 0
    seen: bool = True
    buttons: tuple[tuple[str, str], ...] = ()
    about: dict[str, Any] = field(default_factory=dict)
    changed: int = 0

    @property
    def head(self) -> dict[str, object]:
        """Return what clients get of the entry beside its parts."""
        return {
            "id": self.id,
            "at": self.at,
            "kind": self.kind,
            "state": self.state,
            "began": self.began,
            "ended": self.ended,
            "session": self.session,
            "number": self.messages[0] if self.messages else 0,
            "reason": self.reason,
            "source": self.source,
            "branches": self.branches,
            "undone": self.undone,
            "replaced": self.replaced,
            "delivery": 0 if self.seen else self.delivery,
            "buttons": [list(button) for button in self.buttons],
            "about": self.about,
        }

    def shape(self) -> dict[str, object]:
        """Return the entry as an object that JSON can represent."""
        return self.head | {"parts": [part.shape() for part in self.parts]}

    def add(self, data: dict[str, Any], blocks: list[ClosedBlock] | None = None) -> Part:
        """Append a part, and return it."""
        number = max((part.n for part in self.parts), default=THOUGHT) + 1
        part = Part(number, data, blocks)
        self.parts.append(part)
        return part

    @property
    def last_text(self) -> Part | None:
        """Return the last part if it is a text."""
        return self.parts[-1] if self.parts and self.parts[-1].kind == "text" else None

    def think(self, call: CallFigures) -> Part | None:
        """Add the reasoning of a model call to the part that shows it; return the part, None without any."""
        if not call.thought:
            return None
        known = self.parts[0] if self.parts and self.parts[0].n == THOUGHT else None
        if known is None:
            known = Part(THOUGHT, {})
            self.parts.insert(0, known)
        known.data = thought_part(known.data, call.thought, call.thought_ms)
        return known

    def list_todo(self, data: dict[str, Any]) -> Part:
        """Show this todo list, in place of an earlier one of the entry; return its part."""
        known = next((part for part in self.parts if part.kind == "todo"), None)
        if known is None:
            return self.add(data)
        known.data = data
        return known

    def tools(self, call: str) -> Iterator[Part]:
        """Yield the part that shows a running tool call; nothing if no part shows it."""
        for part in self.parts:
            if part.data.get("id") == call and part.data.get("state") == "running":
                yield part


def said_at(message: int) -> int:
    """Return the place of what was said with a message."""
    return _PLACES * message


def turn_at(messages: Sequence[int]) -> int:
    """Return the place of the turn that answers these messages: after all of them."""
    return _PLACES * max(messages) + 1


def reply_at(messages: Sequence[int]) -> int:
    """Return the place of a reply to these messages: after their turns."""
    return _PLACES * max(messages, default=0) + 2


def message_of(turn: str) -> int:
    """Return the number of the message that began a turn; 0 if the id is not a turn's."""
    number = turn.removeprefix("t")
    return int(number) if turn.startswith("t") and number.isascii() and number.isdigit() else 0


# Parts


def text_part(text: str) -> dict[str, Any]:
    """Return a text part."""
    return {"kind": "text", "raw": text}


def said_parts(text: str, attachments: Sequence[Attachment]) -> list[dict[str, Any]]:
    """Return the parts of a message that a person sent: files, others' words, and the person's own text."""
    found: list[dict[str, Any]] = []
    for attachment in attachments:
        if attachment.kind == "words":
            found.append({"kind": "handed", "source": attachment.source, "text": attachment.text})
        elif attachment.kind == "command":
            found.append({"kind": "command", "text": attachment.text})
        else:
            found.append({"kind": "file", "path": attachment.reference, "name": attachment.name})
    return [*found, *([text_part(text)] if text.strip() else [])]


def tool_part(call: str, name: str, title: str) -> dict[str, Any]:
    """Return the part of a running tool call."""
    shown = title if len(title) <= TITLE_CHARS else f"{title[:TITLE_CHARS]}…"
    return {"kind": "tool", "id": call, "name": name, "title": shown, "state": "running"}


def outcome(shown: ShownCall) -> dict[str, Any]:
    """Return what the part of a tool call shows of its result."""
    return {
        "state": "ok" if shown.ok and not shown.exit else "failed",
        "exit": shown.exit,
        "ms": shown.ms,
        "said": shown.said,
        "diff": shown.diff,
        "shows": list(shown.shows),
        "cut": shown.cut,
        "count": shown.steps,
    }


def question_part(question: ShownQuestion) -> dict[str, Any]:
    """Return the part that shows a question to a person; the verdict is empty while it waits."""
    return {"kind": "question"} | asdict(question)


def thought_part(before: Mapping[str, Any], text: str, ms: int) -> dict[str, Any]:
    """Return the part that shows the model's reasoning, after what was shown of it before."""
    texts = "\n\n".join(filter(None, (before.get("text", ""), text)))
    return {"kind": "thought", "text": texts[:THOUGHT_CHARS], "ms": before.get("ms", 0) + ms}


def todo_part(arguments: Mapping[str, object]) -> dict[str, Any] | None:
    """Return the part that shows a todo list; None if the arguments are not a valid list."""
    items = todo_items(arguments)
    if items is None:
        return None
    return {
        "kind": "todo",
        "items": [{"text": item.text, "state": item.state, "mark": MARKS[item.state]} for item in items],
    }


def said_entry(number: int, parts: Iterable[dict[str, Any]], at: float) -> TranscriptEntry:
    """Return the entry of what was said with a message."""
    entry = TranscriptEntry(f"m{number}", said_at(number), "you", "sent", began=at, messages=(number,))
    for data in parts:
        entry.add(data)
    return entry


def command_buttons(reply: Replied) -> tuple[tuple[str, str], ...]:
    """Return the buttons of a reply: for each, its label, and the words that a press sends."""
    return tuple((command, command) for command in reply.commands)


def reply_entry(reply: Replied, at: float) -> TranscriptEntry:
    """Return the entry of a reply without a turn."""
    entry = TranscriptEntry(
        f"r{reply.delivery}", reply_at(reply.messages), "reply", began=at, messages=reply.messages
    )
    entry.delivery, entry.seen = reply.delivery, False
    entry.buttons = command_buttons(reply)
    entry.add(text_part(reply.text))
    return entry


def same_part(old: Part | None, new: Part) -> Part:
    """Return the old part if it shows the same as the new one, so that nothing is sent again."""
    if old is None:
        return new
    if old.kind == new.kind == "text":
        return old if old.raw.rstrip() == new.raw.rstrip() else new
    return old if old.data == new.data else new


def oldest_of(entries: Sequence[TranscriptEntry], kept: Iterable[int]) -> list[TranscriptEntry]:
    """Return the entries of the oldest message that is done: what was said, its turn and its reply.

    They are dropped together, because the journal reads them again together. Messages with the numbers
    `kept` stay. `entries` are in their order.
    """
    stays = {number for entry in entries if entry.state in ("running", "queued") for number in entry.messages}
    stays.update(kept)
    oldest = next((entry for entry in entries if stays.isdisjoint(entry.messages)), None)
    if oldest is None:
        return []
    numbers = set(oldest.messages)
    for entry in entries:  # a turn comes behind the first of its messages, and may have several
        if not numbers.isdisjoint(entry.messages):
            numbers.update(entry.messages)
    return [entry for entry in entries if entry is oldest or not numbers.isdisjoint(entry.messages)]


# What is known about an answer


def with_usage(about: Mapping[str, Any], call: CallFigures) -> dict[str, Any]:
    """Return what is known about an answer after another model call."""
    counts = {
        "prompt": call.prompt,
        "completion": call.completion,
        "cached": call.cached,
        "nano": call.nano,
        "calls": 1,
    }
    sums = {name: int(about.get(name, 0)) + count for name, count in counts.items()}
    return {**about, "model": call.model, **sums}
