"""What a task spends, and what it may still spend."""

from dataclasses import asdict, dataclass, field, replace
from typing import Final

import trio

from rumi.agent.breakers import TurnLimits
from rumi.models.model import Emit, Model, ModelError, ModelRequest, Reply
from rumi.store.journal.records import Spent
from rumi.tasks.kinds import TaskWork
from rumi.tasks.services import TaskLimits

LEAST_LEFT_S: Final = 30.0
"""A task that goes on after a restart has at least so long for its answer."""


@dataclass(slots=True)
class Costs:
    """What a task has spent. It outlives the incarnations of its actor: calls before a crash count too.

    `before` is what its iterations have spent that have ended.
    """

    spent: Spent = field(default_factory=Spent)
    before: Spent = field(default_factory=Spent)
    _since: float | None = None
    """When the time began that is not yet in `spent`, on trio's clock; None while the task does not run."""

    def load(self, stored: Spent, before: Spent) -> None:
        """Go on from what is stored, unless more is known."""
        if stored.calls >= self.spent.calls:
            self.spent = stored
        self.before, self._since = before, None

    # The time

    @property
    def running(self) -> bool:
        """Return True while the task works."""
        return self._since is not None

    @property
    def seconds(self) -> float:
        """Return how long the task has worked by now."""
        return self.spent.seconds + (0.0 if self._since is None else trio.current_time() - self._since)

    def begin(self) -> None:
        """Count the time from now on."""
        self._since = trio.current_time()

    def by_now(self) -> Spent:
        """Return what is spent by now, with the time."""
        if self._since is not None:
            self.spent = replace(self.spent, seconds=self.seconds)
            self._since = trio.current_time()
        return self.spent

    def end_iteration(self) -> None:
        """Count no more time: an iteration has ended."""
        self.before, self._since = self.spent, None

    # Model calls and commands

    def call(self) -> None:
        """Count a model call."""
        self.spent = replace(self.spent, calls=self.spent.calls + 1)

    def take(self, reply: Reply) -> None:
        """Count what a reply has used."""
        usage, spent = reply.usage, self.spent
        self.spent = replace(
            spent,
            prompt_tokens=spent.prompt_tokens + usage.prompt_tokens,
            completion_tokens=spent.completion_tokens + usage.completion_tokens,
            cached_tokens=spent.cached_tokens + usage.cached_tokens,
            nano_usd=spent.nano_usd + usage.nano_usd,
        )

    def take_sandbox(self, seconds: float) -> None:
        """Count the time of a command."""
        self.spent = replace(self.spent, sandbox_s=self.spent.sandbox_s + seconds)

    def take_sources(self, sources: int) -> None:
        """Note how many sources there are."""
        self.spent = replace(self.spent, sources=sources)

    # What is left

    @property
    def of_turn(self) -> Spent:
        """Return what was spent since the last iteration ended."""
        before, now = asdict(self.before), asdict(self.spent)
        return Spent(**{name: now[name] - before[name] for name in now})

    def left(self, limits: TaskLimits, work: TaskWork) -> TurnLimits:
        """Return what is left of the task's budget, or of that of a bot's iteration.

        The last of the work's own model calls is left for the answer.
        """
        spent, whole_s = self.of_turn, limits.turn.timeout_s
        tokens = limits.max_tokens - spent.prompt_tokens - spent.completion_tokens
        most_nano = limits.turn.max_nano_usd
        left_nano = [] if most_nano is None else [max(1, most_nano - spent.nano_usd)]
        left_nano += [] if work.max_nano_usd is None else [max(1, work.max_nano_usd)]
        left_calls = [limits.turn.max_turns - spent.calls]
        left_calls += [] if work.max_calls is None else [work.max_calls - 1]
        return replace(
            limits.turn,
            max_turns=max(1, min(left_calls)),
            timeout_s=max(min(LEAST_LEFT_S, whole_s), whole_s - spent.seconds),
            max_tokens=max(1, tokens),
            max_nano_usd=min(left_nano, default=None),
        )


class MeteredModel:
    """A model whose calls are counted when they begin, and whose replies when they are there."""

    def __init__(self, model: Model, costs: Costs, most: int | None = None) -> None:
        """`most` calls may be made, if it is not None."""
        self._model = model
        self._costs = costs
        self._most = most
        self._calls = 0
        self.name = model.name
        self.context_tokens = getattr(model, "context_tokens", None)

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        """Return the model's reply.

        Raises:
            ModelError: There may be no more calls, or the model gave no reply.
        """
        if self._most is not None and self._calls >= self._most:
            raise ModelError("budget", "The model calls of the plan are used up.")
        self._calls += 1
        self._costs.call()
        reply = await self._model.reply(request, emit)
        self._costs.take(reply)
        return reply
