"""The supervision tree: the one place that makes actors and connects them.

rumi             rest_for_one: each child depends on the children above it
├── journal      state.db
├── budgets      writes what model calls have used
├── memory       facts about users
├── skills       the skills of this installation
├── fetcher      the only access to the web
├── models       permits for model calls, shared between chats
├── registry     names of containers that may exist
├── sandboxes    keyed: one child per chat
├── mcp          keyed: one child per server of tools   (only if servers are configured)
├── sender       sends replies                      (a channel)
├── extractor    extracts facts from sessions that have ended
├── task_recovery  goes on with the tasks of earlier processes
├── tasks        keyed: one child per task
├── undo         cleans up what taking turns back has left
├── recovery     starts chats with open messages
├── chats        keyed: one child per chat
├── schedules    fires reminders and schedules
├── poller       receives messages                  (a channel)
├── control      the control socket
├── page         shows all of it                    (a channel)
└── listener     webhook, health and metrics        (a channel)
"""

import logging
import os
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from actors import ActorRef, ChildSpec, Supervisor, TreeEvent, pending_asks
from rumi.agent.mcp.servers import ForChat, McpServers
from rumi.agent.skills.actor import Skills
from rumi.agent.skills.catalogue import Catalogue, sources
from rumi.agent.skills.disabled import DisabledSkills
from rumi.agent.skills.messages import SkillsMessage
from rumi.agent.skills.mounting import Mounts
from rumi.agent.skills.running import CodeRunner
from rumi.agent.skills.trust import TrustedSkills
from rumi.agent.tool import Tool
from rumi.agent.tools.recall import facts_for
from rumi.app.bound_models import BoundModels
from rumi.app.budget_calls import BudgetCommands, usage_call
from rumi.app.control_calls import ControlCalls
from rumi.app.disk_check import free_space_advice
from rumi.app.engine import sandbox_limits, selection_of
from rumi.app.forget_all import Forgetting, schedules_of, tasks_of
from rumi.app.recall_calls import RecallCommands, recall_call
from rumi.app.settings import (
    DAY_S,
    bot_limits_of,
    budget_rules_of,
    chat_limits_of,
    mcp_settings_of,
    people_of,
    prompts_of,
    schedule_limits_of,
    task_limits_of,
    undo_limits_of,
    web_settings_of,
)
from rumi.app.status import StatusSource, outline
from rumi.app.stop_all import Everything
from rumi.app.toolbox import Toolbox
from rumi.app.worker import ClusterWorker, SingleProcess
from rumi.channels.attach.one_call import socket_path
from rumi.channels.attach.reconnecting import RoutedChat
from rumi.channels.channel import Channel
from rumi.channels.control.attach_server import About, AttachServer
from rumi.channels.control.event_stream import EventStream, tree_item
from rumi.channels.control.file_stream import UploadStream
from rumi.channels.control.server import ControlServer, ControlStream
from rumi.channels.control.stacks import dump_on_signal
from rumi.channels.control.task_stream import TaskStream
from rumi.channels.http.counters import Counts
from rumi.channels.uploads import LocalUploads
from rumi.chats.budgets.meter import Budgets, Ledger, SharedLedger, WriteNow
from rumi.chats.chat_calls import chat_call
from rumi.chats.context import ChatContext, ChatView
from rumi.chats.fact_extraction import FactExtraction, add_fact_extraction
from rumi.chats.hub import Hub
from rumi.chats.inbox import Inbox, add_chats
from rumi.chats.people.chat_commands import PeopleCommands
from rumi.chats.publishing import PendingMessages, Publisher
from rumi.chats.recorder.recorder import Recorder
from rumi.chats.services import ChatServices, ChatWorkspaces, CommandHandler, Undo
from rumi.chats.undo.snapshots import Snapshots
from rumi.chats.undo_sweep import UndoSweep
from rumi.memory.actor import Memory, asking
from rumi.memory.extractor import extract
from rumi.memory.memory_calls import memory_call
from rumi.memory.messages import ForgetOwner, MemoryMessage
from rumi.memory.recall.actor import Recall
from rumi.memory.recall.actor import asking as asking_recall
from rumi.memory.recall.messages import RecallMessage, Unindex
from rumi.models.build import ModelSet
from rumi.models.model import Waiting
from rumi.models.settings import model_settings_of, models_with_pictures
from rumi.platform.caller import Caller
from rumi.platform.chat_ids import ChatIds
from rumi.platform.config.cascade import Loaded
from rumi.platform.config.providers import OFFLINE
from rumi.platform.disk_reserve import Reserve
from rumi.platform.home import Home
from rumi.platform.logs.audit import AuditLog
from rumi.platform.redact import Redactor
from rumi.platform.texts import storage as storage_texts
from rumi.platform.texts.language import Language
from rumi.platform.threads import Threads
from rumi.sandbox.carrying import WorkspaceCarrier
from rumi.sandbox.engine import Engine, skills_folder
from rumi.sandbox.packing import PackLimits
from rumi.sandbox.policy import CommandPolicy
from rumi.sandbox.sandboxes import add_sandboxes
from rumi.store.cluster.building import Cluster
from rumi.store.cluster.files import CarriedFiles
from rumi.store.cluster.partitions import Dependents, Partitioned
from rumi.store.journal.actor import AskJournal, Journal, JournalState
from rumi.store.journal.piece_store import JournalPieces
from rumi.store.journal.transaction import JournalMessage
from rumi.store.ownership import partition_of
from rumi.store.protocol import Trouble
from rumi.tasks.bots.bot_calls import bot_call
from rumi.tasks.bots.bots import Bots
from rumi.tasks.bots.fetching import FetchedSkills
from rumi.tasks.bots.files import BotFiles
from rumi.tasks.bots.kind import BotKind
from rumi.tasks.bots.project.tree import ProjectLimits
from rumi.tasks.research.kinds import RepositoryKind, WebKind
from rumi.tasks.research.repository.cache import RepositoryCache
from rumi.tasks.schedules.clock import ScheduleClock
from rumi.tasks.schedules.schedule_calls import schedule_call
from rumi.tasks.schedules.schedules import Schedules, ScheduleServices
from rumi.tasks.services import TaskServices
from rumi.tasks.task_calls import task_call
from rumi.tasks.tasks import Tasks, task_slots
from rumi.web.readers.files.reading import ViewLimits
from rumi.web.readers.files.viewer import Seen, Viewer
from rumi.web.tree import add_fetcher, guarded_streams

