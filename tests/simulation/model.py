"""A model that does what the user's words say, and looks at what it is shown."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Literal, TypeAlias

import trio

from rumi.agent.compaction.form import INSTRUCTIONS
from rumi.agent.fitting import CHECK, CLOSING
from rumi.models.actor import ModelsRef
from rumi.models.chain import Chain, ChainStep
from rumi.models.chat_completions import Seen
from rumi.models.metering import Account, Meter
from rumi.models.model import Emit, Message, ModelError, ModelRequest, Reply, TextDelta, ToolCall
from rumi.models.rates import RateLimits
from rumi.platform.chat_ids import BUILT_IN
from rumi.platform.untrusted_text import read_block
from tests.fakes.summaries import summary_of
from tests.simulation.sim_chats import SimChat, strays
from tests.simulation.untrusted_tools import PAGE
from tests.simulation.waits import EVERYBODY
from tests.simulation.world import Fault, World

BEHAVIOURS = (
    *("echo", "echo", "echo", "echo", "slow", "slow", "stream", "stream", "hang", "error", "crash", "judge"),
    *(
        "tools",
        "tools",
        "tools",
        "bad",
        "loop",
        "half",
        "sleeper",
        "forker",
        "essay",
        "essay",
        "file",
        "nothing",
    ),
)
"""What the second word of a message may ask for. `judge` breaks the chat's mailbox loop now and then.

