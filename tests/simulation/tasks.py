"""Tasks in the simulation: people ask for them, they do what their question says, and what must hold then.

A question is `ann#12 looks`. The task's model calls a tool that looks at something. What it looks at is named
by what the model was shown, so a call that the model does not know of comes again under the same name.
"""

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import trio

from rumi.agent.fitting import CLOSING
from rumi.agent.tool import Question, ToolResult
from rumi.agent.tools.bash import Bash
from rumi.agent.turn import CONTINUE
from rumi.chats.events import ChatEvent, Replied
from rumi.errors import RumiError, UsageError
from rumi.models.actor import ModelsRef
from rumi.models.chain import Chain, ChainStep
from rumi.models.dialects.conversation import NO_RESULT
from rumi.models.metering import Account, Meter
from rumi.models.model import Emit, Message, ModelRequest, Reply, ToolCall, ToolSpec
from rumi.platform.chat_ids import BUILT_IN, TASK, task_key
from rumi.platform.config.schema import TasksSection
from rumi.platform.texts import replies as reply_texts
from rumi.platform.texts import tasks as task_texts
from rumi.platform.texts.translation import error_text
from rumi.store.journal.records import Reason, TaskRecord
from rumi.tasks.kinds import Finished, TaskContext, TaskWork
from rumi.tasks.tasks import Tasks
from rumi.texts import Language
from tests.simulation.book import Book
from tests.simulation.model import SERVER, Attempt, ModelServer, check_prompt, last_said
from tests.simulation.ports import Life
from tests.simulation.sim_chats import SimChat
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.people import People

INSTRUCTIONS = "You look at things."
KIND = "web"
"""The kind that `/research` asks for."""

LIMITS = TasksSection(max_turns=6, timeout_s=150.0, max_running=3, per_owner=2, keep_days=0)
MOST_OPEN = 6

ACTIONS = (
    *(
        "look",
        "look",
        "looks",
        "looks",
        "looks",
        "many",
        "box",
        "sleeper",
        "sleeper",
        "long",
        "hang",
        "error",
    ),
    *("crash", "nothing", "loop", "fails", "breaks"),
)
PAUSES_S = (0, 0, 0.01, 0.3, 2, 2, 9, 25)

MOMENTS = (
    *("task looks", "task looks", "task looked", "task looked", "task result", "task result"),
    *("task begins", "task calls", "task is stopped"),
)
"""When a process may die where people ask for tasks, besides at other times."""

AT_ONCE_S = 0.5
"""How long after a stop was told of something of the task may still run."""

BETWEEN = frozenset({CLOSING, CONTINUE})
"""What the program itself asks a model, behind the question."""

FINAL = frozenset({"succeeded", "failed", "out_of_budget", "stopped", "interrupted"})
LANGUAGES: tuple[Language, ...] = ("es", "en")

_STOPS = re.compile(
    "|".join(re.escape(task_texts.task_stops(one, 7)).replace("7", r"(\d+)") for one in LANGUAGES)
)

LOOK = ToolSpec("look", "Looks at something.", {})
DELEGATE = ToolSpec("delegate", "Has a task look at something, and waits for it.", {})


@dataclass(eq=False)
class Doing:
    """One task, over all processes. `calls` counts its model calls, `since_kept` those behind its last step.

    `lost` are calls that were not counted: of a process or an incarnation that ended in the middle of them.
    `ran` counts how often it began to look at something, `told` how often its model read that a look may have
    happened.
    """

    key: str
    sim_chat: SimChat
    attached: bool
    question: str
    calls: int = 0
    since_kept: int = 0
    lost: int = 0
    earlier: list[Life] = field(default_factory=list)
    behind: dict[Life, float] = field(default_factory=dict)
    """When one of the `earlier` processes went on behind a pause with the calls that it had stored."""
    running: int = 0
    life: Life | None = None
    """The process that made its last call."""
    ran: Counter[str] = field(default_factory=Counter)
    no_results: Counter[str] = field(default_factory=Counter)
    stopped_at: float | None = None


@dataclass(eq=False)
class Delegated:
    """A turn waits for a task. `done`: it had its answer, or was told that there is none."""

    question: str
    life: Life
    done: bool = False


