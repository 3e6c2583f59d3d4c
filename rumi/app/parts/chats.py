"""The chats part: the chats, their commands, undo, recovery, and commands that stop or forget everything."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from actors import ChildSpec
from rumi.app.budget_calls import BudgetCommands
from rumi.app.forget_all import Forgetting, schedules_of, tasks_of
from rumi.app.parts.agent import AgentPart
from rumi.app.parts.inputs import TreeInputs
from rumi.app.parts.models import ModelsPart
from rumi.app.parts.sandbox import SandboxPart
from rumi.app.parts.store import StorePart
from rumi.app.parts.tasks import TasksPart
from rumi.app.recall_calls import RecallCommands
from rumi.app.stop_all import Everything
from rumi.chats.folder_changes import FolderCommands
from rumi.chats.inbox import Inbox, add_chats
from rumi.chats.linked_folders import SandboxFolders
from rumi.chats.lists.commands import ListCommands
from rumi.chats.people.chat_commands import PeopleCommands
from rumi.chats.recorder.recorder import Recorder
from rumi.chats.services import ChatServices, CommandHandler, Undo
from rumi.chats.speaking import SpeechService
from rumi.chats.undo.snapshots import Snapshots
from rumi.chats.undo_sweep import UndoSweep
from rumi.memory.recall.following import unindex_owner
from rumi.memory.rows import forget_owner
from rumi.platform.logs.audit import AuditLog
from rumi.platform.threads import Threads
from rumi.sandbox.policy import CommandPolicy
from rumi.tasks.schedules.clock import ScheduleClock
from rumi.tasks.schedules.proposals import ZoneProposals
from rumi.texts import Language


@dataclass(frozen=True, slots=True)
class ChatsPart:
    """The chats behind their inbox, and the commands that affect all chats."""

    inbox: Inbox
    services: ChatServices
    folders: SandboxFolders
    budgets: BudgetCommands
    everything: Everything
    forgetting: Forgetting


def add_all_chats(
    inputs: TreeInputs,
    store: StorePart,
    models: ModelsPart,
    sandbox: SandboxPart,
    agent: AgentPart,
    tasks: TasksPart,
    *,
    audit: AuditLog,
    free_space_advice: Callable[[str, Language], str],
    whole_status: Callable[[], str],
) -> ChatsPart:
    """Add the cleanup after undo, the recovery of open messages, the chats, and the clock of schedules."""
    home, ids, settings, workers = inputs.home, inputs.ids, inputs.loaded.settings, inputs.workers
    money = BudgetCommands(store.budgets, store.ledger, ids, audit, models.people)
    undo = Undo(Snapshots(home, settings.undo, files=inputs.files), Threads(2), tasks.tasks.stop_all)
    folders = SandboxFolders(
        inputs.files.folders, sandbox.sandboxes.stop, sandbox.sandboxes.runs, undo.snapshots, Threads(2)
    )
    recorder = Recorder(
        home.root,
        inputs.redactor.remembering(),  # each request repeats the history
        settings.record.turns,
        settings.record.max_mb * 1024 * 1024,
        agent.instructions,
        tuple(sandbox.strict.there),
        settings.sandbox.timeout_s,
        chat_bytes=settings.record.chat_mb * 1024 * 1024,
        total_bytes=settings.record.total_mb * 1024 * 1024,
    )
    alone = workers.ownership is None
    inputs.root.add(
        ChildSpec("undo", lambda: UndoSweep(store.journal, undo, store.retention_s, recorder, alone=alone))
    )
    handlers: dict[str, CommandHandler] = {
        "tasks": tasks.tasks,
        "budgets": money,
        "schedules": tasks.schedules,
        "bots": tasks.bots,
        "lists": ListCommands(store.journal.ask),
        "recall": RecallCommands(store.recall, ids, time.time, tasks.schedules.zone_of),
        "people": PeopleCommands(models.people, store.budgets, money.written, store.memory, inputs.group_of),
    }

    speech = SpeechService(
        store.journal,
        settings.voice.answer,
        lambda chat: inputs.channel_of(chat).speaks(chat),
        lambda chat, text, language: inputs.channel_of(chat).speak(chat, text, language),
    )
    handlers["speech"] = speech
    zones = ZoneProposals(tasks.schedules, ids)

    def noticed(keys: Sequence[str]) -> None:
        store.budgets.drop_notices(keys)
        zones.drop_notices(keys)

    def policy_of(chat: str) -> CommandPolicy:
        return sandbox.strict if ids.may_be_group(chat) else sandbox.chosen

    services = ChatServices(
        journal=store.journal,
        sandboxes=sandbox.sandboxes,
        workspaces=sandbox.workspaces,
        hub=agent.hub,
        publisher=agent.publisher,
        pending=agent.pending,
        context=agent.context,
        fact_extraction=agent.fact_extraction,
        policy_of=policy_of,
        sandbox_limits=inputs.limits,
        handlers=handlers,
        running_tasks=tasks.tasks.running,
        notices=lambda chat, language: (
            *store.budgets.notices(chat, language),
            *zones.notices(chat, language),
        ),
        noticed=noticed,
        propose_zone=zones.propose,
        undo=undo,
        recorder=recorder,
        speech=speech,
        folders=folders,
    )
    handlers["folders"] = FolderCommands(folders)
    inbox = inputs.ports.inbox.bind(
        add_chats(
            inputs.root,
            services,
            free_space_advice=free_space_advice,
            whole_status=whole_status,
            worker=lambda: workers.name,
        )
    )
    workers.start_forwarding(store.journal.ask, inbox.chats.takes)
    # These two act on all chats, so they exist only now; no chat runs before the tree does.
    everything = Everything(
        inbox, tasks.tasks, ids, {"schedules": tasks.schedules.pause_all}, workers.stop_others
    )
    forgetting = Forgetting(
        store.journal,
        inbox,
        ids,
        audit,
        {
            "schedules": schedules_of(tasks.schedules),
            "tasks": tasks_of(store.journal, tasks.tasks),
            "logins": agent.mcp.forget_logins,
            "profiles": agent.browser.forget,
        },
        {
            "facts": lambda owner: store.memory(forget_owner(owner)),
            "passages": lambda owner: store.recall(unindex_owner(owner)),
        },
    )
    handlers |= {"everything": everything, "forgetting": forgetting}
    # Below the chats, which have registered by then what earlier processes left.
    inputs.root.add(ChildSpec("schedules", lambda: ScheduleClock(tasks.schedules)))
    return ChatsPart(inbox, services, folders, money, everything, forgetting)
