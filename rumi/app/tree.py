"""The supervision tree: the only module that creates actors and connects them.

rumi             rest_for_one: each child depends on the children above it
├── journal      state.db
├── budgets      stores the usage of model calls
├── memory       facts about users
├── skills       the skills of this installation
├── fetcher      the only access to the web
├── models       permits for model calls, shared between chats
├── registry     names of containers that may exist
├── sandboxes    keyed: one child per chat
├── mcp          keyed: one child per MCP server        (only if servers are configured)
├── plugin-NAME  a plugin's actors, isolated from the rest  (only if it has any)
├── sender       sends replies                      (a channel)
├── extractor    extracts facts from sessions that have ended
├── task_recovery  continues the tasks of earlier processes
├── tasks        keyed: one child per task
├── undo         cleans up files left by undone turns
├── recovery     starts chats with open messages
├── chats        keyed: one child per chat
├── schedules    fires reminders and schedules
├── poller       receives messages                  (a channel)
├── triggers     events of other programs           (only if triggers are configured)
├── control      the control socket
├── page         serves the web page                (a channel)
└── listener     webhooks, health and metrics       (a channel)
"""

import logging
import time
from collections.abc import Sequence
from contextlib import suppress

from actors import Supervisor, TreeEvent
from rumi.app.disk_check import free_space_advice
from rumi.app.engine import sandbox_limits
from rumi.app.parts.agent import add_agent
from rumi.app.parts.chats import add_all_chats
from rumi.app.parts.edges import add_edges
from rumi.app.parts.inputs import TreeInputs
from rumi.app.parts.models import add_models
from rumi.app.parts.sandbox import add_sandbox
from rumi.app.parts.store import add_store
from rumi.app.parts.tasks import add_tasks
from rumi.app.status import outline
from rumi.app.worker import ClusterWorker, SingleProcess
from rumi.channels.channel import Channel
from rumi.channels.control.event_stream import EventStream, tree_item
from rumi.channels.counters import Counts
from rumi.channels.uploads import LocalUploads
from rumi.chats.hub import Hub
from rumi.errors import RumiError
from rumi.models.build import ModelSet
from rumi.models.media import Media
from rumi.models.model import Waiting
from rumi.platform.chat_ids import ChatIds
from rumi.platform.config.cascade import Loaded
from rumi.platform.home import Home
from rumi.platform.logs.audit import AuditLog
from rumi.platform.redact import Redactor
from rumi.platform.texts import storage as storage_texts
from rumi.sandbox.chat_files import ChatFiles
from rumi.sandbox.engine import Engine
from rumi.store.cluster.building import Cluster
from rumi.store.protocol import Trouble
from rumi.texts import Language

logger = logging.getLogger(__name__)


