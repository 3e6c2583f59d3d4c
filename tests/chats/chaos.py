"""A world where everything goes wrong by a seed: models, sandboxes, the disk, the program itself."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

import trio

from rumi.agent import TurnFinished
from rumi.chats import ChatEvent, Replied, TurnStarted
from rumi.journal import JournalError
from rumi.models import Emit, Message, ModelError, ModelRequest, Reply, TextDelta, ToolCall
from rumi.sandbox import Command, CommandResult, SandboxError
from tests.chats.house import MemorySandboxes

T = TypeVar("T")

CHATS = ("ann", "bob", "cy")
BEHAVIOURS = (
    *("echo", "echo", "echo", "slow", "stream", "hang", "error", "crash", "tools", "tools", "long", "bad"),
    *("loop", "half", "sleeper"),
)


class Fault(Exception):
    """A fault that nobody expects."""


class World:
    """What lasts longer than a process, and the dice. `calm` switches the faults off."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.calm = False
        self.dead = False
        self.model_calls: Counter[str] = Counter()
        self.disk_faults: list[float] = []
        self.wrong: list[str] = []

    def dice(self, chance: float) -> bool:
        return not self.calm and self.random.random() < chance

    def now(self) -> float:
        return 1e9 + trio.current_time()


class Disk:
    """Blocking work in place: slow at times, failing rarely, and not at all once the process is dead.

    Like a thread it cannot be cancelled: whoever leaves waits for its end.
    """

    def __init__(self, world: World) -> None:
        self.world = world

    async def __call__(self, work: Callable[[], T]) -> T:
        world = self.world
        with trio.CancelScope(shield=True):
            await trio.sleep(world.random.choice((0, 0, 0, 0.001, 0.01, 0.5)) if not world.calm else 0)
            if world.dead:
                raise JournalError("the process is dead")
            if world.dice(0.003) and not any(at > trio.current_time() - 20 for at in world.disk_faults):
                world.disk_faults.append(trio.current_time())
                raise JournalError("the disk failed")
            done = work()
            await trio.sleep(world.random.choice((0, 0, 0, 0.001, 0.5)) if not world.calm else 0)
        return done


class ChaosModel:
    """Does what the user's words say, and looks at what it is given."""

    name = "chaos"

    def __init__(self, world: World, chat: str) -> None:
        self.world = world
        self.chat = chat

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        check_prompt(self.world, self.chat, request.messages)
        self.world.model_calls[self.chat] += 1
        try:
            return await self._reply(request, emit)
        finally:
            self.world.model_calls[self.chat] -= 1

    async def _reply(self, request: ModelRequest, emit: Emit) -> Reply:
        random = self.world.random
        place = max(n for n, message in enumerate(request.messages) if message.role == "user")
        said = request.messages[place].content
        steps = sum(message.role == "assistant" for message in request.messages[place:])
        await trio.lowlevel.checkpoint()
        if not request.tools:
            return Reply(f"{self.chat}: so far")
        match said.split()[1]:
            case "slow":
                await trio.sleep(random.choice((0.1, 2, 20)))
            case "stream":
                for _ in range(random.choice((3, 300))):
                    emit(TextDelta(f"{self.chat}: word "))
                    await trio.sleep(0.1)
            case "hang":
                await trio.sleep_forever()
            case "error":
                await trio.sleep(random.choice((0, 1)))
                raise ModelError("server", "it failed")
            case "crash":
                await trio.sleep(random.choice((0, 1)))
                raise Fault("the model's client broke")
            case "tools" if steps < 3:
                return Reply("", tuple(self._call(f"{steps}{n}") for n in range(random.choice((1, 1, 3)))))
            case "loop":
                return Reply("again", (self._call("c", "echo same"),))
            case "bad" if steps < 2:
                broken = ToolCall(
                    "b1", random.choice(("bash", "nothing")), random.choice(("{", "[]", "{}", "\ud800"))
                )
                return Reply("", (broken, self._call("b2")))
            case "half":
                return Reply(f"{self.chat}: half a character \ud83d")
            case "sleeper" if steps < 1:
                return Reply("", (self._call("s", "sleep 600"),))
            case "long" if steps < 8:
                return Reply("", tuple(self._call(f"{steps}-{n}") for n in range(20)))
        return Reply(f"{self.chat}: you said {said}")

    def _call(self, id: str, command: str = "") -> ToolCall:
        random = self.world.random
        command = command or random.choice((f"echo {self.chat}:{random.random()}", "sleep 3", "sleep 0.1"))
        return ToolCall(id, "bash", json.dumps({"command": command}))


