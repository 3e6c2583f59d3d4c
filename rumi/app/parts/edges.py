"""The edges part: channels, attached clients, calls forwarded between workers, and the status dump."""

import logging
import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from actors import ChildSpec, pending_asks
from rumi.app.budget_calls import UsageCalls
from rumi.app.control_calls import DECLARED, ProcessCalls
from rumi.app.model_calls import ModelCalls
from rumi.app.parts.agent import AgentPart
from rumi.app.parts.chats import ChatsPart
from rumi.app.parts.inputs import TreeInputs
from rumi.app.parts.models import ModelsPart
from rumi.app.parts.store import StorePart
from rumi.app.parts.tasks import TasksPart
from rumi.app.people_calls import PeopleCalls
from rumi.app.recall_calls import RecallCommands
from rumi.app.status import StatusSource
from rumi.channels.attach.reconnecting import RoutedChat
from rumi.channels.control.attach_server import About, AttachServer
from rumi.channels.control.event_stream import EventStream
from rumi.channels.control.file_stream import UploadStream
from rumi.channels.control.server import ControlServer, ControlStream
from rumi.channels.control.stacks import dump_on_signal
from rumi.channels.control.task_stream import TaskStream
from rumi.channels.counters import Counts
from rumi.channels.page_calls import PageCalls
from rumi.channels.triggers.trigger_calls import TriggerCalls, TriggerFigures
from rumi.channels.triggers.triggers import Triggers, triggers_of
from rumi.chats.budgets.meter import SharedLedger
from rumi.chats.chat_calls import ChatCalls
from rumi.errors import RumiError
from rumi.memory.memory_calls import MemoryCalls
from rumi.platform.caller import Caller, ControlCall
from rumi.platform.calls import served
from rumi.platform.chat_ids import ChatIds
from rumi.platform.config.setting_calls import SettingCalls
from rumi.platform.home import socket_path
from rumi.platform.logs.audit import AuditLog
from rumi.sandbox.project.tree import ProjectLimits
from rumi.store.cluster.partitions import Dependents, Partitioned
from rumi.store.ownership import partition_of
from rumi.tasks.approval_calls import ApprovalCalls
from rumi.tasks.bots.bot_calls import BotCalls
from rumi.tasks.schedules.schedule_calls import ScheduleCalls
from rumi.tasks.task_calls import TaskCalls

if TYPE_CHECKING:
    from rumi.channels.mail.watcher import WatchedMailbox

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EdgesPart:
    """What clients and operators use to reach the process."""

    attach_server: AttachServer
    status: StatusSource


def add_edges(
    inputs: TreeInputs,
    store: StorePart,
    models: ModelsPart,
    agent: AgentPart,
    tasks: TasksPart,
    chats: ChatsPart,
    *,
    audit: AuditLog,
    counts: Counts,
    events: EventStream,
) -> EdgesPart:
    """Add the partitions, the receivers of channels, the triggers, the control socket, and the views."""
    about = About(inputs.engine.kind, inputs.stays, inputs.loaded.marks(), tuple(inputs.notes))
    attach_server = AttachServer(
        chats.inbox,
        tasks.tasks,
        tasks.schedules,
        agent.fact_extraction,
        store.journal,
        agent.hub,
        agent.pending,
        inputs.ids,
        about,
        inputs.workers.until_other,
    )
    _add_partitions(inputs, store, agent, tasks, chats, attach_server)
    for channel in inputs.channels:
        channel.add_receiver(inputs.root, chats.inbox, store.journal, agent.hub)
    triggers = _add_triggers(inputs, store, agent, chats, audit)
    status = _status(inputs, agent, chats, counts)
    path = socket_path(inputs.home.run, inputs.home.installation())
    calls = _calls(inputs, store, models, agent, tasks, chats, attach_server, status, triggers, audit)
    streams = _streams(inputs, agent, tasks, chats, attach_server, events)
    dumps = partial(dump_on_signal, status.dump, partial(pending_asks, inputs.root))
    peer = inputs.workers.peer
    inputs.root.add(
        ChildSpec(
            "control",
            lambda: ControlServer(path, calls, streams, beside=dumps, peer=peer, own=("make_way",)),
        )
    )
    for channel in inputs.channels:
        if inputs.workers.ownership is not None:
            channel.among_workers(partial(_routed_chat, path, channel.name, inputs.ids))
        channel.add_calls(calls, DECLARED)
        channel.add_view(inputs.root, chats.inbox, store.journal, agent.hub, status.dump, counts)
    return EdgesPart(attach_server, status)