class Doings:
    """All tasks of a history."""

    def __init__(
        self,
        world: World,
        book: Book,
        sim_chats: Mapping[str, SimChat],
        start_soon: Callable[..., None],
        *,
        stops_within_s: float = AT_ONCE_S,
        clocks_s: float = 0.0,
    ) -> None:
        """`stops_within_s`: what was told to be stopped is over. `clocks_s`: so much clocks may differ."""
        self._clocks_s = clocks_s
        self._stops_within_s = stops_within_s
        self._world = world
        self._book = book
        self._sim_chats = sim_chats
        self._start_soon = start_soon
        self._doings: dict[str, Doing] = {}
        self._delegated: list[Delegated] = []
        self._dice = Random(f"people's tasks {world.seed}")

    def of(self, key: str) -> Doing:
        """Return what is known of a task."""
        if key not in self._doings:
            found = self._book.ask(
                "SELECT chat, attached, question FROM tasks WHERE id = ?", int(key.removeprefix(TASK))
            )
            ((chat, attached, question),) = found
            self._doings[key] = Doing(key, self._sim_chats[chat], bool(attached), question)
        return self._doings[key]

    def sim_chat_of(self, chat: str) -> SimChat:
        """Return the place of a chat, or of a task."""
        return self.of(chat).sim_chat if chat.startswith(TASK) else self._sim_chats[chat]

    # People

    def draw_death(self) -> tuple[str, int] | None:
        """When a process dies, if that has to do with tasks."""
        if self._world.tasks and self._dice.random() < 0.6:
            return self._dice.choice(MOMENTS), self._dice.choice((1, 1, 2, 3))
        return None

    async def live(self, people: "People", sim_chats: Sequence[SimChat]) -> None:
        """Ask for tasks here and there, look at them, and stop some."""
        async with trio.open_nursery() as nursery:
            for sim_chat in sim_chats:
                if sim_chat.people and self._world.tasks:
                    nursery.start_soon(self._live_in, people, sim_chat)

    async def _live_in(self, people: "People", sim_chat: SimChat) -> None:
        dice = self._dice
        for _ in range(dice.choice((1, 2, 3, 3, 5, 8))):
            await trio.sleep(dice.choice(PAUSES_S))
            action, person = dice.choice(ACTIONS), dice.choice(sim_chat.people)
            match dice.choice((*("research",) * 6, *("stop",) * 4, "tasks", "delegate", "delegate")):
                case "research":
                    people.say(sim_chat, f"/research {people.words(sim_chat, action)}", person)
                case "stop":
                    ids = [id for (id,) in self._book.ask("SELECT id FROM tasks ORDER BY id DESC LIMIT 6")]
                    people.say(sim_chat, f"/stop {dice.choice((*ids, 99, 10**20))}", person)
                case "tasks" if not sim_chat.telegram_chat.forum:  # whose topics have one owner
                    people.say(sim_chat, "/tasks", person)
                case _:
                    people.say(sim_chat, people.words(sim_chat, f"delegate {action}"), person)

    # The work

    def calls(self, key: str, messages: Sequence[Message], life: Life) -> Doing:
        """Note that a task's model is called, and what it is told."""
        doing = self.of(key)
        doing.calls += 1
        if life in doing.earlier:  # it may go on behind a pause, and know of no other worker yet
            doing.lost += 1
        else:
            if doing.life is not None and doing.life is not life:
                doing.earlier.append(doing.life)
            doing.life = life
            doing.since_kept += 1
        named = names_of(messages)
        told = Counter(
            named[message.tool_call_id]
            for message in messages
            if message.role == "tool" and message.content == NO_RESULT and message.tool_call_id in named
        )
        doing.no_results |= told
        said = [
            message.content
            for message in messages
            if message.role == "user" and message.content not in BETWEEN
        ]
        if said[-1] != doing.question:
            self._world.complain(f"{key}: its model is asked {said[-1]!r}, and not {doing.question!r}")
        return doing

    def begins(self, key: str) -> None:
        """An incarnation begins to work: what it does not know of its costs was lost with the one before."""
        doing = self.of(key)
        missing = doing.calls - doing.lost - self._counted(key)
        if missing > doing.since_kept:
            self._world.complain(f"{key}: goes on with {missing} model calls less than it made")
        doing.lost += max(0, missing)
        doing.since_kept = 0

    def _counted(self, key: str) -> int:
        found = self._book.ask("SELECT spent FROM tasks WHERE id = ?", int(key.removeprefix(TASK)))
        return int(json.loads(found[0][0]).get("calls", 0)) if found else 0

    def ends(self, key: str, life: Life) -> None:
        """A process says that a task has ended: it knows nothing of what another one has done last."""
        doing = self.of(key)
        if doing.life is not life:
            doing.lost += doing.since_kept
            doing.since_kept = 0

    def looks(self, doing: Doing, at: str, life: Life) -> None:
        """A task begins to look at something.

        A process that was paused between storing a call and making it makes it when it goes on, whatever
        another one has done meanwhile. It can store no further call.
        """
        world, key = self._world, doing.key
        world.note(key, f"looks at {at}")
        world.counts["task looks"] += 1
        now = trio.current_time()
        if life in doing.earlier and doing.behind.setdefault(life, now) == now:
            return
        doing.since_kept = 0  # the call is stored, with all that was spent until then
        if doing.stopped_at is not None and now > doing.stopped_at + self._stops_within_s:
            world.complain(f"{key}: looks at {at} though it was stopped")
        if doing.ran[at] > doing.no_results[at]:
            world.complain(f"{key}: looks at {at} again, and its model was not told that it may have")
        rows = self._book.ask("SELECT message FROM history WHERE chat = ? ORDER BY id", key)
        stored = [json.loads(row) for (row,) in rows]
        with_result = {message.get("tool_call_id") for message in stored if message["role"] == "tool"}
        for call in (call for message in stored for call in message.get("tool_calls") or ()):
            if call["id"] in with_result and at_of(call["arguments"]) == at:
                world.complain(f"{key}: looks at {at} again, whose result is stored")
        doing.ran[at] += 1

    # What is told

    def see(self, event: ChatEvent) -> None:
        """Look at what a chat is told."""
        if not isinstance(event.what, Replied) or event.chat.startswith(TASK):
            return
        found = _STOPS.fullmatch(event.what.text)
        if found is not None:
            self._world.counts["tasks stopped"] += 1
            doing = self.of(task_key(int(next(filter(None, found.groups())))))
            if doing.stopped_at is None:
                doing.stopped_at = trio.current_time()
            self._start_soon(self._look_behind, doing)

    async def _look_behind(self, doing: Doing) -> None:
        await trio.sleep(self._stops_within_s)
        if doing.running:
            self._world.complain(f"{doing.key}: was stopped, and still looks")

    def nothing_runs(self, chat: str, turn: str) -> None:
        """A turn is said to be over: so are the tasks that it waited for."""
        for doing in self._doings.values():
            if doing.attached and doing.sim_chat.chat == chat and doing.running:
                self._world.complain(f"{chat} {turn}: said to be over, and {doing.key} still looks")

    def delegates(self, question: str, life: Life) -> Delegated:
        """A turn begins to wait for a task."""
        self._world.counts["tasks waited for"] += 1
        self._delegated.append(Delegated(question, life))
        return self._delegated[-1]

    # In the end

    def check(self, *, undisturbed: bool) -> None:
        """Every task has ended once, and its chat was told so once."""
        rows = self._book.ask(
            "SELECT id, owner, chat, coalesce(message, 0), attached, question, language, state, answer,"
            " ended FROM tasks"
        )
        for id, owner, chat, message, attached, question, language, state, answer, ended in rows:
            name, complain = f"task {id} of {chat}", self._world.complain
            self._world.counts[f"tasks {state}"] += 1
            if ended is None or state not in FINAL:
                complain(f"{name} has not ended: {state}")
            if state == "succeeded" and not answer.strip():
                complain(f"{name} succeeded without an answer")
            told = [text for (text,) in self._book.ask("SELECT text FROM messages WHERE task = ?", id)]
            wanted = [] if attached else [task_texts.task_result(language, id, state, question, answer)]
            if told != wanted:
                complain(f"{name} brings {len(told)} results, and not {len(wanted)}: {told}")
            if owner != BUILT_IN.owner_of(chat):
                complain(f"{name} belongs to {owner}")
            if state == "stopped" and not attached and not (self._stopped_by(id, owner) or self._world.stops):
                complain(f"{name} was stopped by nobody of {owner}")
            if state == "interrupted" and (undisturbed or not attached):
                complain(f"{name} was interrupted by nothing")
            if message:
                self._check_begun(name, message)
            key = task_key(id)
            if key in self._doings:
                doing = self._doings[key]
                over = doing.life is not None and ended is not None and doing.life.over_at <= ended
                if state == "interrupted" or (state == "stopped" and over):  # it did not go on behind that
                    doing.lost += doing.since_kept
                if self._counted(key) < doing.calls - doing.lost:
                    complain(
                        f"{name} has made {doing.calls} model calls, {doing.lost} of them lost, and says"
                        f" {self._counted(key)}"
                    )
        self._check_delegated()
        self._check_stops()

    def _stopped_by(self, id: int, owner: str) -> bool:
        asked = self._book.ask("SELECT chat FROM messages WHERE text = ?", f"/stop {id}")
        return any(BUILT_IN.owner_of(chat) == owner for (chat,) in asked)

    def _check_begun(self, name: str, message: int) -> None:
        """Who asked for it is told of it, and not to ask again."""
        replies = self._book.ask(
            "SELECT outbox.text FROM messages JOIN outbox ON reply = outbox.id WHERE messages.id = ?", message
        )
        if any(
            text == reply_texts.lost_command(one, "/research") for (text,) in replies for one in LANGUAGES
        ):
            self._world.complain(f"{name} was said to be lost: {replies}")

    def _check_delegated(self) -> None:
        """What a turn of a killed process waited for was interrupted."""
        for one in self._delegated:
            if one.done or not one.life.dead:
                continue
            found = self._book.ask(
                "SELECT id, state, created, ended FROM tasks WHERE question = ? AND attached", one.question
            )
            for id, state, created, ended in found:
                if (
                    created <= one.life.died_at
                    and ended is not None
                    and ended > one.life.died_at + self._clocks_s
                    and state != "interrupted"
                ):
                    self._world.complain(f"task {id} is {state}, and its process was killed")

    def _check_stops(self) -> None:
        """Another owner's number is unknown, and what is told of the own ones is true."""
        rows = self._book.ask(
            "SELECT messages.chat, messages.text, outbox.text, outbox.created FROM messages"
            " JOIN outbox ON reply = outbox.id WHERE messages.text GLOB '/stop [0-9]*'"
        )
        tasks = {
            id: (owner, ended) for id, owner, ended in self._book.ask("SELECT id, owner, ended FROM tasks")
        }
        for chat, text, reply, created in rows:
            id = int(text.split()[1])
            owner, ended = tasks.get(id, ("", None))
            over = UsageError(f"Task {id} has ended already.", "Look at the list of tasks.")
            said_over = any(reply == f"❌ {error_text(one, over)}" for one in LANGUAGES)
            if owner != BUILT_IN.owner_of(chat) and (said_over or _STOPS.fullmatch(reply)):
                self._world.complain(f"{chat}: {text!r} reached the task {id} of {owner}: {reply!r}")
            if said_over and (ended is None or ended > created + self._clocks_s):
                self._world.complain(f"{chat}: was told that the task {id} has ended, and it had not")