logger = logging.getLogger(__name__)

JOURNAL_SHUTDOWN_S = 10.0

CARRIED_AT_ONCE = 4
"""Chats whose files are packed or made at the same time."""


class ActorTree:
    """The actors and their connections. `ids` are the chat ids of all channels, also of channels that do not
    run; `notes` are sentences for users.
    """

    inbox: Inbox

    def __init__(
        self,
        home: Home,
        loaded: Loaded,
        models: ModelSet,
        engine: Engine,
        language: Language,
        redactor: Redactor,
        channels: Sequence[Channel],
        ids: ChatIds,
        notes: Sequence[str] = (),
        *,
        full: bool = False,
        service: bool = False,
        cluster: Cluster | None = None,
    ) -> None:
        settings = loaded.settings
        self._workers = workers = SingleProcess() if cluster is None else ClusterWorker(cluster)
        self.root = Supervisor("rumi", strategy="rest_for_one", observe=self._happened)
        self._channels = tuple(channels)
        self._uploads = LocalUploads(home, engine.user, sandbox_limits(loaded), settings.session.file_mb)
        self._reserve = Reserve(home.reserve)
        self._counts = Counts()
        self._journal_state = JournalState(self._reserve, self._disk_changed, "full" if full else None)
        journal = self._add_journal(home, settings.session.keep_days * DAY_S)
        workers.add_lease(self.root, self._as_worker)
        self.budgets = Budgets(journal.ask, budget_rules_of(loaded), time.time)
        ledger = self.root.add(
            ChildSpec("budgets", lambda: Ledger(self.budgets), shutdown=JOURNAL_SHUTDOWN_S)
        )
        memory = self._add_memory(home)
        recall = asking_recall(self._add_recall(home, ids))
        trusted = TrustedSkills(home.root / "skills-trusted.json")
        skills = self._add_skills(home, loaded, trusted)
        web = add_fetcher(self.root, web_settings_of(loaded))
        permits = self.root.add(models.spec(workers.part))
        sandboxes = add_sandboxes(
            self.root, engine, sandbox_limits(loaded), home.root, folder=home.workspaces
        )
        hub = Hub()
        people = people_of(loaded, ids)
        for channel in channels:
            channel.add_sender(self.root, journal, hub, lambda chat: self.inbox.end(chat))

        task_limits = task_limits_of(loaded, models.context_tokens)
        research = settings.research.model or ""
        bound = BoundModels(models, permits, self.budgets, ids, people, task_limits, research)
        self.mcp = McpServers(
            self.root,
            home.root,
            mcp_settings_of(loaded),
            lambda **more: self.audit.write("mcp_server", chat_id="", **more),
        )
        section = settings.session
        limits = ViewLimits(section.picture_px, section.picture_kb * 1000, section.pictures)
        viewer = Viewer(home.workspaces, engine.user, sandbox_limits(loaded), limits, Threads())

        def mcp_tools(view: ChatView) -> tuple[Tool, ...]:
            async def look(picture: bytes) -> Seen:
                await view.touch_files()
                await view.mark_files_tainted()
                return await viewer.picture(view.chat, picture)

            async def save_file(body: bytes, name: str) -> str:
                await view.touch_files()
                await view.mark_files_tainted()
                return await viewer.save_file(view.chat, body, name)

            chat = ForChat(view.messages, look, save_file, view.tainted)
            return self.mcp.tools_for(chat, models.context_tokens)

        toolbox = Toolbox(
            web=web,
            ids=ids,
            memory=asking(memory),
            recall=recall,
            skills=skills.ask,
            runner=CodeRunner(trusted, Threads()),
            workspaces=home.workspaces,
            model_for=bound.of_chat,
            tasks=lambda: self.tasks,
            schedules=lambda: self.schedules,
            bots=lambda: self.bots,
            mcp=mcp_tools,
            of_channel=lambda chat: self._channel_of(chat).tools_for(chat),
        )
        self.audit = AuditLog(
            home.logs / "audit.jsonl",
            max_mb=settings.log.max_mb,
            backup_count=settings.log.keep,
            redact=redactor,
        )
        strict = CommandPolicy(selection_of(loaded).allowed, engine.missing_programs)
        chosen = replace(strict, open=settings.sandbox.policy == "open")

        def policy_of(chat: str) -> CommandPolicy:
            return strict if ids.may_be_group(chat) else chosen

        prompts = prompts_of(home)
        # Both policies have the same programs, so the prompts of all chats begin alike.
        instructions = prompts.instructions(strict.there, settings.sandbox.timeout_s)

        context = ChatContext(
            model_for=bound.of_chat,
            limits=chat_limits_of(loaded, models.context_tokens),
            language=language,
            ids=ids,
            now=time.time,
            bring=lambda chat, attachment: self._channel_of(chat).bring(chat, attachment),
            seen_of=viewer.sent,
            view=viewer.file,
            load=viewer.load,
            show=lambda chat, paths: self._channel_of(chat).show(chat, paths),
            sighted=models_with_pictures(model_settings_of(loaded, language)),
            instructions=instructions,
            prompts=prompts,
            tools_for=toolbox.tools_for,
            tools_ready=self.mcp.ready,
            memory=asking(memory),
            choose=facts_for,
            skills=skills.ask,
            channel_of=lambda chat: self._channel_of(chat).name,
            thinks=models.name != OFFLINE,
            own_model=models.name,
            people=people,
            sender_model=bound.of_sender,
            aliases=settings.model.aliases,
        )
        pending = PendingMessages()
        fact_extraction = add_fact_extraction(
            self.root, journal, context, extract if settings.memory.extract else None
        )
        publisher = Publisher(
            hub, self.audit, pending, time.time, sandboxes.container_id, self._counts.chat_happened
        )
        workspaces = self._workspaces(home, loaded, engine, journal.ask)
        bot_files, threads = BotFiles(home.root, home.files), Threads()
        network = partial(guarded_streams, web_settings_of(loaded))
        cache = RepositoryCache(home.root / "cache" / "repositories")
        fetched = FetchedSkills(sandboxes, workspaces, network, cache, sandbox_limits(loaded))
        task_services = TaskServices(
            journal=journal,
            sandboxes=sandboxes,
            workspaces=workspaces,
            publisher=publisher,
            model_for=bound.of_task,
            kinds={
                "web": WebKind(
                    web,
                    prompts.words["research-web"],
                    time.time,
                    lambda task, report: self.tasks.run(task, report),
                ),
                "repo": RepositoryKind(
                    prompts.words["research-repo"],
                    network,
                    cache,
                    sandbox_limits(loaded),
                ),
                "bot": BotKind(
                    bot_files,
                    prompts,
                    prompts.sandbox(strict.there, settings.sandbox.timeout_s),
                    journal.ask,
                    asking(memory),
                    web,
                    chosen,
                    threads,
                    time.time,
                    bot_limits_of(loaded),
                    sandbox_limits(loaded),
                ),
            },
            limits=task_limits,
            slots=task_slots(task_limits.max_running, task_limits.per_owner),
            files=home.tasks,
            now=time.time,
            wake=lambda message: self.inbox.wake(message),
            ended=lambda id: self.tasks.ended(id),
            stepped=lambda id, step: self.tasks.stepped(id, step),
            people=people,
            serves=workers.serves,
        )
        self.tasks = Tasks(self.root, task_services, ids)
        file_limits = sandbox_limits(loaded)
        bounds = ProjectLimits(file_limits.workspace_bytes, file_limits.workspace_files)
        self.bots = Bots(bot_files, lambda: self.tasks, ids, threads, bounds, settings.bots.allowed, people)
        money = BudgetCommands(self.budgets, ledger, ids, self.audit)
        self.schedules = Schedules(
            ScheduleServices(
                journal=journal,
                tasks=self.tasks,
                hub=hub,
                ids=ids,
                wake=lambda message: self.inbox.wake(message),
                audit=self.audit,
                limits=schedule_limits_of(loaded),
                bot=self.bots.of_schedule,
                has_bot=bot_files.has,
                stays=service or bool(channels),
                people=people,
            )
        )
        handlers: dict[str, CommandHandler] = {
            "tasks": self.tasks,
            "budgets": money,
            "schedules": self.schedules,
            "bots": self.bots,
            "recall": RecallCommands(recall, ids, time.time),
            "people": PeopleCommands(people, self.budgets, money.written, asking(memory)),
        }
        undo = Undo(Snapshots(home, undo_limits_of(loaded)), Threads(2), lambda ids: self.tasks.stop_all(ids))
        recorder = Recorder(
            home.root,
            redactor,
            settings.record.turns,
            settings.record.max_mb * 1024 * 1024,
            instructions,
            tuple(strict.there),
            settings.sandbox.timeout_s,
        )
        retention_s = settings.session.keep_days * DAY_S
        self.root.add(
            ChildSpec(
                "undo",
                lambda: UndoSweep(journal, undo, retention_s, recorder, alone=workers.ownership is None),
            )
        )
        self.services = ChatServices(
            journal=journal,
            sandboxes=sandboxes,
            workspaces=workspaces,
            hub=hub,
            publisher=publisher,
            pending=pending,
            context=context,
            fact_extraction=fact_extraction,
            policy_of=policy_of,
            handlers=handlers,
            running_tasks=self.tasks.running,
            notices=self.budgets.notices,
            noticed=self.budgets.drop_notices,
            undo=undo,
            recorder=recorder,
        )
        self.inbox = add_chats(
            self.root,
            self.services,
            free_space_advice=self._free_space_advice,
            whole_status=partial(self._whole_status, language),
            worker=lambda: workers.name,
        )
        workers.start_forwarding(journal.ask, self.inbox.takes)
        everything = Everything(
            self.inbox,
            self.tasks,
            ids,
            {"schedules": self.schedules.pause_all},
            workers.stop_others,
        )
        handlers["everything"] = everything
        self.forgetting = Forgetting(
            journal,
            self.inbox,
            ids,
            self.audit,
            {"schedules": schedules_of(self.schedules), "tasks": tasks_of(journal, self.tasks)},
            {
                "facts": lambda owner: asking(memory)(ForgetOwner(owner)),
                "passages": lambda owner: recall(Unindex(owner)),
            },
        )
        handlers["forgetting"] = self.forgetting
        # Below the chats, which have noted by then what earlier processes left.
        self.root.add(ChildSpec("schedules", lambda: ScheduleClock(self.schedules)))
        about = About(
            engine.kind,
            service or bool(channels),
            loaded.marks(),
            tuple(notes),
        )
        self.attach_server = AttachServer(
            self.inbox,
            self.tasks,
            self.schedules,
            fact_extraction,
            journal,
            hub,
            pending,
            ids,
            about,
            workers.until_other,
        )
        self._add_partitions(journal.ask, fact_extraction, ledger)
        for channel in channels:
            channel.add_receiver(self.root, self.inbox, journal, hub)
        self.status = StatusSource(
            self.root.status,
            {
                "home": str(home.root),
                "model": models.name,
                "sandbox": {"engine": engine.kind, "degraded": list(engine.degraded), "files": "watched"},
            },
            files=(home.state_db, home.memory_db, home.recall_db),
            failed=lambda: {
                chat: (failure.time, redactor.text(failure.error))
                for chat, failure in self.inbox.failed.items()
            },
            counts=self._counts.dump,
            pending=lambda: sum(map(len, pending.unreplied.values())),
            workers=workers.shown,
        )
        path = socket_path(home.run, home.installation())
        dumps = partial(dump_on_signal, self.status.dump, partial(pending_asks, self.root))
        more = {
            "recall": recall_call(recall, ids, time.time),
            "memory": memory_call(
                asking(memory), fact_extraction.extract_for_owner, ids, self.forgetting.forget
            ),
            "chats": chat_call(journal.ask, self.inbox.delete, ids),
            "tasks": task_call(self.tasks, ids),
            "usage": usage_call(self.budgets, ids, money.written),
            "schedules": schedule_call(self.schedules, ids),
            "mcp": self.mcp.answer,
            "bots": bot_call(bot_files, self.tasks, asking(memory), threads, self.bots, fetched),
        }
        answers = ControlCalls(self.status, self.inbox, ids, language, everything, more).calls()
        calls = {
            name: self.attach_server.keeping_alive(call)
            for name, call in workers.forwarded_calls(answers).items()
        }
        calls["make_way"] = self.attach_server.yield_home
        self._event_stream = EventStream(hub)
        streams: dict[str, ControlStream] = {
            "window": self.attach_server.serve,
            "events": self._event_stream.serve,
            "task": TaskStream(self.tasks, hub, self.bots.asked).serve,
            "file": UploadStream(self._uploads, self.inbox, ids).serve,
        }
        streams = dict(workers.forwarded_streams(streams))
        for name in ("task", "file"):
            streams[name] = self.attach_server.keeping_alive_stream(streams[name])
        self.root.add(
            ChildSpec(
                "control",
                lambda: ControlServer(
                    path, calls, streams, beside=dumps, peer=workers.peer, own=("make_way",)
                ),
            )
        )
        for channel in channels:
            if workers.ownership is not None:
                channel.among_workers(partial(_routed_chat, path, channel.name, ids))
            channel.add_view(self.root, self.inbox, journal, hub, self.status.dump)

    def _channel_of(self, chat: str) -> Channel:
        """Return the channel that the chat belongs to; the files of clients for the chats of no channel."""
        return next((channel for channel in self._channels if channel.owns(chat)), self._uploads)

    def _happened(self, event: TreeEvent) -> None:
        """Publish an event of the tree to subscribers, and log errors."""
        _log(event)
        if (row := tree_item(event)) is not None:
            name, chat, more = row
            self.audit.write(name, chat_id=chat, **more)
        self._event_stream.tree_happened(event)
        self._counts.tree_happened(event)
        for channel in self._channels:
            channel.tree_happened(event)

    def _disk_changed(self, trouble: Trouble | None) -> None:
        """Report that nothing can be written, or that writing works again: running turns wait for it."""
        self.audit.write("storage", chat_id="", trouble=trouble)
        self._event_stream.storage_changed(trouble)
        if trouble is not None:
            self.services.hub.publish_to_running(
                lambda language: Waiting(0.0, storage_texts.waits_for_the_disk(language, trouble)),
                time.time(),
            )

    def _whole_status(self, language: Language) -> str:
        """Return how the process is, for an admin's `/status`: trouble, then the workers, then the tree."""
        trouble, shown = self._journal_state.trouble, self._workers.shown
        workers = () if shown is None else shown()
        lines = [
            *([storage_texts.log_storage(language, trouble)] if trouble is not None else ()),
            *(storage_texts.worker_line(language, worker) for worker in workers),
        ]
        return "\n".join([*lines, f"```\n{outline(self.root.status())}\n```"])

    def _free_space_advice(self, trouble: str, language: Language) -> str:
        if trouble != "full":
            return ""
        return free_space_advice(language, self._reserve, self._journal_state.large)

    def _add_journal(self, home: Home, retention_s: float) -> ActorRef[JournalMessage]:
        database, ownership, offload = (
            self._workers.database_of(home.state_db),
            self._workers.ownership,
            Threads(),
        )
        return self.root.add(
            ChildSpec(
                "journal",
                lambda: Journal(database, offload, time.time, self._journal_state, retention_s, ownership),
                capacity=1024,
                shutdown=JOURNAL_SHUTDOWN_S,
            )
        )

    def _workspaces(self, home: Home, loaded: Loaded, engine: Engine, ask: AskJournal) -> ChatWorkspaces:
        """Return the chats' files. Workers carry them through the database, unless they share a folder."""
        ownership = self._workers.ownership
        if ownership is None or loaded.settings.store.workspaces is not None:
            return ChatWorkspaces(home.workspaces, Threads())
        file_limits, threads = sandbox_limits(loaded), Threads(CARRIED_AT_ONCE)
        limits = PackLimits(file_limits.workspace_bytes, file_limits.workspace_files)
        carrier = WorkspaceCarrier(home.workspaces, engine.user, JournalPieces(ask), threads, limits)
        return ChatWorkspaces(home.workspaces, Threads(), CarriedFiles(carrier, ownership))

    def _as_worker(self) -> dict[str, object]:
        """Return what other workers show of this one."""
        turns = sum(state.started is not None for state in self.services.hub.turns.values())
        return {
            "turns": turns,
            "tasks": len(self.tasks.open_tasks()),
            "trouble": self._journal_state.trouble,
            "waiting": max(0, len(self.inbox.unanswered()) - turns),
            "limited": {channel.account: channel.limited for channel in self._channels if channel.account},
        }

    def _add_partitions(
        self, ask: AskJournal, fact_extraction: FactExtraction, ledger: ActorRef[WriteNow]
    ) -> None:
        """Below everything that serves chats: it ends first."""
        channels = self._channels
        above: tuple[Partitioned, ...] = (SharedLedger(ledger), *channels, fact_extraction)
        parts: tuple[Partitioned, ...] = (*above, self.tasks, self.attach_server, self.inbox, self.schedules)

        async def look(chats: Collection[str] | None) -> None:
            for channel in channels if chats else ():
                channel.look(tuple(chats or ()))
            await self.inbox.look(chats)
            await self.tasks.look()

        def slow_down(account: str) -> None:
            for channel in channels:
                if channel.account == account:
                    channel.slow_down()

        def busy() -> frozenset[int]:
            working = (task.partition_key for task in self.tasks.open_tasks().values())
            return self.inbox.busy() | {partition_of(place) for place in working}

        self._workers.add_partitions(self.root, ask, Dependents(parts, look, busy, slow_down))

    async def drain(self) -> None:
        """Hand over all chats to other workers, if there are any. Turns go on for a bounded time."""
        await self._workers.drain()

    def _add_memory(self, home: Home) -> ActorRef[MemoryMessage]:
        database, offload = self._workers.database_of(home.memory_db), Threads()
        return self.root.add(ChildSpec("memory", lambda: Memory(database, offload, time.time)))

    def _add_recall(self, home: Home, ids: ChatIds) -> ActorRef[RecallMessage]:
        database, offload = self._workers.database_of(home.state_db), Threads()
        return self.root.add(
            ChildSpec("recall", lambda: Recall(home.recall_db, database, ids, offload, time.time))
        )

    def _add_skills(self, home: Home, loaded: Loaded, trusted: TrustedSkills) -> ActorRef[SkillsMessage]:
        disabled = DisabledSkills(home.root / "config.toml", os.environ)

        def catalogue(project: Path | None = None) -> Catalogue:
            return Catalogue(sources(home.root, loaded.settings.skills.dirs, project), disabled, trusted)

        offload = Threads()
        mounts = Mounts(skills_folder(home.root), trusted)
        whole = catalogue()
        return self.root.add(
            ChildSpec("skills", lambda: Skills(whole, offload, mounts=mounts, of_project=catalogue))
        )


def _routed_chat(path: Path, channel: str, ids: ChatIds, chat: str) -> RoutedChat:
    """Return a chat as a channel of this process reaches it: with the rights of the chat's owner."""
    return RoutedChat(path, Caller(channel, ids.owner_of(chat), "own"), chat)


def _log(event: TreeEvent) -> None:
    """Log an event of the tree. Ordinary starts and stops are not logged."""
    if event.error is not None:
        logger.warning(
            "%s %s (incarnation %d)", event.path, event.kind, event.incarnation, exc_info=event.error
        )
