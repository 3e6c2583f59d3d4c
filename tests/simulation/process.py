"""One process of the program: its tree, as the program makes it, and how it ends."""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Never, Protocol, cast

import trio
from telegram import Bot

from actors import ActorRef, ChildSpec, Supervisor, TreeEvent
from rumi.app.stop_all import Everything
from rumi.channels.telegram.channel import Telegram
from rumi.chats.budgets.meter import Budgets, WriteNow
from rumi.chats.budgets.meter import Ledger as UsageLedger
from rumi.chats.context import ChatContext
from rumi.chats.events import ChatEvent
from rumi.chats.fact_extraction import add_fact_extraction
from rumi.chats.hub import Hub
from rumi.chats.inbox import Inbox, add_chats
from rumi.chats.publishing import PendingMessages, Publisher
from rumi.chats.services import ChatServices, ChatWorkspaces, CommandHandler
from rumi.memory.actor import Memory, asking
from rumi.memory.extractor import extract
from rumi.models.build import ModelSet
from rumi.platform.chat_ids import BUILT_IN, TASK, task_key
from rumi.platform.config.schema import SessionSection, Settings
from rumi.platform.home import Home
from rumi.platform.logs.audit import AuditLog
from rumi.sandbox.chat_files import ChatFiles
from rumi.sandbox.disk import Disk as FileSystem
from rumi.sandbox.engine import SandboxLimits
from rumi.sandbox.sandboxes import add_sandboxes
from rumi.store.backend import Backend
from rumi.store.journal.actor import Journal, JournalState
from rumi.store.journal.records import Incoming
from rumi.store.journal.transaction import JournalMessage
from rumi.store.ownership import Ownership
from rumi.tasks.schedules.clock import ScheduleClock
from rumi.tasks.schedules.schedules import Schedules, ScheduleServices
from rumi.tasks.services import TaskServices
from rumi.tasks.tasks import Tasks, task_slots
from rumi.texts import Language
from tests.chats.house import limited
from tests.fakes.bot_api import TOKEN, BotApi
from tests.fakes.containers import disk_with_space
from tests.simulation.asking import CONFIRM_S, Asking
from tests.simulation.containers import Client, Daemon
from tests.simulation.ledger import Ledger
from tests.simulation.model import AT_ONCE, Model, ModelServer
from tests.simulation.money import RULES, Purse
from tests.simulation.ports import Disk, Files, Life, Line, MemoryDisk
from tests.simulation.reminders import Reminders, WatchedJournal
from tests.simulation.sim_chats import PEOPLE, WHO, WHOLE_STATUS, SimChat
from tests.simulation.stopping import Stops, WatchedEverything
from tests.simulation.tasks import KIND, LIMITS, MOST_OPEN, Delegate, Doings, Looking, TaskModel
from tests.simulation.untrusted_tools import tools_of
from tests.simulation.witness import Witness
from tests.simulation.world import World

TURN_S = 60.0
COMMAND_S = 20.0
SESSION_S = 100.0
HISTORY_MESSAGES = 12
"""So few that conversations outgrow it."""
CONTEXT_TOKENS = 100_000
BACK_S = 3.0
"""How long all may wait for each other when the tree has been restarted."""
BOX_S = 200.0
"""How long a box stays that nobody uses."""


UP_TO_SENDER = frozenset(
    f"rumi/{name}" for name in ("journal", "budgets", "memory", "models", "registry", "sandboxes", "sender")
)


class WatchedHub(Hub):
    """A hub at which a witness stands."""

    def __init__(self, witness: Witness) -> None:
        super().__init__()
        self._witness = witness

    def publish(self, event: ChatEvent) -> None:
        self._witness.see(event)
        super().publish(event)

    def nothing_runs(self, chat: str) -> None:
        self._witness.begins_afresh(chat)
        super().nothing_runs(chat)


class NoAudit:
    """What was done is not looked up here."""

    def write(self, event: str, **fields: object) -> None:
        pass

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Setting:
    """What all processes of a history share. `begun` counts how often what was said became a turn."""

    world: World
    home: Home
    api: BotApi
    daemon: Daemon
    sim_chats: Mapping[str, SimChat]
    witness: Witness
    ledger: Ledger
    latency: tuple[float, float]
    asking: Asking
    doings: Doings
    stops: Stops
    purse: Purse
    reminders: Reminders
    begun: Counter[str] = field(default_factory=Counter)