def at_of(arguments: str) -> str:
    """What a call looks at."""
    return str(json.loads(arguments).get("at", ""))


def names_of(messages: Sequence[Message]) -> dict[str, str]:
    """What the calls in a prompt look at, by their ids."""
    return {call.id: at_of(call.arguments) for message in messages for call in message.tool_calls}


class TaskModel:
    """A task's model, in one process: the program's own chain of models."""

    name = "scripted"

    def __init__(
        self,
        server: ModelServer,
        doings: Doings,
        key: str,
        life: Life,
        permits: ModelsRef,
        meter: Meter | None,
    ) -> None:
        self._world = server.world
        self._doings = doings
        self._life = life
        self._key = key
        sim_chat = doings.of(key).sim_chat
        steps = [ChainStep(TaskAttempt(server, sim_chat, name, key), SERVER) for name in ("first", "second")]
        self._chain = Chain(
            steps,
            chat=key,
            permits=permits,
            random=Random(self._world.random.getrandbits(32)),
            account=Account(sim_chat.chat, BUILT_IN.owner_of(sim_chat.chat), int(key.removeprefix(TASK))),
            meter=meter,
        )

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        doing = self._doings.calls(self._key, request.messages, self._life)
        check_prompt(self._world, doing.sim_chat, request.messages)
        self._life.moment("task calls")
        return await self._chain.reply(request, emit)


