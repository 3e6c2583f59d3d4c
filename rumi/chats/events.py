"""The events that a chat publishes, the state of a turn derived from them, and their JSON encoding."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

from rumi.agent.events import (
    ConfirmationAsked,
    ConfirmationEnded,
    Thinking,
    ToolFinished,
    ToolOutput,
    ToolProgress,
    ToolStarted,
    TurnEvent,
    TurnFinished,
)
from rumi.agent.todo_list import TodoItem, todo_items
from rumi.agent.tool import CommandTrace, ToolResult
from rumi.models.model import Discarded, TextDelta, ToolCall, Usage, Used, Waiting
from rumi.store.journal.records import Reason
from rumi.store.journal.shown import CallFigures
from rumi.texts import Language, Text, text_of

T = TypeVar("T", covariant=True)

Phase: TypeAlias = Literal["starting", "thinking", "answering", "acting", "asking", "waiting"]

PIECE_CHARACTERS: Final = 4096
"""Size of the pieces in which the text of a turn is stored: a delta is appended only to the last piece."""

MOST_STEPS: Final = 50
"""Maximum number of steps stored for a running tool call; older steps are dropped."""

OUTPUT_CHARS: Final = 4000
"""Maximum number of characters stored of a running command's output; older output is dropped."""


def turn_of(message: int) -> str:
    """Derive the id of a message's turn from the message number, which is never reused."""
    return f"t{message}"


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A message began a turn. `message` is the message's number, `language` its sender's language.

    `origin` is the message's id in its source, such as a Telegram chat; None if the source has no ids.
    `outside` is true if the message contains text that its user did not write. For a turn that goes on after
    a restart, `preview` is the source's id of the message that showed the growing answer. `schedule` is the
    number of the schedule that began the turn. Clients do not show such a turn while it runs, because it may
    end silently; 0 for a person's message. `trigger` is the name of the trigger that began it, otherwise
    empty. Model calls that the turn made in earlier processes have numbers up to `numbered`.
    """

    text: str
    message: int = 0
    language: Language = "en"
    origin: int | None = None
    outside: bool = False
    preview: int | None = None
    schedule: int = 0
    trigger: str = ""
    numbered: int = 0


@dataclass(frozen=True, slots=True)
class TurnRestarted:
    """Further messages became parts of a turn that had done nothing yet: the turn begins again with all.

    Text that was shown so far is void. `text` is the text of all parts, `messages` are the numbers of the
    messages that the turn answers, and `origin` and `outside` replace those of `TurnStarted`.
    """

    text: str
    messages: tuple[int, ...]
    origin: int | None = None
    outside: bool = False


@dataclass(frozen=True, slots=True)
class Queued:
    """A message was put into the queue, at position `place`, because a turn is already running.

    Or its own turn was interrupted by the end of the process, and goes on in the next one: then `place` is 0.
    The message waits until its turn begins or until it gets a reply without a turn. The `text` tells the
    message's sender about the wait. `origin` is the message's id in its source, such as a Telegram chat.
    """

    message: int
    text: str
    place: int
    origin: int | None = None


@dataclass(frozen=True, slots=True)
class SessionFigures:
    """What clients show of a chat's session after a reply.

    `session` is its number. `begun` means that this reply began or reopened it. `tokens` is the estimated
    size of the next prompt, `window` the size of the model's context; 0 if unknown. `nano` is the price of
    the session's turns in billionths of a USD, 0 if no price is known.
    """

    session: int
    tokens: int = 0
    window: int = 0
    nano: int = 0
    begun: bool = False


@dataclass(frozen=True, slots=True)
class Replied:
    """The final reply to a message. The reply is already stored in the outbox.

    Every accepted message gets exactly one final reply. `messages` lists the messages that share this reply,
    such as a message and the `/stop` that ended its turn. `delivery` is the number with which a front end
    acknowledges that a person has received the reply. `reason` says how the turn ended; it is set only on the
    reply to a turn that is published a second time. `task` is the number of a task, if this reply is the
    task's result, which all clients of the chat show; 0 for a reply to a person's message. `schedule` is the
    number of the schedule that created the message; 0 for a person's message. A `silent` reply counts as
    delivered, and clients do not show it: the scheduled work had nothing to tell, and `text` says why.
    `commands` are those that buttons below the reply send, where a channel has buttons. `figures` describe
    the session after a job of the chat; None for other replies, and for a turn with a session of its own.
    `note` is a line for people about the files of the chat's folder.
    """

    delivery: int
    messages: tuple[int, ...]
    text: str
    reason: Reason | None = None
    task: int = 0
    schedule: int = 0
    silent: bool = False
    commands: tuple[str, ...] = ()
    figures: SessionFigures | None = None
    note: str = ""

    @property
    def with_commands(self) -> str:
        """Return the text, and below it the commands that it does not name: for channels without buttons."""
        return with_commands(self.text, self.commands)


def with_commands(text: str, commands: tuple[str, ...]) -> str:
    """Return the text of a reply, and below it the commands of its buttons that it does not name."""
    missing = [command for command in commands if command not in text]
    return "\n\n".join(filter(None, (text, " · ".join(f"`{command}`" for command in missing))))


@dataclass(frozen=True, slots=True)
class Moved:
    """The process that served this chat has ended. If `back` is true, a new process already serves the chat.

    Turns of the old process have ended; the new process sends the replies to their messages. The `note` tells
    users about this.
    """

    note: str
    back: bool


Happening: TypeAlias = TurnStarted | TurnRestarted | TurnEvent | Queued | Replied | Moved


@dataclass(frozen=True, slots=True)
class ChatEvent:
    """An event of a chat. `turn` is the turn's id, empty outside of turns. `time` is a Unix time."""

    chat: str
    turn: str
    time: float
    what: Happening