class Membership(Protocol):
    """What makes a process a worker among others of one database."""

    backend: Backend
    ownership: Ownership

    def now(self) -> float:
        """Return the time by the worker's clock, in seconds since 1970."""
        ...

    def disk(self, life: Life) -> Disk:
        """Return what does the blocking work."""
        ...

    def client(self, daemon: Daemon) -> Client:
        """Return the connection to the worker's own sandboxes."""
        ...

    def line(self, life: Life, setting: "Setting") -> Line:
        """Return a line to Telegram."""
        ...

    def add_lease(self, process: "Process") -> None:
        """Add the lease, below the journal."""
        ...

    def add_partitions(self, process: "Process") -> None:
        """Add the partitions, below all that serves chats."""
        ...

    def killed(self) -> None:
        """Take note that the process is killed."""
        ...


class Process:
    """One life of the program on a home. `calls` counts the model's calls under way, by chat.

    With a `membership` it is one of several workers, and hears of messages by no poller of its own.
    """

    def __init__(
        self,
        setting: "Setting",
        death: tuple[str, int] | None = None,
        membership: Membership | None = None,
    ) -> None:
        world = setting.world
        self.world = world
        self.membership = membership
        self.life = Life(world, death, self._end)
        self.calls: Counter[str] = Counter()
        self.shaken = False
        """Something above the sender, or the sender itself, has crashed."""
        self.started = False
        self._broken_since = inf
        self.scope = trio.CancelScope()
        self.callers: trio.Nursery
        """For whoever calls from outside: they hear when the process ends."""
        self.everything: Everything
        self._task: trio.lowlevel.Task | None = None
        self._setting = setting
        self.client = Client(setting.daemon) if membership is None else membership.client(setting.daemon)
        self.root = Supervisor("rumi", strategy="rest_for_one", observe=self._observe)
        disk = Disk(self.life) if membership is None else membership.disk(self.life)
        now = world.now if membership is None else membership.now
        self._lines = [
            Line(self.life, setting.api, setting.latency, setting.witness.typing)
            if membership is None
            else membership.line(self.life, setting)
            for _ in range(2)
        ]
        bot = Bot(TOKEN, request=self._lines[0], get_updates_request=self._lines[1])
        self.telegram = Telegram()
        files = cast(Any, Files(self.life, setting.api))
        self.telegram.connect(bot, WHO, files, ChatFiles(setting.home.workspaces), voice=False)
        self.telegram._reading = cast(Any, disk)
        if world.random.random() < 0.8:
            self.telegram._memory.registered = True  # the same calls each time: some processes are enough
        home, sim_chats = setting.home, setting.sim_chats
        sim_chat = home.state_db if membership is None else membership.backend
        ownership = None if membership is None else membership.ownership
        journal_state = None if membership is None else JournalState()
        journal: ActorRef[JournalMessage] = self.root.add(
            ChildSpec(
                "journal",
                lambda: Journal(sim_chat, disk, now, journal_state, ownership=ownership),
                capacity=1024,
                shutdown=10.0,
            )
        )
        self.journal = journal
        if membership is not None and ownership is not None:
            self.telegram._serves = ownership.serves
            membership.add_lease(self)
        self.budgets: Budgets | None = None
        self.usage: ActorRef[WriteNow] | None = None
        if world.budgets:
            budgets = self.budgets = Budgets(setting.purse.watch(journal.ask), RULES, now)
            self.usage = self.root.add(ChildSpec("budgets", lambda: UsageLedger(budgets)))
        keeper = MemoryDisk(disk)
        memory = self.root.add(ChildSpec("memory", lambda: Memory(home.memory_db, keeper, now)))
        self.sandboxes = add_sandboxes(
            self.root,
            self.client,
            SandboxLimits(timeout_s=COMMAND_S, idle_ttl_s=BOX_S),
            home.root,
            measure=_measured,
            disk=FileSystem(home.root, statvfs=disk_with_space),
        )
        self.model_server = ModelServer(world, world.random.choice(AT_ONCE))
        models = ModelSet((), (), CONTEXT_TOKENS, max_concurrent=self.model_server.at_once)
        permits = self.root.add(models.spec())
        self._permits = permits
        hub = WatchedHub(setting.witness)
        self.telegram.add_sender(self.root, journal, hub, lambda chat: self.inbox.chats.end(chat))
        self.pending = PendingMessages()
        context = ChatContext(
            model_for=self._model_for,
            settings=Settings(
                agent=limited(timeout_s=TURN_S, confirm_timeout_s=CONFIRM_S),
                session=SessionSection(ttl_s=SESSION_S, history_messages=HISTORY_MESSAGES),
                chat=world.chat_section,
            ),
            context_tokens=CONTEXT_TOKENS,
            language="en",
            ids=BUILT_IN,
            now=now,
            bring=self.telegram.bring,
            tools_for=lambda view: (
                *self.telegram.tools_for(view.chat),
                *tools_of(self.life, sim_chats[view.chat], setting.asking),
                *self._delegates(sim_chats[view.chat]),
            ),
            memory=asking(memory),
            thinks=True,
            **({"people": PEOPLE} if world.guests else {}),
        )
        audit, container_id = cast(AuditLog, NoAudit()), self.sandboxes.container_id
        publisher = Publisher(hub, audit, self.pending, now, container_id)
        workspaces = ChatWorkspaces(ChatFiles(home.workspaces), disk)
        fact_extraction = add_fact_extraction(self.root, journal, context, extract)
        self.tasks: Tasks | None = None
        if world.tasks or world.stops:
            task_services = TaskServices(
                journal=journal,
                sandboxes=self.sandboxes,
                workspaces=workspaces,
                publisher=publisher,
                model_for=lambda task: self._model_for(task_key(task.id), task.language, task.model),
                kinds={KIND: Looking(self.life, setting.doings)},
                settings=Settings(tasks=LIMITS),
                context_tokens=CONTEXT_TOKENS,
                slots=task_slots(LIMITS.max_running, LIMITS.per_owner),
                max_open=MOST_OPEN,
                files=home.tasks,
                now=now,
                wake=self._wake,
                ended=lambda id: self.tasks.ended(id) if self.tasks is not None else None,
                stepped=lambda id, step: None,
                serves=lambda place: ownership is None or ownership.serves(place),
            )
            self.tasks = Tasks(self.root, task_services, BUILT_IN)
        handlers: dict[str, CommandHandler] = {} if self.tasks is None else {"tasks": self.tasks}
        self.services = ChatServices(
            journal=journal,
            sandboxes=self.sandboxes,
            workspaces=workspaces,
            hub=hub,
            publisher=publisher,
            pending=self.pending,
            context=context,
            fact_extraction=fact_extraction,
            **(
                {}
                if self.budgets is None
                else {"notices": self.budgets.notices, "noticed": self.budgets.drop_notices}
            ),
            handlers=handlers,
            **({} if self.tasks is None else {"running_tasks": self.tasks.running}),
        )
        self.inbox: Inbox = add_chats(
            self.root,
            self.services,
            whole_status=lambda: WHOLE_STATUS,
            worker=lambda: None if ownership is None else ownership.worker,
        )
        self.schedules: Schedules | None = None
        self.clock: ActorRef[Never] | None = None
        if world.reminders:
            schedules = self.schedules = Schedules(
                ScheduleServices(
                    cast(Any, WatchedJournal(journal, self.life)),
                    cast(Any, self.tasks),
                    hub,
                    BUILT_IN,
                    self._remind,
                    now=now,
                )
            )
            handlers["schedules"] = schedules
            self.clock = self.root.add(ChildSpec("schedules", lambda: ScheduleClock(schedules)))
        if self.tasks is not None:
            pauses = {} if self.schedules is None else {"schedules": self.schedules.pause_all}
            self.everything = Everything(self.inbox, self.tasks, BUILT_IN, pauses)
            handlers["everything"] = WatchedEverything(self.everything, self, setting.stops)
        if membership is not None:
            membership.add_partitions(self)
        else:
            self.telegram.add_receiver(self.root, self.inbox, journal, hub)

    def _model_for(self, chat: str, language: Language, chosen: str) -> Model | TaskModel:
        setting = self._setting
        if chat.startswith(TASK):
            return TaskModel(self.model_server, setting.doings, chat, self.life, self._permits, self.budgets)
        return Model(
            self.model_server, setting.sim_chats[chat], self.calls, setting.begun, self._permits, self.budgets
        )

    def _delegates(self, sim_chat: SimChat) -> tuple[Delegate, ...]:
        if self.tasks is None:
            return ()
        return (Delegate(self.life, sim_chat, self._setting.doings, self.tasks),)

    def _wake(self, message: Incoming) -> None:
        """A task has ended, and its result is stored."""
        self.life.moment("task result")
        if not self.life.dead:
            self.inbox.chats.wake(message)

    def _remind(self, message: Incoming) -> None:
        """A reminder has come, and is stored."""
        self.life.moment("reminds")
        if not self.life.dead:
            self.inbox.chats.wake(message)

    def has(self, chat: str) -> bool:
        """Whether a chat, or a task, is there."""
        if chat.startswith(TASK):
            return self.tasks is not None and chat.removeprefix(TASK) in set(self.tasks._children.keys())
        return self.inbox.chats.lookup(chat) is not None

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The process lives as long as the block, or shorter: then the block is cancelled."""
        self._task = trio.lowlevel.current_task()
        self._setting.witness.begin(self)
        try:
            with self.scope:
                async with self.root.running(), trio.open_nursery() as self.callers:
                    yield
                    self.callers.cancel_scope.cancel()
        finally:
            self._task = None

    def _end(self) -> None:
        """Nothing gets out any more, from this step on, and nobody cleans up."""
        self.client.dead = True
        if self.membership is not None:
            self.membership.killed()
        self.scope.cancel()
        trio.lowlevel.spawn_system_task(self._fall)

    async def _fall(self) -> None:
        """Take all shields away, until nothing of it runs: a process that is killed shields nothing."""
        while self._task is not None:
            break_shields(self._task, self.scope)
            await trio.lowlevel.checkpoint()

    def _observe(self, event: TreeEvent) -> None:
        self.started |= event.path == "rumi" and event.kind == "started"
        if event.path.count("/") == 1:
            if event.kind == "crashed":
                self._broken_since = min(self._broken_since, trio.current_time())
            elif event.kind == "restarted":
                self.world.waits.until(trio.current_time() + BACK_S, since=self._broken_since)
        if event.path == "rumi/poller" and event.kind == "restarted":
            self._broken_since = inf
        if event.kind == "crashed":
            self.world.counts["crashes"] += 1
            self.shaken = self.shaken or event.path in UP_TO_SENDER
            self.model_server.forgetful |= event.path == "rumi/models"
        if event.kind == "limit_reached":
            self.world.counts["restart limits"] += 1
        if event.kind == "crashed" and event.path == "rumi/journal":
            self._setting.witness.lose_sight()
            begun = self.started or self.membership is None  # a worker may find no database
            if not self.world.counts["disk"] and not self.life.dead and begun:
                self.world.complain(f"the journal crashed: {event.error!r}")
        if event.path == "rumi/sender" and event.kind == "restarted":
            self._setting.ledger.sender_lost(self.life)
            self._lines[0].sender_lost()
        if self.world.timeline is not None and (event.kind != "stopped" or event.path.count("/") < 2):
            self.world.note("tree", f"{event.path} {event.kind}", lambda: repr(event.error or ""))

    @property
    def sender(self) -> Any:
        """The sender's actor as it is now."""
        return _actor(self.telegram._sender)

    @property
    def models(self) -> Any:
        """The actor that keeps the permits, as it is now."""
        return _actor(self._permits)

    @property
    def extractor(self) -> Any:
        """The learner's actor as it is now."""
        return _actor(self.services.fact_extraction.extractor)


def _actor(ref: Any) -> Any:
    life = ref._node._life
    return life._actor if life is not None else None


async def _measured(path: Path, processes: object) -> Any:
    await trio.lowlevel.checkpoint()
    return SimpleNamespace(bytes=0, files=0, hidden=False)


def break_shields(task: trio.lowlevel.Task, outermost: trio.CancelScope) -> None:
    """Take all shields away below a task."""
    tasks = [task]
    while tasks:
        task = tasks.pop()
        status = task._cancel_status
        while status is not None and status._scope is not outermost:
            status._scope.shield = False
            status = status.parent
        for nursery in task.child_nurseries:
            tasks.extend(nursery.child_tasks)