Besides these there is `outside`: it reads what strangers wrote, and what it does then has to be asked for.
"""

OBEY = "obey"
"""What others write in what people hand on: it does at once what has to be asked for then."""

Task: TypeAlias = Literal["lesson", "summary"]

PARAGRAPH = "There *was* a **house** with `many` rooms. Each of them had its own door, key and clock. "


SERVER = "server"
"""All models are at one server."""

AT_ONCE = (1, 2, 32, 32, 32, 32)
"""How many calls the server takes at once: few, and chats wait for each other as they should."""

MANY = 8
"""With so many calls at once nobody has to wait for others."""

COOL_S = 3.0
"""How long it may take after a pause until all are served again."""

RETRY_AFTER_S = (0.5, 4, 30, 200)


@dataclass
class ModelServer:
    """The server of all models, in one process. `running` counts the calls under way.

    `forgetful`: the keeper of the permits has crashed, and calls may run of which it does not know.
    """

    world: World
    at_once: int
    running: int = 0
    forgetful: bool = False

    @contextmanager
    def call(self, chat: str) -> Iterator[None]:
        """A call is under way, which holds up its chat, and others where only a few may be."""
        self.running += 1
        if self.running > self.at_once and not self.forgetful:
            self.world.complain(f"{self.running} model calls at once, and only {self.at_once} may be")
        try:
            with self.world.waits.of(chat if self.at_once >= MANY else EVERYBODY):
                yield
        finally:
            self.running -= 1


class Model:
    """One chat's model, in one process: the program's own chain of models, and what it asks.

    `calls` counts the turns' calls under way by chat, `begun` how often what was said became a turn.
    """

    name = "scripted"

    def __init__(
        self,
        server: ModelServer,
        sim_chat: SimChat,
        calls: Counter[str],
        begun: Counter[str],
        permits: ModelsRef,
        meter: Meter | None,
    ) -> None:
        self._world = server.world
        self._sim_chat = sim_chat
        self._calls = calls
        self._begun = begun
        steps = [ChainStep(Attempt(server, sim_chat, name), SERVER) for name in ("first", "second")]
        random = Random(self._world.random.getrandbits(32))
        account = Account(sim_chat.chat, BUILT_IN.owner_of(sim_chat.chat))
        self._chain = Chain(
            steps, chat=sim_chat.chat, permits=permits, random=random, account=account, meter=meter
        )

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        chat = self._sim_chat.chat
        if background(request) is not None:
            return await self._chain.reply(request, emit)
        check_prompt(self._world, self._sim_chat, request.messages)
        index = last_said(request)
        said = request.messages[index].content
        answered = any(message.role == "assistant" for message in request.messages[index:])
        if not request.words_only and not answered and not said.startswith(CHECK):
            self._begun[said] += 1
        self._calls[chat] += 1
        try:
            return await self._chain.reply(request, emit)
        finally:
            self._calls[chat] -= 1


class Attempt:
    """One of the models of a chain, as one chat asks it, or a task of it that is called `chat`."""

    def __init__(self, server: ModelServer, sim_chat: SimChat, name: str, chat: str = "") -> None:
        self.name = name
        self._server = server
        self._world = server.world
        self._sim_chat = sim_chat
        self._chat = chat or sim_chat.chat

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        return await self.metered_reply(request, emit, lambda limits: None)

    async def metered_reply(self, request: ModelRequest, emit: Emit, seen: Seen) -> Reply:
        """Answer, or say that it was too much: then nobody may ask this model for a while."""
        world = self._world
        with self._server.call(self._chat):
            if world.dice("model", 0.02):
                seconds = world.random.choice(RETRY_AFTER_S)
                world.note("model", f"{self.name} wants to be left alone for {seconds} s")
                world.counts["rate limits"] += 1
                world.waits.until(trio.current_time() + seconds + COOL_S)
                seen(RateLimits(retry_after_s=seconds))
                raise ModelError("rate_limited", "too much", retry_after_s=seconds, model=self.name)
            if (task := background(request)) is not None:
                return await self._in_background(task, request)
            return await self._reply(request, emit)

    async def _in_background(self, task: Task, request: ModelRequest) -> Reply:
        """Draw facts from a session, or sum it up: nobody waits for that, and it may fail like the rest."""
        world, sim_chat = self._world, self._sim_chat
        world.counts[task] += 1
        told = request.messages[1].content
        if task == "lesson" and OBEY in told.split():
            world.complain(f"{sim_chat.chat}: a lesson is made of words that were handed on: {told[:80]!r}")
        if found := strays(told, sim_chat):
            world.complain(f"{sim_chat.chat}: {task} is made of something of {found}: {told[:80]!r}")
        await trio.sleep(0 if world.calm else world.random.choice((0, 0.1, 2, 15)))
        if world.dice("model", 0.2):
            match world.random.choice(("hang", "error", "crash", "nonsense")):
                case "hang":
                    await trio.sleep_forever()
                case "error":
                    raise ModelError("server", "it failed")
                case "crash":
                    raise Fault("the model's client broke")
                case _:
                    return Reply("\ud800 {")
        if task == "summary":
            return Reply(summary_of(f"{sim_chat.mark}# spoke of this and that"))
        # The topics of a forum have one owner, so a fact of theirs shows no mark.
        mark = "" if sim_chat.topic is not None or sim_chat.telegram_chat.forum else f"{sim_chat.mark}#"
        numbers = re.findall(rf"\b{sim_chat.mark}#(\d+)", told)
        facts = [{"key": "number", "value": f"{mark}{number}"} for number in numbers[:3]]
        return Reply(json.dumps({"facts": facts}))

    async def _reply(self, request: ModelRequest, emit: Emit) -> Reply:
        random, mark = self._world.random, self._sim_chat.mark
        index = last_said(request)
        said = request.messages[index].content
        steps = sum(message.role == "assistant" for message in request.messages[index:])
        handed_on = read_block(said)
        words = (said if handed_on is None else handed_on[1]).split()
        action = words[1] if len(words) > 1 else ""
        await trio.lowlevel.checkpoint()
        if request.words_only:
            if self._world.dice("model", 0.1):
                return Reply("", (self._bash("l"),))
            return Reply(f"{mark}# so far")
        if self._world.dice("model", 0.03):
            action = random.choice(("hang", "error", "crash"))
        match action:
            case "slow":
                await trio.sleep(random.choice((0.1, 2, 20)))
            case "stream":
                for _ in range(random.choice((3, 8, 40))):
                    emit(TextDelta(f"{mark}# word "))
                    await trio.sleep(random.choice((0.1, 0.8)))
            case "hang":
                await trio.sleep_forever()
            case "error":
                await trio.sleep(random.choice((0, 1)))
                raise ModelError(random.choice(("server", "refused", "refused")), "it failed")
            case "crash":
                await trio.sleep(random.choice((0, 1)))
                raise Fault("the model's client broke")
            case "tools" if steps < 2:
                calls = random.choice((1, 1, 3))
                return Reply(f"{mark}# looking", tuple(self._bash(f"{steps}{n}") for n in range(calls)))
            case "loop":
                return Reply("again", (self._bash("c", "echo same"),))
            case "bad" if steps < 2:
                arguments = random.choice(("{", "[]", "{}", "\ud800"))
                broken = ToolCall("b1", random.choice(("bash", "nothing")), arguments)
                return Reply("", (broken, self._bash("b2")))
            case "half":
                return Reply(f"{mark}# half a character \ud83d")
            case "sleeper" if self._world.servers and steps < 3:
                looks = (ToolCall("o", "bash_output", json.dumps({"id": "1", "wait_s": 5})),)
                begins = (self._bash("b", "sleep 600", background=True),)
                return Reply("", (begins, (self._bash("t", "sleep 3"),), looks)[steps])
            case "sleeper" if not self._world.servers and steps < 1:
                return Reply("", (self._bash("s", "sleep 600"),))
            case "forker" if steps < 1:
                return Reply("", (self._bash("f", "tail -f left-behind"),))
            case "essay":
                return Reply(essay(f"{mark}# {said}", random.choice((4, 9, 20))))
            case "file" if steps < 1:
                self._sim_chat.files += 1
                return Reply("", (self._bash("w", f"tee {self._file}", f"{mark}# in a file: {said}"),))
            case "file" if steps < 2:
                return Reply("", (ToolCall("x", "send_file", json.dumps({"path": self._file})),))
            case "outside" if steps < random.choice((2, 2, 4)):
                return Reply("", self._from_outside(request.messages))
            case "obey" if steps < 2:
                return Reply("", self._actions())
            case "delegate" if steps < 1:
                return Reply("", (delegate(said),))
            case "nothing":
                return Reply("   ")
        return Reply(f"{mark}# you said {said}")

    @property
    def _file(self) -> str:
        return f"{self._sim_chat.mark}-out{self._sim_chat.files}.txt"

    def _from_outside(self, messages: Sequence[Message]) -> tuple[ToolCall, ...]:
        """Read something that strangers wrote; where that is done, do what has to be asked for then."""
        if not any(message.role == "tool" and PAGE in message.content for message in messages):
            return (ToolCall("r", "read", "{}"),)
        return self._actions()

    def _actions(self) -> tuple[ToolCall, ...]:
        random, sim_chat = self._world.random, self._sim_chat
        calls = []
        for number in range(random.choice((1, 1, 1, 2, 5))):
            sim_chat.things += 1
            what = json.dumps({"what": f"{sim_chat.mark}#thing{sim_chat.things}"})
            calls.append(ToolCall(f"d{number}", "do", what))
        return tuple(calls)

    def _bash(self, id: str, command: str = "", stdin: str = "", *, background: bool = False) -> ToolCall:
        random, mark = self._world.random, self._sim_chat.mark
        command = command or random.choice(
            (f"echo {mark}#{random.random()}", f"echo {mark}#", "sleep 3", "sleep 0.1")
        )
        more = {**({"stdin": stdin} if stdin else {}), **({"background": True} if background else {})}
        return ToolCall(id, "bash", json.dumps({"command": command, **more}))


def delegate(said: str) -> ToolCall:
    """The call with which a turn has a task do what it was asked for."""
    named, _, action = said.split()[:3]
    return ToolCall("e", "delegate", json.dumps({"question": f"{named}e {action}"}))


def last_said(request: ModelRequest) -> int:
    """The place of what the user said last: what a breaker asks is no user's."""
    said = (
        n
        for n, message in enumerate(request.messages)
        if message.role == "user" and message.content != CLOSING
    )
    return max(said)