# The state of a turn.


@dataclass(frozen=True, slots=True)
class At(Generic[T]):
    """An event of a turn, and the time of the event."""

    what: T
    time: float


@dataclass(frozen=True, slots=True)
class TurnState:
    """The state of a turn, computed from its events. An empty `turn` means that no turn runs.

    `thinking` is the event that started the running model call or the latest attempt at it. `said` has the
    pieces of text that the model has emitted since `said_at`. `calls` are the running tool calls by id;
    `steps` has the last progress reports of each call that has sent any, `outputs` the end of its output.
    `listed` is the last valid call of the tool `todo`, whose arguments are the todo list. `waiting` describes
    what the turn is waiting for, until the next event. `measured` is the running model call if it has ended,
    and `before` the last one that ended before it. `finished` is set from the end of the turn until the
    turn's reply. `queued` are the messages that wait for the turn to end.
    """

    turn: str = ""
    started: At[TurnStarted] | None = None
    thinking: At[Thinking | Discarded] | None = None
    said: tuple[str, ...] = ()
    said_at: float = 0.0
    calls: dict[str, At[ToolStarted]] = field(default_factory=dict)
    steps: dict[str, tuple[At[ToolProgress], ...]] = field(default_factory=dict)
    outputs: dict[str, At[ToolOutput]] = field(default_factory=dict)
    listed: At[ToolStarted] | None = None
    question: At[ConfirmationAsked] | None = None
    waiting: At[Waiting] | None = None
    finished: At[TurnFinished] | None = None
    queued: tuple[At[Queued], ...] = ()
    measured: At[CallFigures] | None = None
    before: At[CallFigures] | None = None

    def apply(self, event: ChatEvent) -> "TurnState":
        """Return the state after the event. Ignore another turn's events, except its beginning and end."""
        time = event.time
        match event.what:
            case Queued() as queued:
                return replace(self, queued=(*self.queued, At(queued, time)))
            case Replied(_, messages):
                left = self._left(*messages)
                ends = event.turn and event.turn == self.turn
                return TurnState(queued=left) if ends else replace(self, queued=left)
            case _ if not event.turn:
                return self
            case TurnStarted() as started:
                return TurnState(event.turn, At(started, time), queued=self._left(started.message))
            case TurnFinished() as finished:
                began = self.started if event.turn == self.turn else None
                return TurnState(event.turn, began, finished=At(finished, time), queued=self.queued)
            case _ if event.turn != self.turn:
                return self
            case _ if self.finished is not None:
                return self
            case TurnRestarted(text, messages, origin, outside):
                if self.started is None:
                    return self
                what = replace(self.started.what, text=text, origin=origin, outside=outside)
                return TurnState(self.turn, At(what, self.started.time), queued=self._left(*messages))
            case Thinking() | Discarded() as thinking:
                return TurnState(
                    *(self.turn, self.started, At(thinking, time)),
                    listed=self.listed,
                    queued=self.queued,
                    before=self.measured or self.before,
                )
            case CallFigures() as measured:
                return replace(self, measured=At(measured, time), waiting=None)
            case TextDelta(text):
                *whole, last = self.said or ("",)
                last += text
                while len(last) > PIECE_CHARACTERS:
                    whole.append(last[:PIECE_CHARACTERS])
                    last = last[PIECE_CHARACTERS:]
                said, said_at = (*whole, last), self.said_at if self.said else time
                # Not `replace`, which takes four times as long: there is one delta for each word.
                return TurnState(
                    self.turn, self.started, self.thinking, said, said_at, self.calls, self.steps,
                    self.outputs, self.listed, self.question, queued=self.queued, measured=self.measured,
                    before=self.before,
                )  # fmt: skip
            case ToolStarted(ToolCall(name="todo"), arguments) as listed:  # not a running call, but the list
                valid = todo_items(arguments) is not None
                return replace(self, listed=At(listed, time) if valid else self.listed, waiting=None)
            case ToolStarted(call) as begun:
                calls, steps = {**self.calls, call.id: At(begun, time)}, _without(call.id, self.steps)
                outputs = _without(call.id, self.outputs)
                return replace(self, calls=calls, steps=steps, outputs=outputs, waiting=None)
            case ToolProgress(call_id) as step:
                if call_id not in self.calls:
                    return replace(self, waiting=None)
                last_steps = (*self.steps.get(call_id, ()), At(step, time))[-MOST_STEPS:]
                return replace(self, steps={**self.steps, call_id: last_steps}, waiting=None)
            case ToolOutput(call_id, text):
                if call_id not in self.calls:
                    return replace(self, waiting=None)
                tail = (self.output(call_id) + text)[-OUTPUT_CHARS:]
                outputs = {**self.outputs, call_id: At(ToolOutput(call_id, tail), time)}
                return replace(self, outputs=outputs, waiting=None)
            case ToolFinished(call):
                calls, steps = _without(call.id, self.calls), _without(call.id, self.steps)
                outputs = _without(call.id, self.outputs)
                return replace(self, calls=calls, steps=steps, outputs=outputs, waiting=None)
            case ConfirmationAsked() as asked:
                return replace(self, question=At(asked, time), waiting=None)
            case ConfirmationEnded(id):
                ended = self.question is None or self.question.what.id == id
                return replace(self, question=None if ended else self.question, waiting=None)
            case Waiting() as waiting:
                return replace(self, waiting=At(waiting, time))
            case _:
                return self

    def _left(self, *messages: int) -> tuple[At[Queued], ...]:
        return tuple(event for event in self.queued if event.what.message not in messages)

    def catch_up(self, chat: str) -> Iterator[ChatEvent]:
        """Yield the events that a late subscriber needs to reconstruct this state."""
        words = (At(TextDelta(piece), self.said_at) for piece in self.said)
        steps = chain.from_iterable(self.steps.values())
        work = (
            self.started,
            self.before,
            self.listed,
            self.thinking,
            *words,
            self.measured,
            *self.calls.values(),
            *steps,
            *self.outputs.values(),
        )
        events = (*work, self.question, self.waiting, self.finished)
        for event in events:
            if event is not None:
                yield ChatEvent(chat, self.turn, event.time, event.what)
        for queued in self.queued:
            yield ChatEvent(chat, turn_of(queued.what.message), queued.time, queued.what)

    def called(self, call: ToolCall) -> ToolStarted:
        """Return the start event of a call. If it was not published, return one without arguments."""
        if self.listed is not None and self.listed.what.call.id == call.id:
            return self.listed.what
        return self.calls[call.id].what if call.id in self.calls else ToolStarted(call)

    def step(self, call: str) -> str:
        """Return the last progress step that a running call has reported; empty if there is none."""
        steps = self.steps.get(call)
        return steps[-1].what.text if steps else ""

    def output(self, call: str) -> str:
        """Return the end of a running command's output; empty if there is none."""
        output = self.outputs.get(call)
        return output.what.text if output is not None else ""

    @property
    def todo(self) -> tuple[TodoItem, ...]:
        """Return the todo list of the turn; empty if the turn has none."""
        return todo_items(self.listed.what.arguments) or () if self.listed is not None else ()

    @property
    def words(self) -> str:
        """Return the text emitted so far: the model's answer, or its text before the running tool calls."""
        return "".join(self.said)

    @property
    def phase(self) -> Phase:
        """Return the phase of the turn."""
        if self.question is not None:
            return "asking"
        if self.waiting is not None:
            return "waiting"
        if self.calls:
            return "acting"
        return "answering" if self.said else "thinking" if self.thinking is not None else "starting"


