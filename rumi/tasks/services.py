"""The services that all tasks share, wired by `rumi.app.tree`, and the limits for tasks."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from actors import ActorRef
from rumi.agent.breakers import TurnLimits
from rumi.chats.people.people import People
from rumi.chats.publishing import Publisher
from rumi.chats.services import ChatSandboxes, ChatWorkspaces
from rumi.models.metering import Account, Limit
from rumi.models.model import Model
from rumi.platform.fair_limiter import FairLimiter
from rumi.store.journal.records import Incoming, TaskRecord
from rumi.store.journal.transaction import JournalMessage
from rumi.tasks.kinds import TaskKind


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """The budget of each task, and the limits for all tasks together. Times are in seconds.

    `turn` limits model calls, time and money. `max_tokens` counts prompts and replies; `sandbox_s` counts the
    run time of commands. At most `max_running` tasks run at once, `per_owner` of them for one owner. An owner
    may have `max_open` tasks that have not ended. Ended tasks are retained for `retention_s`; 0 retains them
    forever. A bot makes at most `bot_calls_per_day` model calls per day; 0 means no limit.
    """

    turn: TurnLimits
    max_tokens: int = 2_000_000
    sandbox_s: float = 600.0
    context_tokens: int = 131_072
    max_running: int = 10
    per_owner: int = 5
    max_open: int = 20
    retention_s: float = 0.0
    bot_calls_per_day: int = 0


def account_of(task: TaskRecord, limits: TaskLimits) -> Account:
    """Return the account that is charged for the task's model calls, with the task's own limits.

    A bot's session has the budget in its options, and the bot has a limit on model calls per day.
    """
    own: list[Limit] = []
    # The turn itself ends at `max_nano_usd`. The account allows twice that amount, so that the model can
    # still be asked for a last answer with what the task has found.
    if (most := limits.turn.max_nano_usd) is not None and not task.bot:
        own.append(Limit("task", "usd", "ever", 2 * most))
    if task.bot and limits.bot_calls_per_day:
        own.append(Limit("bot", "calls", "day", limits.bot_calls_per_day))
    match json.loads(task.options).get("budget"):
        case {"unit": ("usd" | "tokens") as unit, "most": int(most)}:
            own.append(Limit("task", unit, "ever", most))
    return Account(task.chat, task.owner, task.id, task.bot, tuple(own))


@dataclass(frozen=True, slots=True)
class TaskServices:
    """The services that all tasks share.

    `files` contains one folder per task; only the program writes to these folders. `model_for` returns a
    task's model, or raises a `RumiError`. `slots` limits the number of running tasks. `wake` delivers a
    stored message to its chat. `ended` is called when a task ends, and `stepped` at each step of a task.
    `serves` returns True if this worker serves a partition key (a chat or an owner); other workers serve all
    other keys.
    """

    journal: ActorRef[JournalMessage]
    sandboxes: ChatSandboxes
    workspaces: ChatWorkspaces
    publisher: Publisher
    model_for: Callable[[TaskRecord], Model]
    kinds: Mapping[str, TaskKind]
    limits: TaskLimits
    slots: FairLimiter
    files: Path
    now: Callable[[], float]
    wake: Callable[[Incoming], None]
    ended: Callable[[int], None]
    stepped: Callable[[int, str], None]
    people: People = field(default_factory=People)
    serves: Callable[[str], bool] = lambda place: True