def _add_triggers(
    inputs: TreeInputs, store: StorePart, agent: AgentPart, chats: ChatsPart, audit: AuditLog
) -> TriggerCalls:
    """Add the triggers, if any are configured: the listener takes their events, and watchers their mails."""
    triggers = Triggers(triggers_of(inputs.loaded), chats.inbox.accept_event, audit)
    if triggers.triggers:
        inputs.root.add(ChildSpec("triggers", lambda: TriggerFigures(triggers, store.journal.ask)))
        urls = [channel.add_takers(triggers.doors()) for channel in inputs.channels]
        triggers.url = next(filter(None, urls), "")
        for watched in _watched(agent, triggers):
            _add_watcher(inputs, store, watched)
    return TriggerCalls(triggers, store.journal.ask, inputs.ids, chats.inbox.reply)


def _watched(agent: AgentPart, triggers: Triggers) -> "Sequence[WatchedMailbox]":
    try:
        return agent.services.watched_by(triggers)
    except RumiError as error:  # one password is missing: all other parts work
        logger.warning("no mails are events of triggers: %s", error.message)
        return ()


def _add_watcher(inputs: TreeInputs, store: StorePart, watched: "WatchedMailbox") -> None:
    from rumi.channels.mail.watcher import MailWatcher

    key = f"mail watcher {watched.account}"
    inputs.root.add(
        ChildSpec(
            f"mail-{watched.name}",
            lambda: MailWatcher(watched, store.journal.ask, serves=lambda: inputs.workers.serves(key)),
        )
    )


def _status(inputs: TreeInputs, agent: AgentPart, chats: ChatsPart, counts: Counts) -> StatusSource:
    home, engine, redactor = inputs.home, inputs.engine, inputs.redactor
    return StatusSource(
        inputs.root.status,
        {
            "home": str(home.root),
            "model": inputs.models.name,
            "sandbox": {"engine": engine.kind, "degraded": list(engine.degraded), "files": "watched"},
        },
        files=(home.state_db, home.memory_db, home.recall_db),
        failed=lambda: {
            chat: (failure.time, redactor.text(failure.error))
            for chat, failure in chats.inbox.chats.failed.items()
        },
        counts=counts.dump,
        pending=lambda: sum(map(len, agent.pending.unreplied.values())),
        workers=inputs.workers.shown,
        services=lambda: {**agent.services.state(), **agent.plugins.state()},
    )