def _without(id: str, calls: Mapping[str, T]) -> dict[str, T]:
    return {other: call for other, call in calls.items() if other != id}


# The encoding. Attached clients get all of it; `chat --json`, live events and the audit log some fields.

VERSION: Final = 11
"""Version of the JSON encoding of events.

Increase it when a kind is added or removed, or a field is removed or changes its meaning; not for new fields.
"""

KINDS: Final[Mapping[str, type[Any]]] = {
    "turn_started": TurnStarted,
    "turn_restarted": TurnRestarted,
    "thinking": Thinking,
    "text": TextDelta,
    "discarded": Discarded,
    "waiting": Waiting,
    "usage": Used,
    "model_figures": CallFigures,
    "tool_call": ToolStarted,
    "tool_progress": ToolProgress,
    "tool_output": ToolOutput,
    "tool_result": ToolFinished,
    "confirm": ConfirmationAsked,
    "confirmed": ConfirmationEnded,
    "turn_finished": TurnFinished,
    "queued": Queued,
    "reply": Replied,
    "moved": Moved,
}
"""The types of events by their names in JSON."""

_NAMES: Final = {kind: name for name, kind in KINDS.items()}
_PARTS: Final[Mapping[tuple[type[Any], str], type[Any]]] = {
    (ToolStarted, "call"): ToolCall,
    (ToolFinished, "call"): ToolCall,
    (ToolFinished, "result"): ToolResult,
    (ToolResult, "trace"): CommandTrace,
    (TurnFinished, "usage"): Usage,
    (Replied, "figures"): SessionFigures,
    (Used, "usage"): Usage,
}
_TUPLES: Final = frozenset({"argv", "commands", "failed", "links", "messages", "shows"})
_TEXT: Final = "_text"
"""The end of the names of fields with the key and the fields of a `Text`."""
_LEFT_OUT: Final = frozenset({"pictures", "written_tokens", "whole_output"})
"""Fields that only models or the calculation of prices need, and a whole output, which is in a file."""
_FIELDS: Final = {
    kind: tuple(
        dataclass_field.name for dataclass_field in fields(kind) if dataclass_field.name not in _LEFT_OUT
    )
    for kind in (*KINDS.values(), *_PARTS.values())
}


