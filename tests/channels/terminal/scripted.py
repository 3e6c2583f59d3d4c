"""A chat in memory that plays scripts, and the means to look at what the terminal makes of it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import trio

from rumi.agent.events import (
    ConfirmationAsked,
    ConfirmationEnded,
    Thinking,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from rumi.agent.tool import ToolResult
from rumi.chats.events import ChatEvent, Happening, Replied, TurnStarted, turn_of
from rumi.chats.port import PastTurn, Uploaded
from rumi.errors import ConfigError
from rumi.models.model import TextDelta, ToolCall, Usage
from rumi.store.journal.records import Attachment, Reason, StoredSession

BUSY = "⏳ Already working on something. Wait for it, or send /stop."
STOPPED = "⏹ Stopped."
NOTHING = "Nothing is running."


@dataclass(frozen=True)
class Ask:
    """A question, and what follows a yes or a no."""

    text: str
    yes: Sequence[Step]
    no: Sequence[Step]


Step = float | int | Happening | Ask


def words(text: str, every: float = 0.01) -> list[Step]:
    """The text as a model streams it: a few characters at a time."""
    return [step for i in range(0, len(text), 4) for step in (every, TextDelta(text[i : i + 4]))]


def tool(
    command: str, said: str = "", exit_code: int = 0, took: float = 0.1, ok: bool = True, number: int = 1
) -> list[Step]:
    """A command from start to end."""
    call = ToolCall(f"call{number}", "bash", json.dumps({"command": command}))
    content = f"exit code {exit_code} ({took * 1000:.0f} ms)\noutput:\n{said}"
    return [
        ToolStarted(call, {"command": command}),
        took,
        ToolFinished(call, ToolResult(ok, content, exit_code, int(took * 1000))),
    ]


def finish(answer: str, reason: Reason = "complete", tokens: int = 10) -> TurnFinished:
    return TurnFinished(reason, answer, Usage(tokens, tokens // 2))


def answering(answer: str) -> list[Step]:
    """A turn without tools."""
    return [Thinking(1), 0.05, *words(answer), finish(answer)]


@dataclass(eq=False)
class Listener:
    channel: trio.MemoryReceiveChannel[ChatEvent]

    async def receive(self) -> ChatEvent:
        return await self.channel.receive()

    def close(self) -> None:
        self.channel.close()


@dataclass(eq=False)
class ScriptedChat:
    """Plays `scripts[text]` for a message. `/stop` takes `stop_s` to be confirmed. Times are the clock's."""

    scripts: dict[str, Sequence[Step]] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)
    stop_s: float = 0.0
    earlier: list[Replied] = field(default_factory=list)
    chat: str = "cli"
    model: str = "groq:m"
    said: list[PastTurn] = field(default_factory=list)
    stored: list[StoredSession] = field(default_factory=list)
    sent: list[tuple[float, str]] = field(default_factory=list)
    acknowledged: list[int] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    handed_on: list[Attachment] = field(default_factory=list)
    uploaded: list[str] = field(default_factory=list)
    stored_as: dict[str, str] = field(default_factory=dict)
    changing: tuple[str, ...] = ()
    now: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self._listeners: list[trio.MemorySendChannel[ChatEvent]] = []
        self._number = 0
        self._delivery = 100
        self._scope: trio.CancelScope | None = None
        self._sharing: list[int] = []
        self._confirming: trio.Event | None = None
        self._said_yes = False
        self.nursery: trio.Nursery
        self.began = trio.Event()

    @property
    def texts(self) -> list[str]:
        return [text for _, text in self.sent]

    @property
    def idle(self) -> bool:
        """Whether all that was told has been acknowledged."""
        return self._scope is None and self._delivery in (100, *self.acknowledged)

    @property
    def heard(self) -> bool:
        """Whether anybody listens yet."""
        return bool(self._listeners)

    def subscribe(self) -> Listener:
        send, receive = trio.open_memory_channel[ChatEvent](math.inf)
        self._listeners.append(send)
        return Listener(receive)

    def shown(self, question: str) -> None:
        assert question == "c1"

    def unasked(self, question: str) -> None:
        assert question == "c1"
        self.refused.append(question)

    async def undelivered(self, to: Sequence[int] = ()) -> list[Replied]:
        await trio.lowlevel.checkpoint()
        return self.earlier

    async def delivered(self, delivery: int) -> None:
        await trio.lowlevel.checkpoint()
        self.acknowledged.append(delivery)

    async def use_model(self, name: str) -> None:
        await trio.lowlevel.checkpoint()
        if not name.startswith("groq:"):
            raise ConfigError(f"Unknown model {name!r}.", "Allowed are groq:NAME, custom:NAME and offline.")
        self.model = name

    async def recent(self) -> list[PastTurn]:
        await trio.lowlevel.checkpoint()
        return self.said

    async def sessions(self) -> list[StoredSession]:
        await trio.lowlevel.checkpoint()
        return self.stored

    async def send(self, text: str, attachments: Sequence[Attachment] = ()) -> int:
        await trio.lowlevel.checkpoint()
        self.handed_on += attachments
        self._number += 1
        number = self._number
        self.sent.append((trio.current_time(), text))
        if text == "/stop":
            if self._scope is None:
                self._reply("", (number,), NOTHING)
            else:
                self._sharing.append(number)
                self._scope.cancel()
        elif text in self.commands:
            self._reply("", (number,), self.commands[text])
        elif self._confirming is not None and text in ("yes", "no", "sí"):
            self._sharing.append(number)
            self._said_yes = text != "no"
            self._confirming.set()
        elif self._scope is not None:
            self._reply("", (number,), BUSY)
        else:
            self._scope = trio.CancelScope()
            self._sharing = [number]
            self.nursery.start_soon(self._turn, number, text)
        return number

    async def upload(self, attachment: Attachment) -> Uploaded:
        await trio.lowlevel.checkpoint()
        stored = self.stored_as.get(attachment.name, attachment.name)
        self.uploaded.append(attachment.reference)
        return Uploaded(replace(attachment, reference=stored), attachment.name in self.changing)

    def _publish(self, turn: str, what: Happening) -> None:
        for listener in list(self._listeners):
            try:
                listener.send_nowait(ChatEvent(self.chat, turn, self.now(), what))
            except trio.BrokenResourceError:
                self._listeners.remove(listener)

    def _reply(self, turn: str, messages: tuple[int, ...], text: str) -> None:
        self._delivery += 1
        self._publish(turn, Replied(self._delivery, messages, text))

    async def _turn(self, number: int, text: str) -> None:
        assert self._scope is not None
        turn = turn_of(number)
        finished: TurnFinished | None = None
        with self._scope:
            self.began.set()
            self._publish(turn, TurnStarted(text, number))
            finished = await self._play(turn, self.scripts.get(text, answering(text)))
        if self._scope.cancelled_caught or finished is None:
            await trio.sleep(self.stop_s)
            finished = TurnFinished("stopped", STOPPED)
        self._publish(turn, finished)
        self._scope = None
        self._reply(turn, tuple(self._sharing), finished.answer)

    async def _play(self, turn: str, steps: Sequence[Step]) -> TurnFinished | None:
        for step in steps:
            match step:
                case float() | int():
                    await trio.sleep(step)
                case TurnFinished():
                    return step
                case Ask(text, yes, no):
                    self._confirming = trio.Event()
                    self._publish(turn, ConfirmationAsked("c1", text))
                    await self._confirming.wait()
                    self._confirming = None
                    self._publish(turn, ConfirmationEnded("c1", "yes" if self._said_yes else "no"))
                    return await self._play(turn, yes if self._said_yes else no)
                case _:
                    self._publish(turn, step)
        return None


class Page:
    """What was written, in memory."""

    def __init__(self) -> None:
        self.text = ""

    async def write(self, text: str) -> None:
        await trio.lowlevel.checkpoint()
        self.text += text


class Typist:
    """Lines that come at their times: seconds to wait before each."""

    def __init__(self, *lines: tuple[float, str]) -> None:
        self._lines = list(lines)

    async def line(self) -> str | None:
        if not self._lines:
            await trio.lowlevel.checkpoint()
            return None
        wait, text = self._lines[0]
        await trio.sleep(wait)
        self._lines.pop(0)
        return text


class Silence:
    """An input that never says anything."""

    async def line(self) -> str | None:
        await trio.sleep_forever()
        raise AssertionError


class signals:  # noqa: N801 - reads as a function where it is used
    """Signals that arrive at their times: seconds to wait before each."""

    def __init__(self, *at: tuple[float, int]) -> None:
        self._at = list(at)

    def __aiter__(self) -> signals:
        return self

    async def __anext__(self) -> int:
        if not self._at:
            await trio.sleep_forever()
        wait, number = self._at.pop(0)
        await trio.sleep(wait)
        return number
