"""Accounting for a task: its spending so far, and the budget that it has left."""

from dataclasses import asdict, dataclass, field, replace
from typing import Final

import trio

from rumi.agent.breakers import TurnLimits
from rumi.models.model import Emit, Model, ModelError, ModelRequest, Reply
from rumi.store.journal.records import Spent
from rumi.tasks.kinds import TaskWork

LEAST_LEFT_S: Final = 30.0
"""Minimum time to write the answer for a task that resumes after a restart, in seconds."""


@dataclass(slots=True)
class Costs:
    """The spending of a task. It survives actor restarts, so model calls before a crash still count.

    `before` is the spending of all completed iterations.
    """

    spent: Spent = field(default_factory=Spent)
    before: Spent = field(default_factory=Spent)
    _since: float | None = None
    """Start of the time that `spent` does not include yet, on trio's clock; None while the task is idle."""

    def load(self, stored: Spent, before: Spent) -> None:
        """Continue from the `stored` spending, unless this object has counted more model calls than that."""
        # After a crash this object may know calls that the journal does not: they were made after the last
        # stored message.
        if stored.calls >= self.spent.calls:
            self.spent = stored
        self.before, self._since = before, None

    # The time

    @property
    def running(self) -> bool:
        """Return True while the task is running."""
        return self._since is not None

    @property
    def seconds(self) -> float:
        """Return the task's running time so far, in seconds."""
        return self.spent.seconds + (0.0 if self._since is None else trio.current_time() - self._since)

    def begin(self) -> None:
        """Start measuring the task's running time."""
        self._since = trio.current_time()

    def by_now(self) -> Spent:
        """Return the spending so far, including the running time until now."""
        if self._since is not None:
            self.spent = replace(self.spent, seconds=self.seconds)
            self._since = trio.current_time()
        return self.spent

    def end_iteration(self) -> None:
        """Stop measuring the running time at the end of an iteration."""
        self.before, self._since = self.spent, None

    # Model calls and commands

    def call(self) -> None:
        """Count a model call."""
        self.spent = replace(self.spent, calls=self.spent.calls + 1)

    def take(self, reply: Reply) -> None:
        """Count the tokens and the cost of a model's reply."""
        usage, spent = reply.usage, self.spent
        self.spent = replace(
            spent,
            prompt_tokens=spent.prompt_tokens + usage.prompt_tokens,
            completion_tokens=spent.completion_tokens + usage.completion_tokens,
            cached_tokens=spent.cached_tokens + usage.cached_tokens,
            nano_usd=spent.nano_usd + usage.nano_usd,
        )

    def take_sandbox(self, seconds: float) -> None:
        """Count the run time of a command, in seconds."""
        self.spent = replace(self.spent, sandbox_s=self.spent.sandbox_s + seconds)

    def take_sources(self, sources: int) -> None:
        """Set the number of sources that the task has read."""
        self.spent = replace(self.spent, sources=sources)

    # The rest of the budget

    @property
    def of_turn(self) -> Spent:
        """Return the spending since the end of the last iteration."""
        before, now = asdict(self.before), asdict(self.spent)
        return Spent(**{name: now[name] - before[name] for name in now})

    def left(self, limits: TurnLimits, work: TaskWork) -> TurnLimits:
        """Return what the task has left of `limits`; in a bot's session, the budget left for the iteration.

        If `work` limits the number of model calls, one of these calls is reserved for the final answer.
        """
        spent, whole_s, most_nano = self.of_turn, limits.timeout_s, limits.max_nano_usd
        used = spent.prompt_tokens + spent.completion_tokens
        left_nano = [] if most_nano is None else [max(1, most_nano - spent.nano_usd)]
        left_nano += [] if work.max_nano_usd is None else [max(1, work.max_nano_usd)]
        left_calls = [limits.max_turns - spent.calls]
        left_calls += [] if work.max_calls is None else [work.max_calls - 1]
        # Never less than one call and `LEAST_LEFT_S`: a task that resumes with its budget used up still has
        # to give an answer.
        return replace(
            limits,
            max_turns=max(1, min(left_calls)),
            timeout_s=max(min(LEAST_LEFT_S, whole_s), whole_s - spent.seconds),
            max_tokens=None if limits.max_tokens is None else max(1, limits.max_tokens - used),
            max_nano_usd=min(left_nano, default=None),
        )


class MeteredModel:
    """A model that counts each call when the call begins, and its usage when the reply arrives."""

    def __init__(self, model: Model, costs: Costs, most: int | None = None) -> None:
        """Limit the number of calls to `most`, if it is not None."""
        self._model = model
        self._costs = costs
        self._most = most
        self._calls = 0
        self.name = model.name
        self.context_tokens = getattr(model, "context_tokens", None)

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        """Return the model's reply.

        Raises:
            ModelError: The maximum number of calls is reached, or the model gave no reply.
        """
        if self._most is not None and self._calls >= self._most:
            raise ModelError("budget", "The model calls of the plan are used up.")
        self._calls += 1
        # Counted before the request: a call that fails or is cut off by a crash has used the budget too.
        self._costs.call()
        reply = await self._model.reply(request, emit)
        self._costs.take(reply)
        return reply