def check_prompt(world: World, chat: str, messages: Sequence[Message]) -> None:
    """Every call has its result right behind it, and nothing is another chat's."""
    waiting: list[str] = []
    for message in messages:
        if message.role == "tool":
            if message.tool_call_id not in waiting:
                world.wrong.append(f"{chat}: a result without its call")
            else:
                waiting.remove(message.tool_call_id)
        else:
            if waiting:
                world.wrong.append(f"{chat}: calls without results: {waiting}")
            waiting = [call.id for call in message.tool_calls]
        for other in CHATS:
            if other != chat and f"{other}:" in message.content:
                world.wrong.append(f"{chat} was shown something of {other}: {message.content[:80]!r}")
    if waiting:
        world.wrong.append(f"{chat}: calls without results: {waiting}")
    if messages[0].role != "system":
        world.wrong.append(f"{chat}: the instructions do not come first")
    first = next((message for message in messages if message.role not in ("system",)), None)
    if first is not None and first.role != "user":
        world.wrong.append(f"{chat}: the history begins in the middle of an exchange: {first}")
    if sum(message.role != "system" for message in messages) > 40 + 2 * 20 * 10 + 20:
        world.wrong.append(f"{chat}: too much history")


class ChaosBoxes(MemorySandboxes):
    """Sandboxes that fail, hang for a while, and break; a stop is carried out all the same, if late."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.scopes: dict[str, set[trio.CancelScope]] = {}

    async def _trouble(self, chance: float, *, crash: float = 0.0, hang: float = 0.0) -> None:
        await trio.lowlevel.checkpoint()
        if self.world.dice(chance):
            raise SandboxError("The sandbox did not.", "Try again.")
        if self.world.dice(crash):
            raise Fault("the sandbox broke")
        if self.world.dice(hang):
            await trio.sleep(self.world.random.choice((2, 40)))

    async def prepare(self, chat_id: str) -> None:
        await self._trouble(0.05, crash=0.005, hang=0.05)
        await super().prepare(chat_id)

    async def run(self, chat_id: str, command: Command) -> CommandResult:
        await self._trouble(0.05, crash=0.005)
        with trio.CancelScope() as scope:
            self.scopes.setdefault(chat_id, set()).add(scope)
            try:
                return await super().run(chat_id, command)
            finally:
                self.scopes[chat_id].discard(scope)
        raise SandboxError("The sandbox was stopped.")

    async def quiet(self, chat_id: str) -> None:
        if self.running.get(chat_id):
            self.world.wrong.append(f"{chat_id}: a command outlived its turn")
        await self._trouble(0.1, crash=0.01, hang=0.1)

    async def stop(self, chat_id: str) -> None:
        for scope in self.scopes.get(chat_id, ()):
            scope.cancel()
        self.live.pop(chat_id, None)
        await self._trouble(0.1, crash=0.1, hang=0.2)


class Witness:
    """Watches the events of all chats, through all processes, and notes what must not be."""

    def __init__(self, world: World, boxes: Callable[[], ChaosBoxes]) -> None:
        self.world = world
        self.boxes = boxes
        self.told: dict[int, Replied] = {}
        self.started: dict[str, str] = {}
        self.finished: dict[str, str] = {}
        self.replied: set[str] = set()
        self.turn_now: dict[str, str] = {}
        self.untold: set[int] = set()
        self.changed = trio.Event()

    def new_process(self) -> None:
        """What the dead process had begun is finished by nobody it told."""
        self.turn_now.clear()
        self.untold.clear()

    def see(self, event: ChatEvent) -> None:
        wrong, chat, turn = self.world.wrong, event.chat, event.turn
        match event.what:
            case TurnStarted(text):
                if turn in self.started:
                    wrong.append(f"{chat} {turn}: started twice")
                if chat in self.turn_now:
                    wrong.append(f"{chat} {turn}: started while {self.turn_now[chat]} runs")
                if not text.startswith(f"{chat}:"):
                    wrong.append(f"{chat} {turn}: runs {text!r}")
                if any(
                    self.finished.get(t) == "complete" for t, said in self.started.items() if said == text
                ):
                    wrong.append(f"{chat} {turn}: runs {text!r} again, which was complete")
                self.started[turn] = text
                self.turn_now[chat] = turn
            case TurnFinished(reason):
                if turn in self.finished:
                    wrong.append(f"{chat} {turn}: finished twice, {self.finished[turn]} and {reason}")
                if turn in self.replied:
                    wrong.append(f"{chat} {turn}: finished behind its reply")
                self.finished[turn] = reason
                if self.turn_now.get(chat) == turn:
                    del self.turn_now[chat]
                if reason == "stopped" and (self.world.model_calls[chat] or self.boxes().running.get(chat)):
                    wrong.append(f"{chat} {turn}: said to be stopped, and runs")
            case Replied(_, messages, text):
                for number in messages:
                    if number in self.told:
                        wrong.append(
                            f"{chat}: {number} replied to twice: {self.told[number].text!r}, {text!r}"
                        )
                    self.told[number] = event.what
                if turn:
                    self.replied.add(turn)
                    if turn in self.started and turn not in self.finished:
                        wrong.append(f"{chat} {turn}: replied to and not finished")
                self.untold.difference_update(messages)
                self.changed.set()
                self.changed = trio.Event()