class NotUnderstood(ValueError):
    """Raised when data from another process is not an event that this version knows."""


def to_json(event: ChatEvent) -> dict[str, Any]:
    """Return the event as a JSON object with its kind, chat, turn, time, and the fields of its kind."""
    where = {"chat": event.chat, "turn": event.turn, "time": event.time}
    return {"event": _NAMES[type(event.what)], **where, **plain(event.what)}


def from_json(data: Mapping[str, Any]) -> ChatEvent:
    """Convert a JSON object to an event. Fields that are unknown to this version are ignored.

    Raises:
        NotUnderstood: the kind of event is unknown to this version, or a field is missing.
    """
    try:
        what = made(KINDS[data["event"]], data)
        return ChatEvent(data["chat"], data["turn"], data["time"], what)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        kind = data.get("event") if isinstance(data, Mapping) else data
        raise NotUnderstood(f"not an event of version {VERSION}: {str(kind)[:40]!r}") from error


def plain(value: Any) -> Any:
    """Return an event's content, or a part of it, as a JSON value."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if (names := _FIELDS.get(type(value))) is not None:
        values = {name: getattr(value, name) for name in names}
        # A client translates such a text for its reader.
        texts = {f"{name}{_TEXT}": text.to_json() for name, text in values.items() if isinstance(text, Text)}
        return {**{name: plain(part) for name, part in values.items()}, **texts}
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


def made(kind: type[T], data: Mapping[str, Any]) -> T:
    """Convert a JSON value that `plain` returned back to an object of the type `kind`.

    Raises:
        KeyError, TypeError, ValueError: `data` does not describe such an object.
    """
    if not isinstance(data, Mapping):
        raise TypeError("not an object")
    found = {name: data[name] for name in _FIELDS[kind] if name in data}
    for name, value in found.items():
        if (part := _PARTS.get((kind, name))) is not None and value is not None:
            found[name] = made(part, value)
        elif name in _TUPLES:
            found[name] = tuple(value)
        elif (text := data.get(f"{name}{_TEXT}")) is not None:
            found[name] = text_of(text)
    return kind(**found)


def picked(event: ChatEvent, names: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the fields of an event in a documented format; None if the format omits this kind of event.

    `names` describes the format. It maps each kind of event to a text: the event's name in the format, then
    the names of the fields to return. `call.id` stands for the field `id` of the object in the field `call`;
    `tool=call.name` returns `call.name` under the name `tool`.
    """
    if (format := names.get(_NAMES[type(event.what)])) is None:
        return None
    name, chosen_fields = _parsed(format)
    chosen = {"event": name, "chat": event.chat, "turn": event.turn, "time": event.time}
    for own, get in chosen_fields:
        chosen[own] = plain(get(event.what))
    return chosen


@cache
def _parsed(format: str) -> tuple[str, tuple[tuple[str, Callable[[Any], Any]], ...]]:
    """Parse a text such as `call id tool=call.name`: return the event's name, and a getter for each field."""
    name, *paths = format.split()
    pairs = [(own, other or own) for own, _, other in (path.partition("=") for path in paths)]
    return name, tuple((own.rpartition(".")[2], attrgetter(path)) for own, path in pairs)
