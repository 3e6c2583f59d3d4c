"""A small house for tests of chats: the real journal and chats, a scripted model, sandboxes in memory."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any, TypeVar

import trio

from actors import ActorCrashed, ChildSpec, Supervisor
from rumi.agent.events import TurnFinished
from rumi.app.budget_calls import BudgetCommands
from rumi.app.stop_all import Everything, Pause
from rumi.channels.channel import Channel
from rumi.chats.budgets.meter import Budgets, Ledger, Rules
from rumi.chats.context import ChatContext
from rumi.chats.events import ChatEvent
from rumi.chats.fact_extraction import add_fact_extraction
from rumi.chats.hub import Hub, HubSubscription
from rumi.chats.hub import reply_to as next_reply
from rumi.chats.inbox import Inbox, add_chats
from rumi.chats.lists.commands import ListCommands
from rumi.chats.local import LocalChat
from rumi.chats.people.chat_commands import PeopleCommands
from rumi.chats.people.people import People
from rumi.chats.publishing import PendingMessages, Publisher
from rumi.chats.services import ChatServices, ChatWorkspaces, CommandHandler, Undo
from rumi.chats.undo.snapshots import Snapshots
from rumi.chats.undo_sweep import UndoSweep
from rumi.memory.actor import Memory, asking
from rumi.memory.extractor import extract
from rumi.memory.rows import facts_of
from rumi.models.chain import Chain, ChainStep
from rumi.models.metering import Account
from rumi.models.model import Emit, Model, ModelRequest, Reply
from rumi.platform.chat_ids import BUILT_IN, task_key
from rumi.platform.config.schema import (
    AgentSection,
    ChatSection,
    LimitsSection,
    SchedulesSection,
    SessionSection,
    Settings,
    TasksSection,
)
from rumi.platform.logs.audit import AuditLog
from rumi.platform.redact import Redactor
from rumi.platform.threads import Offload
from rumi.sandbox.chat_files import ChatFiles
from rumi.sandbox.engine import Command, CommandResult, Output
from rumi.store.journal.actor import Journal
from rumi.store.journal.inbox import open_chats
from rumi.store.journal.records import Incoming, TaskRecord
from rumi.tasks.kinds import TaskKind
from rumi.tasks.schedules.clock import ScheduleClock
from rumi.tasks.schedules.proposals import ZoneProposals
from rumi.tasks.schedules.schedules import Schedules, ScheduleServices
from rumi.tasks.schedules.sources import WatchSources
from rumi.tasks.services import TaskServices, account_of
from rumi.tasks.tasks import Tasks, task_slots
from rumi.texts import Language
from tests.fakes.lines import words_of

T = TypeVar("T")


class InlineOffload:
    """Blocking work done at once, between two checkpoints: for tests under a virtual clock."""

    async def __call__(self, work: Callable[[], T]) -> T:
        await trio.lowlevel.checkpoint()
        done = work()
        await trio.lowlevel.checkpoint()
        return done


class MemorySandboxes:
    """Sandboxes that only keep account: who has one, and which commands run in it."""

    def __init__(self) -> None:
        self.live: dict[str, int] = {}
        self.running: dict[str, int] = {}
        self.made = 0
        self.stops: list[str] = []
        self.quiet_s = 0.0

    async def prepare(self, chat_id: str) -> None:
        if chat_id not in self.live:
            self.made += 1
            self.live[chat_id] = self.made

    async def run(self, chat_id: str, command: Command) -> CommandResult:
        await self.prepare(chat_id)
        self.running[chat_id] = self.running.get(chat_id, 0) + 1
        try:
            command.began(f"box-{self.live[chat_id]}")
            program, *given = words_of(command.argv)
            if program == "sleep":
                await trio.sleep(float(given[0]))
            words = " ".join(given).encode()
            return CommandResult(
                0, Output(words, b"", len(words)), Output(), 1, "exited", f"box-{self.live[chat_id]}"
            )
        finally:
            self.running[chat_id] -= 1

    async def quiet(self, chat_id: str) -> None:
        await trio.sleep(self.quiet_s)
        assert not self.running.get(chat_id)

    async def stop(self, chat_id: str) -> None:
        self.stops.append(chat_id)
        self.live.pop(chat_id, None)

    def container_id(self, chat_id: str) -> str:
        return f"box-{self.live[chat_id]}" if chat_id in self.live else ""


def limited(max_turns: int = 10, timeout_s: float = 600, **more: Any) -> AgentSection:
    """Return limits that are the same for turns from all channels, except where `more` says otherwise."""
    turns = dict.fromkeys(("max_turns", *(f"max_turns_{name}" for name in CHANNELS)), max_turns)
    times = dict.fromkeys(("turn_timeout_s", *(f"turn_timeout_s_{name}" for name in CHANNELS)), timeout_s)
    return AgentSection.model_validate({**turns, **times, **more})


def queueing(most: int) -> ChatSection:
    """Return the section of chats in which up to `most` messages wait, each as a message of its own."""
    if not most:
        return ChatSection(when_busy="reject", together_s=0.0)
    return ChatSection(when_busy="queue", max_queued=most, together_s=0.0)


CHANNELS = ("telegram", "terminal", "page")
AGENT = limited()
TASKS = TasksSection(max_turns=20, keep_days=0)

Answer = Callable[[ModelRequest, Emit], Awaitable[Reply]]


async def echo(request: ModelRequest, emit: Emit) -> Reply:
    """Answers with the last thing that the user said."""
    await trio.lowlevel.checkpoint()
    said = next(m.content for m in reversed(request.messages) if m.role == "user")
    return Reply(f"you said {said}")


@dataclass
class FunctionModel:
    """A model that is a function of the request."""

    answer: Answer
    name: str = "function"
    requests: list[ModelRequest] = field(default_factory=list)

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        self.requests.append(request)
        return await self.answer(request, emit)


@dataclass
class House:
    """A running tree of journal and chats."""

    services: ChatServices
    inbox: Inbox
    sandboxes: MemorySandboxes
    root: Supervisor
    tasks: Tasks
    everything: Everything
    schedules: Schedules

    async def facts(self, chat: str = "cli") -> list[tuple[str, str]]:
        """What is known in the chat, the oldest first."""
        context = self.services.context
        assert context.memory is not None
        known = await context.memory(facts_of(context.ids.owner_of(chat)))
        return [(fact.key, fact.value) for fact in sorted(known, key=lambda fact: fact.created)]

    def chat(self, chat: str = "cli") -> LocalChat:
        return LocalChat(chat, self.inbox, self.services.hub, self.services.journal)

    async def open_chats(self) -> tuple[str, ...]:
        """The chats with messages that lack a final reply."""
        while True:
            with suppress(ActorCrashed):
                return await self.services.journal.ask(open_chats())

    async def ask(self, text: str, chat: str = "cli") -> str:
        """Send a message and wait for its final reply."""
        with self.services.hub.listening(chat) as events:
            number = await self.inbox.accept(chat, text)
            return await reply_to(events, number)


async def reply_to(events: HubSubscription, number: int) -> str:
    """The final reply to a message, within a bound."""
    with trio.fail_after(2000):
        return (await next_reply(events, number)).text


def reasons(events: list[ChatEvent]) -> list[str]:
    return [event.what.reason for event in events if isinstance(event.what, TurnFinished)]


@asynccontextmanager
async def house(
    path: Path,
    answer: Answer | Model = echo,
    *,
    agent: AgentSection = AGENT,
    session_ttl_s: float = 3600,
    now: Callable[[], float] = time.time,
    sandboxes: MemorySandboxes | None = None,
    offload: Offload | None = None,
    model_for: Callable[[str, Language, str], Model] | None = None,
    remembers: bool = False,
    history_messages: int = 40,
    context_tokens: int = 100_000,
    max_queued: int = 0,
    chat_section: ChatSection | None = None,
    continues: int = 0,
    kinds: Mapping[str, TaskKind] | None = None,
    tasks_section: TasksSection = TASKS,
    max_open: int = 20,
    pauses: Mapping[str, Pause] | None = None,
    schedule_limits: SchedulesSection | None = None,
    whole_status: Callable[[], str] = lambda: "",
    rules: Rules | None = None,
    people: People | None = None,
    serves: Callable[[str], bool] = lambda place: True,
    sources: Callable[[MemorySandboxes, Path, Offload], WatchSources] | None = None,
    **more: Any,
) -> AsyncIterator[House]:
    """Start a house on a folder; leaving it is an orderly stop. The journal stays in the folder.

    Messages that come during a turn are refused, or wait with `max_queued`, and none are joined; with
    `chat_section` these settings hold instead.

    With `rules` its model calls are counted, and bounded by budgets; with `schedule_limits` schedules fire.

    One that `remembers` has a memory, which stays there too, and learns from its sessions. `more` is for the
    context of its chats.
    """
    (path / "logs").mkdir(exist_ok=True)
    model = FunctionModel(answer) if callable(answer) else answer
    offload = offload or InlineOffload()
    root = Supervisor("rumi", strategy="rest_for_one")
    journal = root.add(ChildSpec("journal", lambda: Journal(path / "state.db", offload, now)))
    budgets = Budgets(journal.ask, rules or Rules(), now, UTC)
    ledger = root.add(ChildSpec("budgets", lambda: Ledger(budgets)))
    if remembers:
        memory = root.add(ChildSpec("memory", lambda: Memory(path / "memory.db", offload, now)))
        more = {"memory": asking(memory), "extract": extract, "thinks": True, **more}
    everyone = people or People()
    learning = {"extract": more.pop("extract", None)}
    containers = sandboxes or MemorySandboxes()
    audit = AuditLog(path / "logs" / "audit.jsonl", max_mb=10, backup_count=5, redact=Redactor([]))
    hub, pending = Hub(), PendingMessages()

    def metered(account: Account, language: Language) -> Model:
        """Return the model, whose calls budgets bound if there are rules."""
        if rules is None:
            return model
        return Chain([ChainStep(model)], chat=account.chat, language=language, account=account, meter=budgets)

    def own(chat: str, language: Language, chosen: str) -> Model:
        return metered(Account(chat, BUILT_IN.owner_of(chat)), language)

    def speakers(message: Incoming, language: Language) -> Model:
        return metered(everyone.account(message), language)

    if people is not None:
        more = {"people": people, "sender_model": speakers, **more}

    def for_task(task: TaskRecord) -> Model:
        whose = everyone.account_of_task(task, account_of(task, settings))
        if rules is None:
            return context.model_for(task_key(task.id), task.language, task.model)
        return metered(whose, task.language)

    settings = Settings(
        agent=agent,
        limits=LimitsSection.model_validate({"continue": continues}),
        session=SessionSection(ttl_s=session_ttl_s, history_messages=history_messages),
        chat=chat_section or queueing(max_queued),
        tasks=tasks_section,
    )
    context = ChatContext(
        model_for=model_for or own,
        settings=settings,
        context_tokens=context_tokens,
        language="en",
        ids=BUILT_IN,
        now=now,
        **{"bring": Channel().bring, **more},
    )
    workspaces = ChatWorkspaces(ChatFiles(path / "workspace"), offload)
    publisher = Publisher(hub, audit, pending, now, containers.container_id)
    fact_extraction = add_fact_extraction(root, journal, context, **learning)
    task_services = TaskServices(
        journal=journal,
        sandboxes=containers,
        workspaces=workspaces,
        publisher=publisher,
        model_for=for_task,
        kinds=kinds or {},
        settings=settings,
        context_tokens=context_tokens,
        slots=task_slots(tasks_section.max_running, tasks_section.per_owner),
        max_open=max_open,
        files=path / "tasks",
        now=now,
        wake=lambda message: inbox.chats.wake(message),
        ended=lambda id: tasks.ended(id),
        stepped=lambda id, step: tasks.stepped(id, step),
        people=everyone,
        serves=serves,
    )
    tasks = Tasks(root, task_services, BUILT_IN)
    money = BudgetCommands(budgets, ledger, BUILT_IN, audit, everyone)
    schedules = Schedules(
        ScheduleServices(
            journal=journal,
            tasks=tasks,
            hub=hub,
            ids=BUILT_IN,
            wake=lambda message: inbox.chats.wake(message),
            audit=audit,
            limits=schedule_limits or SchedulesSection(),
            now=now,
            people=everyone,
            group_of=context.group_of,
            admins=lambda chat: ("tg1", "tg2"),
            sources=None if sources is None else sources(containers, path / "workspace", offload),
        )
    )
    handlers: dict[str, CommandHandler] = {"tasks": tasks, "budgets": money, "schedules": schedules}
    handlers["lists"] = ListCommands(journal.ask)
    undo = Undo(Snapshots(path), offload, tasks.stop_all)
    root.add(ChildSpec("undo", lambda: UndoSweep(journal, undo, 0.0)))
    if context.memory is not None:
        handlers["people"] = PeopleCommands(
            everyone, budgets, money.written, context.memory, context.group_of
        )
    zones = ZoneProposals(schedules, BUILT_IN, offload)

    def noticed(keys: Sequence[str]) -> None:
        budgets.drop_notices(keys)
        zones.drop_notices(keys)

    services = ChatServices(
        journal=journal,
        sandboxes=containers,
        workspaces=workspaces,
        hub=hub,
        publisher=publisher,
        pending=pending,
        context=context,
        fact_extraction=fact_extraction,
        handlers=handlers,
        running_tasks=tasks.running,
        notices=lambda chat, language: (*budgets.notices(chat, language), *zones.notices(chat, language)),
        noticed=noticed,
        propose_zone=zones.propose,
        undo=undo,
    )
    inbox = add_chats(root, services, whole_status=whole_status)
    everything = Everything(inbox, tasks, BUILT_IN, pauses or {})
    handlers["everything"] = everything
    if schedule_limits is not None:
        root.add(ChildSpec("schedules", lambda: ScheduleClock(schedules)))
    try:
        async with root.running():
            yield House(services, inbox, containers, root, tasks, everything, schedules)
    finally:
        audit.close()