class ActorTree:
    """The actors and their connections, built part by part from the top down.

    `ids` are the chat ids of all channels, also of channels that do not run; `notes` are sentences for users.
    """

    def __init__(
        self,
        home: Home,
        loaded: Loaded,
        models: ModelSet,
        media: Media,
        engine: Engine,
        language: Language,
        files: ChatFiles,
        redactor: Redactor,
        channels: Sequence[Channel],
        ids: ChatIds,
        notes: Sequence[str] = (),
        *,
        full: bool = False,
        service: bool = False,
        cluster: Cluster | None = None,
    ) -> None:
        self._workers = SingleProcess() if cluster is None else ClusterWorker(cluster)
        self._channels = tuple(channels)
        self.root = Supervisor("rumi", strategy="rest_for_one", observe=self._happened)
        log, limits = loaded.settings.log, sandbox_limits(loaded)
        self.audit = AuditLog(
            home.logs / "audit.jsonl", max_mb=log.max_mb, backup_count=log.keep, redact=redactor
        )
        self._hub, self._counts = Hub(), Counts()
        self._events = EventStream(self._hub)
        inputs = TreeInputs(
            self.root,
            home,
            loaded,
            models,
            media,
            engine,
            language,
            redactor,
            self._channels,
            ids,
            self._workers,
            limits,
            LocalUploads(home, files, engine.user, limits, loaded.settings.session.file_mb),
            files,
            notes,
            full,
            service,
        )
        self._language = language

        self._store = store = add_store(inputs, self._disk_changed, self._worker_status)
        of_models = add_models(inputs, store)
        sandbox = add_sandbox(inputs, store)
        for channel in channels:
            channel.add_sender(self.root, store.journal, self._hub, self._chat_lost)
        agent = add_agent(
            inputs, store, of_models, sandbox, audit=self.audit, hub=self._hub, counts=self._counts
        )
        self._plugins = agent.plugins
        tasks = add_tasks(inputs, store, of_models, sandbox, agent, audit=self.audit)
        chats = add_all_chats(
            inputs,
            store,
            of_models,
            sandbox,
            agent,
            tasks,
            audit=self.audit,
            free_space_advice=self._free_space_advice,
            whole_status=self._whole_status,
        )
        edges = add_edges(
            inputs,
            store,
            of_models,
            agent,
            tasks,
            chats,
            audit=self.audit,
            counts=self._counts,
            events=self._events,
        )

        self.inbox, self.services = chats.inbox, chats.services
        self.tasks, self.schedules = tasks.tasks, tasks.schedules
        self.attach_server, self.status = edges.attach_server, edges.status

    async def _chat_lost(self, chat: str) -> None:
        """Stop the work for a chat that nobody can read any more. Its schedules are paused already."""
        self.schedules.changed()
        for id in self.tasks.running(chat):
            with suppress(RumiError):
                await self.tasks.stop(id, None)
        await self.inbox.chats.end(chat)

    async def drain(self) -> None:
        """Hand over all chats to other workers, if any run. Running turns may continue for a bounded time."""
        await self._workers.drain()

    def _happened(self, event: TreeEvent) -> None:
        """Publish an event of the supervision tree to subscribers, and log errors."""
        _log(event)
        if (row := tree_item(event)) is not None:
            name, chat, more = row
            self.audit.write(name, chat_id=chat, **more)
        self._events.tree_happened(event)
        self._counts.tree_happened(event)
        self._plugins.tree_happened(event)
        for channel in self._channels:
            channel.tree_happened(event)

    def _disk_changed(self, trouble: Trouble | None) -> None:
        """Report whether the databases can be written. While they cannot be written, running turns wait."""
        self.audit.write("storage", chat_id="", trouble=trouble)
        self._events.storage_changed(trouble)
        if trouble is not None:
            self._hub.publish_to_running(
                lambda language: Waiting(0.0, storage_texts.waits_for_the_disk(language, trouble)),
                time.time(),
            )

    def _worker_status(self) -> dict[str, object]:
        """Return statistics of this worker, which other workers display."""
        turns = sum(state.started is not None for state in self._hub.turns.values())
        return {
            "turns": turns,
            "tasks": len(self.tasks.open_tasks()),
            "trouble": self._store.journal_state.trouble,
            "waiting": max(0, len(self.inbox.chats.unanswered()) - turns),
            "limited": {channel.account: channel.limited for channel in self._channels if channel.account},
        }

    def _whole_status(self) -> str:
        """Return the text of an admin's `/status`: storage problems, then the workers, then the tree."""
        language, trouble, shown = self._language, self._store.journal_state.trouble, self._workers.shown
        workers = () if shown is None else shown()
        lines = [
            *([storage_texts.log_storage(language, trouble)] if trouble is not None else ()),
            *(storage_texts.worker_line(language, worker) for worker in workers),
        ]
        return "\n".join([*lines, f"```\n{outline(self.root.status())}\n```"])

    def _free_space_advice(self, trouble: str, language: Language) -> str:
        if trouble != "full":
            return ""
        return free_space_advice(language, self._store.reserve, self._store.journal_state.large)


def _log(event: TreeEvent) -> None:
    """Log an event of the tree. Ordinary starts and stops are not logged."""
    if event.error is not None:
        logger.warning(
            "%s %s (incarnation %d)", event.path, event.kind, event.incarnation, exc_info=event.error
        )