class TaskAttempt(Attempt):
    """One of the models of a task's chain."""

    async def _reply(self, request: ModelRequest, emit: Emit) -> Reply:
        world, mark = self._world, self._sim_chat.mark
        random = world.random
        said, action = request.messages[last_said(request)].content.split()[:2]
        await trio.lowlevel.checkpoint()
        if request.words_only:
            if world.dice("model", 0.1):
                return Reply("", (self._look(request, said, 0),))
            return Reply(f"{mark}# so far")
        if world.dice("model", 0.03):
            action = random.choice(("hang", "error", "crash"))
        seen = len(set(names_of(request.messages).values()))
        match action:
            case "hang" | "error":
                return await super()._reply(request, emit)
            case "crash" if world.dice("model", 0.5) or random.random() < 0.2:
                return await super()._reply(request, emit)
            case "nothing":
                return Reply("   ")
            case "long" if random.random() < 0.7:
                return Reply(f"{mark}# more", finish_reason="length")
            case "box" if seen < 2:
                command = random.choice((f"echo {mark}#", "sleep 3", "sleep 600", "tail -f left-behind"))
                named = {"command": command, "at": f"{said}.{seen}"}
                return Reply("", (ToolCall(f"b{seen}", "bash", json.dumps(named)),))
            case "many" if seen < 6:
                return Reply("", tuple(self._look(request, said, n) for n in range(3)))
            case "loop":
                return Reply("", (self._look(request, said, 0),))
            case "look" | "sleeper" | "fails" | "breaks" | "crash" if seen < 1:
                return Reply("", (self._look(request, said, 0, action),))
            case "looks" if seen < 3:
                return Reply("", (self._look(request, said, 0),))
        return Reply(f"{mark}# it is so: {said}, {seen}")

    def _look(self, request: ModelRequest, said: str, more: int, how: str = "") -> ToolCall:
        """Look at the next thing, or again at one of which nobody knows whether it was looked at."""
        named = names_of(request.messages)
        at = f"{said}.{len(named) + more}"
        last = request.messages[-1]
        if (
            last.role == "tool"
            and last.content == NO_RESULT
            and not more
            and self._world.random.random() < 0.5
        ):
            at = named[last.tool_call_id]
        return ToolCall(f"c{len(named) + more}", "look", json.dumps({"at": at, "how": how}))