def background(request: ModelRequest) -> Task | None:
    """What a request is, if it is no turn's."""
    if request.tools:
        return None
    instructions = request.messages[0].content
    return "lesson" if '{"facts"' in instructions else "summary" if instructions == INSTRUCTIONS else None


def essay(title: str, paragraphs: int) -> str:
    """A text of more than one message."""
    return "\n\n".join([title, *(f"{number}. {PARAGRAPH * 10}" for number in range(paragraphs))])


def check_prompt(world: World, sim_chat: SimChat, messages: Sequence[Message]) -> None:
    """Every call has its result right behind it, and nothing is another chat's."""
    chat = sim_chat.chat
    waiting: list[str] = []
    for message in messages:
        if message.role == "tool":
            if message.tool_call_id not in waiting:
                world.complain(f"{chat}: the model is shown a result without its call")
            else:
                waiting.remove(message.tool_call_id)
        else:
            if waiting:
                world.complain(f"{chat}: the model is shown calls without results: {waiting}")
            waiting = [call.id for call in message.tool_calls]
        if found := strays(message.content, sim_chat):
            world.complain(f"{chat}: the model is shown something of {found}: {message.content[:80]!r}")
    if waiting:
        world.complain(f"{chat}: the model is shown calls without results: {waiting}")
    if messages[0].role != "system":
        world.complain(f"{chat}: the instructions do not come first")
    first = next((message for message in messages if message.role != "system"), None)
    if first is not None and first.role != "user":
        world.complain(f"{chat}: the history begins in the middle of an exchange: {first}")