def _calls(
    inputs: TreeInputs,
    store: StorePart,
    models: ModelsPart,
    agent: AgentPart,
    tasks: TasksPart,
    chats: ChatsPart,
    attach_server: AttachServer,
    status: StatusSource,
    triggers: TriggerCalls,
    audit: AuditLog,
) -> dict[str, ControlCall]:
    """Return the calls of the control socket. Calls that another worker must answer are forwarded."""
    ids, limits = inputs.ids, inputs.limits
    bounds = ProjectLimits(limits.workspace_bytes, limits.workspace_files)
    parts: tuple[object, ...] = (
        ProcessCalls(status, chats.inbox, ids, inputs.language, chats.everything),
        RecallCommands(store.recall, ids, time.time, tasks.schedules.zone_of),
        MemoryCalls(store.memory, ids, agent.fact_extraction.extract_for_owner, chats.forgetting.forget),
        ChatCalls(
            *(store.journal.ask, ids, chats.inbox.chats.delete, chats.folders, agent.hub),
            inbox=chats.inbox,
            attachment=inputs.uploads.attachment,
        ),
        TaskCalls(tasks.tasks, ids),
        models.skill_calls,
        ModelCalls(inputs.loaded, tasks.threads, partial(_figures_of_models, status)),
        PeopleCalls(inputs.home.root, store.budgets, tasks.threads, audit.write, os.environ),
        SettingCalls(inputs.home.root, inputs.loaded, tasks.threads, audit.write, os.environ),
        ApprovalCalls(store.journal.ask, agent.hub, chats.inbox, ids, tasks.bots),
        UsageCalls(store.budgets, ids, chats.budgets.written, chats.budgets.allow),
        ScheduleCalls(tasks.schedules, ids),
        triggers,
        agent.mcp,
        BotCalls(
            tasks.bot_files, tasks.tasks, store.memory, tasks.threads, tasks.bots, tasks.fetched, bounds
        ),
        PageCalls(),
        # After the others: a channel that is served answers in place of the refusal that it is not.
        *(part for channel in inputs.channels for part in channel.calls()),
    )
    own = {name: call for part in parts for name, call in served(part).items()}
    forwarded = inputs.workers.forwarded_calls(own)
    calls = {name: attach_server.keeping_alive(call) for name, call in forwarded.items()}
    # Never counted as activity: a process that is asked to yield its home must not stay for the question.
    calls |= served(attach_server)
    return calls


def _figures_of_models(status: StatusSource) -> Mapping[str, object]:
    """Return the figures of the actor that grants permits for model calls; empty while it restarts."""
    return next((dict(child.metrics) for child in status.tree().children if child.id == "models"), {})


def _streams(
    inputs: TreeInputs,
    agent: AgentPart,
    tasks: TasksPart,
    chats: ChatsPart,
    attach_server: AttachServer,
    events: EventStream,
) -> dict[str, ControlStream]:
    """Return the streams of the control socket. Streams that another worker must serve are forwarded."""
    own: dict[str, ControlStream] = {
        "window": attach_server.serve,
        "events": events.serve,
        "task": TaskStream(tasks.tasks, agent.hub, tasks.bots).serve,
        "file": UploadStream(inputs.uploads, chats.inbox, inputs.ids).serve,
    }
    streams = dict(inputs.workers.forwarded_streams(own))
    for name in ("task", "file"):
        streams[name] = attach_server.keeping_alive_stream(streams[name])
    return streams


def _add_partitions(
    inputs: TreeInputs,
    store: StorePart,
    agent: AgentPart,
    tasks: TasksPart,
    chats: ChatsPart,
    attach_server: AttachServer,
) -> None:
    """Register all parts that take over and hand over partitions, which are groups of chats.

    The parts take over in the order in which this function registers them.

    The actor that calls these parts comes after them in the tree, so it stops first: no part has to take over
    a partition while that part is ending.
    """
    channels = inputs.channels
    parts: tuple[Partitioned, ...] = (
        SharedLedger(store.ledger),
        *channels,
        agent.fact_extraction,
        tasks.tasks,
        attach_server,
        chats.inbox.chats,
        tasks.schedules,
    )

    async def look(changed: Collection[str] | None) -> None:
        for channel in channels if changed else ():
            channel.look(tuple(changed or ()))
        await chats.inbox.chats.look(changed)
        await tasks.tasks.look()

    def slow_down(account: str) -> None:
        for channel in channels:
            if channel.account == account:
                channel.slow_down()

    def busy() -> frozenset[int]:
        working = (task.partition_key for task in tasks.tasks.open_tasks().values())
        return chats.inbox.chats.busy() | {partition_of(key) for key in working}

    dependents = Dependents(parts, look, busy, slow_down)
    inputs.workers.add_partitions(inputs.root, store.journal.ask, dependents)


def _routed_chat(path: Path, channel: str, ids: ChatIds, chat: str) -> RoutedChat:
    """Return a chat for a channel of this process, with the rights of the chat's owner."""
    return RoutedChat(path, Caller(channel, ids.owner_of(chat), "own"), chat)