class Look:
    """Looks at something: that may take long, or fail."""

    spec = LOOK
    concurrent = True

    def __init__(self, life: Life, doings: Doings, doing: Doing) -> None:
        self._life = life
        self._doings = doings
        self._doing = doing

    async def prepare(self) -> None:
        return

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        return None

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        life, doing = self._life, self._doing
        if life.dead:
            raise RumiError("The process is dead.")
        world, at = life.world, str(arguments["at"])
        self._doings.looks(doing, at, life)
        doing.running += 1
        try:
            life.moment("task looks")
            with world.waits.of(doing.key):
                await trio.sleep(world.random.choice((0, 0.5, 4)))
                match arguments["how"]:
                    case "sleeper":
                        await trio.sleep(600)
                    case "fails":
                        raise RumiError("There is nothing to look at.")
                    case "breaks":
                        raise ZeroDivisionError
        finally:
            doing.running -= 1
        life.moment("task looked")
        return ToolResult(True, f"{doing.sim_chat.mark}# saw {at}", tainted=world.random.random() < 0.5)


class Looking:
    """The kind of task, in one process."""

    def __init__(self, life: Life, doings: Doings) -> None:
        self._life = life
        self._doings = doings

    @asynccontextmanager
    async def open(self, context: TaskContext) -> AsyncIterator[TaskWork]:
        await trio.lowlevel.checkpoint()
        self._doings.begins(context.key)
        self._life.moment("task begins")
        tools = (Look(self._life, self._doings, self._doings.of(context.key)), Bash(context.shell))

        async def finish(answer: str, reason: Reason) -> Finished:
            await trio.lowlevel.checkpoint()
            return Finished(answer, json.dumps({"whole": reason == "complete"}))

        yield TaskWork(INSTRUCTIONS, tools, finish)


class Delegate:
    """A chat's tool that has a task do something, and waits for it."""

    spec = DELEGATE
    concurrent = False

    def __init__(self, life: Life, sim_chat: SimChat, doings: Doings, tasks: Tasks) -> None:
        self._life = life
        self._sim_chat = sim_chat
        self._doings = doings
        self._tasks = tasks

    async def prepare(self) -> None:
        return

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        return None

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        life, chat = self._life, self._sim_chat.chat
        if life.dead:
            raise RumiError("The process is dead.")
        question = str(arguments["question"])
        delegated = self._doings.delegates(question, life)
        with life.world.waits.of(chat):
            task = TaskRecord(KIND, BUILT_IN.owner_of(chat), question, chat)
            try:
                done = await self._tasks.run(task, lambda step: None)
            finally:
                delegated.done = not life.dead
        return ToolResult(done.state == "succeeded", done.answer, tainted=True)


def left_of(tasks: Tasks, *, boxes_fail: bool) -> dict[str, Any]:
    """What is kept of tasks, though none runs. A folder whose box may be there waits for the next start."""
    folder = tasks._services.workspaces.folder
    return {
        "open tasks": tasks._open,
        "costs of tasks": tasks._costs,
        "actors of tasks": tasks._children.keys(),
        "folders of tasks": [] if boxes_fail else sorted(path.name for path in folder.glob(f"{TASK}*")),
    }
