"""What one history has in common: its dice, its clock, what was wrong in it, and its timeline."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Literal, TypeAlias

import trio

from rumi.platform.config.schema import ChatSection
from tests.chats.house import queueing
from tests.simulation.waits import Waits

EPOCH = 1.0e9

QUEUEING = 0.3
"""In so many histories messages wait for the turn that runs; in the others they are told that it is busy."""

TASKING = 0.25
"""In so many histories people ask for tasks."""

STOPPING = 0.2
"""In so many histories people ask to stop everything."""

BUDGETING = 0.3
"""In so many histories a budget holds, so that each model call is reserved."""

REMINDING = 0.25
"""In so many histories people set reminders."""

SERVING = 0.1
"""Share of the histories in which a long command runs in the background, beside others."""

PIECES = 0.25
"""In so many histories people write in pieces, which are joined, and correct what they wrote."""

TOGETHER_S = 0.5

REOPENING = 0.06
"""In so many histories people begin new sessions and reopen earlier ones."""

STEERING = 0.3
"""In so many of these histories what comes during a turn reaches the model at its next step."""

GUESTS = 0.25
"""In so many histories one of the people has a role that runs no commands."""

AGAIN = 0.1
"""In so many of the histories with early deaths, the next processes die as soon as they resume a turn."""

Theme: TypeAlias = Literal["stuck", "storm", "late", "move"]

THEMES: tuple[Theme, ...] = ("stuck", "storm", "late", "move")
"""What some histories are about, because it is rare in the others.

`stuck`: whatever one chat reaches for hangs, and the others go on. `storm`: messages come so fast that they
are queued when a chat crashes once too often. `late`: Telegram carries edits out late, and processes end
while it has not. `move`: a group becomes a supergroup, and has another number.
"""

FAMILIES = ("model", "sandbox", "disk", "telegram", "updates", "kill")
"""What can go wrong, each in a measure that the history draws."""


class Fault(Exception):
    """A fault that nobody expects."""


class World:
    """What lasts longer than a process.

    `calm` switches the faults off. `counts` says what happened how often, `timeline` what happened when
    (None: nobody wants to read it).
    """

    def __init__(self, seed: int, *, trace: bool = False) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.calm = False
        self.wrong: list[str] = []
        self.counts: Counter[str] = Counter()
        self.plain: set[int] = set()
        """The chats in which formatting was refused."""
        self.full_until = self.cut_until = 0.0
        """When the disk takes something again, and when Telegram can be reached again."""
        self.cut_silently = False
        self.fails_behind: Literal["", "a reply", "now"] = ""
        """The disk is to fail once more when the next reply is written, or with what is being written."""
        self.undeleted: Counter[int] = Counter()
        """How often a message could not be deleted: Telegram out of reach, or the chat gone; by chat."""
        self.sent_by: dict[tuple[int, int], object] = {}
        """Which process sent a message and got Telegram's answer, by chat and message number."""
        self.waits = Waits()
        self.stuck: str | None = None
        """The chat for which everything hangs, where one is."""
        self.timeline: list[str] | None = [] if trace else None
        measures = (0.0, 0.0, 0.3, 1.0, 3.0) if self.random.random() < 0.85 else (0.0,)
        self.measure = {family: self.random.choice(measures) for family in FAMILIES}
        self.theme: Theme | None = self.random.choice((*(None,) * 7, *THEMES))
        if self.theme is not None:
            self.counts[f"theme {self.theme}"] += 1
        # Drawn apart: a history of the others is the same with and without this.
        self.max_queued = 5 if Random(f"queue {seed}").random() < QUEUEING else 0
        self.tasks = Random(f"tasks {seed}").random() < TASKING
        self.budgets = Random(f"budgets {seed}").random() < BUDGETING
        self.stops = Random(f"stops {seed}").random() < STOPPING
        self.guests = Random(f"guests {seed}").random() < GUESTS
        self.servers = Random(f"servers {seed}").random() < SERVING
        self.pieces = Random(f"pieces {seed}").random() < PIECES
        self.again = Random(f"again {seed}").random() < AGAIN
        self.reopens = Random(f"sessions-of {seed}").random() < REOPENING
        steers = Random(f"steers {seed}").random() < STEERING
        self._queued_pieces = Random(f"pieces queue {seed}").choice((0, 5, 5, 20))
        self.when_busy = "reject" if not self._queued_pieces else "steer" if steers else "queue"
        self.reminders = Random(f"reminders {seed}").random() < REMINDING
        self.note("measures", self.measure)
        self.note("theme", self.theme)
        self.note("max_queued", self.max_queued)
        self.note("tasks", self.tasks)
        self.note("budgets", self.budgets)
        self.note("stops", self.stops)
        self.note("guests", self.guests)
        self.note("reminders", self.reminders)
        self.note("servers", self.servers)
        self.note("pieces", self.pieces)
        self.note("again", self.again)
        self.note("reopens", self.reopens)

    @property
    def most_queued(self) -> int:
        """How many messages may wait in a chat."""
        return self._queued_pieces if self.pieces else self.max_queued

    @property
    def chat_section(self) -> ChatSection:
        """What becomes of messages that come together, or while a turn runs."""
        if not self.pieces:
            return queueing(self.max_queued)
        return ChatSection.model_validate(
            {"when_busy": self.when_busy, "max_queued": self.most_queued or 1, "together_s": TOGETHER_S}
        )

    def now(self) -> float:
        """Seconds since 1970."""
        return EPOCH + trio.current_time()

    def dice(self, family: str, chance: float) -> bool:
        """Whether something goes wrong now."""
        if self.calm:
            return False
        chance *= self.measure[family]
        if chance <= 0 or self.random.random() >= chance:
            return False
        self.counts[family] += 1
        return True

    def hangs(self, chat: str, chance: float) -> bool:
        """Whether something that this chat reaches for hangs now."""
        if self.calm or chat != self.stuck or self.random.random() > chance:
            return False
        self.counts["stuck"] += 1
        return True

    @property
    def boxes_fail(self) -> bool:
        """Whether the daemon may fail or hang in this history."""
        return bool(self.measure["sandbox"] or self.stuck)

    def complain(self, what: str) -> None:
        """Something is as it must not be."""
        self.wrong.append(what)
        self.note("WRONG", what)

    def note(self, who: str, what: object = "", *more: Callable[[], object]) -> None:
        """A line of the timeline; `more` is put together only where somebody reads it."""
        if self.timeline is not None:
            try:
                time = f"{trio.current_time():11.3f}"
            except RuntimeError:
                time = " " * 11
            words = " ".join(str(part()) for part in more)
            self.timeline.append(f"{time}  {who:10} {what} {words}".rstrip())
