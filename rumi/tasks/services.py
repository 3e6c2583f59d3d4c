"""What tasks share, introduced to each of them by `rumi.app.tree`, and the bounds that hold for them."""

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
    """The budget of one task, and the bounds for all. Times in seconds.

    `turn` has the model calls, the time and the money; `max_tokens` counts prompts and replies, `sandbox_s`
    the time in which commands ran. `max_running` tasks run at once, `per_owner` of them for one owner;
    `max_open` is how many an owner may have that have not ended. They are kept for `keep_s` after their end,
    0 for ever. A bot makes `bot_calls_per_day` at most, 0 for any number.
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
    """Return who the task's model calls are for, with its own bound in money.

    It leaves as much again for the last answer: at the bound itself the task ends, and says what it found.
    A bot's session has the budget in its options, and the bot a number of calls for each day.
    """
    own: list[Limit] = []
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
    """What tasks share. `files` has one folder for each task that only the program writes.

    `model_for` returns a task's model, or raises a `RumiError`. `places` bounds how many run. `wake`
    hands a stored message to its chat, `ended` hears of each
    end, `stepped` of each step. `serves` tells of a chat or an owner if this process works for them: another
    worker may.
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
