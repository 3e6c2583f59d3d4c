"""The tasks part: research, bots and schedules. Each task is stored and belongs to an owner."""

import time
from dataclasses import dataclass
from functools import partial

from rumi.app.parts.agent import AgentPart
from rumi.app.parts.inputs import TreeInputs
from rumi.app.parts.models import ModelsPart
from rumi.app.parts.sandbox import SandboxPart
from rumi.app.parts.store import StorePart
from rumi.chats.services import NotCarried
from rumi.platform.logs.audit import AuditLog
from rumi.platform.threads import Threads
from rumi.sandbox.project.tree import ProjectLimits
from rumi.store.journal.records import Incoming
from rumi.tasks.bots.bots import Bots
from rumi.tasks.bots.fetching import FetchedSkills
from rumi.tasks.bots.files import BotFiles
from rumi.tasks.bots.kind import BotKind
from rumi.tasks.kinds import TaskKind
from rumi.tasks.research.kinds import RepositoryKind, WebKind
from rumi.tasks.research.repository.cache import RepositoryCache
from rumi.tasks.schedules.schedules import Schedules, ScheduleServices
from rumi.tasks.schedules.sources import WatchSources
from rumi.tasks.services import TaskServices
from rumi.tasks.tasks import Tasks, task_slots
from rumi.web.tree import guarded_streams


@dataclass(frozen=True, slots=True)
class TasksPart:
    """Tasks of all kinds, and the parts that start them. `threads` are used to access bots' files."""

    tasks: Tasks
    bots: Bots
    bot_files: BotFiles
    threads: Threads
    fetched: FetchedSkills
    schedules: Schedules


def add_tasks(
    inputs: TreeInputs,
    store: StorePart,
    models: ModelsPart,
    sandbox: SandboxPart,
    agent: AgentPart,
    *,
    audit: AuditLog,
) -> TasksPart:
    """Add the tasks and their recovery. The clock that fires schedules is added later, below the chats."""
    home, limits, settings, ports = inputs.home, inputs.limits, inputs.loaded.settings, inputs.ports
    bot_files, threads = BotFiles(home.root, home.files), Threads()
    network, workspaces = partial(guarded_streams, settings.fetch), sandbox.workspaces
    cache = RepositoryCache(home.root / "cache" / "repositories")
    words = agent.prompts.words

    def wake(message: Incoming) -> None:
        ports.inbox().chats.wake(message)

    kinds: dict[str, TaskKind] = {
        "web": WebKind(models.web, words["research-web"], time.time),
        "repo": RepositoryKind(words["research-repo"], network, cache, limits),
        "bot": BotKind(
            bot_files,
            agent.prompts,
            agent.prompts.sandbox(sandbox.strict.there, settings.sandbox.timeout_s),
            store.journal.ask,
            store.memory,
            models.web,
            sandbox.chosen,
            threads,
            time.time,
            settings.bots,
            settings.memory.max_facts,
            limits,
        ),
    }
    kinds |= agent.plugins.kinds(kinds)
    services = TaskServices(
        journal=store.journal,
        zone_of=lambda owner: inputs.ports.schedules().zone_of(owner),
        sandboxes=sandbox.sandboxes,
        workspaces=sandbox.workspaces,
        publisher=agent.publisher,
        model_for=models.bound.of_task,
        kinds=kinds,
        settings=settings,
        context_tokens=inputs.models.context_tokens,
        slots=task_slots(settings.tasks.max_running, settings.tasks.per_owner),
        files=home.tasks,
        now=time.time,
        wake=wake,
        ended=lambda id: ports.tasks().ended(id),
        stepped=lambda id, step: ports.tasks().stepped(id, step),
        people=models.people,
        serves=inputs.workers.serves,
    )
    tasks = ports.tasks.bind(Tasks(inputs.root, services, inputs.ids))
    bounds = ProjectLimits(limits.workspace_bytes, limits.workspace_files)
    allowed = settings.bots.allowed
    bots = ports.bots.bind(Bots(bot_files, ports.tasks, inputs.ids, threads, bounds, allowed, models.people))
    schedules = ports.schedules.bind(
        Schedules(
            ScheduleServices(
                journal=store.journal,
                tasks=tasks,
                hub=agent.hub,
                ids=inputs.ids,
                wake=wake,
                audit=audit,
                limits=settings.schedules,
                bot=bots.of_schedule,
                has_bot=bot_files.has,
                stays=inputs.stays,
                people=models.people,
                group_of=inputs.group_of,
                admins=lambda chat: inputs.channel_of(chat).admin_chats(),
                version_of=agent.mcp.version_of,
                language=inputs.language,
                sources=WatchSources(
                    partial(models.web.fetch, whole=True, fresh=True),
                    sandbox.sandboxes.run,
                    lambda chat: sandbox.strict if inputs.ids.may_be_group(chat) else sandbox.chosen,
                    # Files that are carried from worker to worker may not be here when a check reads them.
                    workspaces.files if isinstance(workspaces.carry, NotCarried) else None,
                    workspaces.offload,
                ),
            )
        )
    )
    fetched = FetchedSkills(sandbox.sandboxes, sandbox.workspaces, network, cache, limits)
    return TasksPart(tasks, bots, bot_files, threads, fetched, schedules)
