"""The services that all tasks share, wired by `rumi.app.tree`, and the limits for tasks."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import trio

from actors import ActorRef
from rumi.agent.breakers import TurnLimits
from rumi.chats.budgets.amounts import nano_of
from rumi.chats.people.people import People
from rumi.chats.publishing import Publisher
from rumi.chats.services import ChatSandboxes, ChatWorkspaces
from rumi.models.metering import Account, Limit
from rumi.models.model import Model
from rumi.platform.config.schema import Settings
from rumi.platform.fair_limiter import FairLimiter
from rumi.store.journal.records import Incoming, TaskRecord
from rumi.store.journal.transaction import JournalMessage
from rumi.tasks.kinds import TaskKind


def turn_limits(task: TaskRecord, settings: Settings) -> TurnLimits:
    """Return the budget of a task; for a bot's session, of each iteration."""
    tasks, agent = settings.tasks, settings.agent
    return TurnLimits(
        settings.bots.max_turns if task.bot else tasks.max_turns,
        agent.repeated_call,
        agent.consecutive_errors,
        tasks.timeout_s,
        tasks.max_tokens,
        None if tasks.max_usd is None else nano_of(tasks.max_usd),
    )


def account_of(task: TaskRecord, settings: Settings) -> Account:
    """Return the account that is charged for the task's model calls, with the task's own limits.

    A bot's session has the budget in its options, and the bot has a limit on model calls per day.
    """
    own: list[Limit] = []
    # The turn itself ends at `max_nano_usd`. The account allows twice that amount, so that the model can
    # still be asked for a last answer with what the task has found.
    if settings.tasks.max_usd is not None and not task.bot:
        own.append(Limit("task", "usd", "ever", 2 * nano_of(settings.tasks.max_usd)))
    if task.bot:
        own.append(Limit("bot", "calls", "day", settings.bots.max_calls_per_day))
    match json.loads(task.options).get("budget"):
        case {"unit": ("usd" | "tokens") as unit, "most": int(most)}:
            own.append(Limit("task", unit, "ever", most))
    return Account(task.chat, task.owner, task.id, task.bot, tuple(own))


async def unknown_zone(owner: str) -> str:
    """Return no time zone."""
    await trio.lowlevel.checkpoint()
    return ""


@dataclass(frozen=True, slots=True)
class TaskServices:
    """The services that all tasks share.

    `files` contains one folder per task; only the program writes to these folders. `model_for` returns a
    task's model, or raises a `RumiError`. `context_tokens` is the size of the first model's context. `slots`
    limits the number of running tasks. `wake` delivers a stored message to its chat. `ended` is called when a
    task ends, and `stepped` at each step of a task. `serves` returns True if this worker serves a partition
    key (a chat or an owner); other workers serve all other keys. An owner may have `max_open` tasks that have
    not ended. `zone_of` returns an owner's time zone, empty if it is unknown.
    """

    journal: ActorRef[JournalMessage]
    sandboxes: ChatSandboxes
    workspaces: ChatWorkspaces
    publisher: Publisher
    model_for: Callable[[TaskRecord], Model]
    kinds: Mapping[str, TaskKind]
    settings: Settings
    context_tokens: int
    slots: FairLimiter
    files: Path
    now: Callable[[], float]
    wake: Callable[[Incoming], None]
    ended: Callable[[int], None]
    stepped: Callable[[int, str], None]
    people: People = field(default_factory=People)
    serves: Callable[[str], bool] = lambda place: True
    max_open: int = 20
    zone_of: Callable[[str], Awaitable[str]] = unknown_zone
