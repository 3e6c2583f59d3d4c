"""Plans: a user approves a bot's fetches and spending in advance.

A plan lists its steps, the hosts with the number of fetches from each, and limits on model calls, money and
hours. A call that needs approval is parked, which means that it is stored until a person decides; the
proposal of a plan is such a call. Once the plan is approved, the bot may make the fetches that the plan
covers without asking again. Other calls that need approval are still parked.
"""

import json
import math
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from typing_extensions import override

from rumi.agent.permissions.exact_hosts import exact_host
from rumi.agent.permissions.parking import CoveringCalls, ParkedCalls, counted
from rumi.agent.tool import Progress, Question, Tool, ToolResult
from rumi.agent.tools.web_fetch import WebFetch
from rumi.chats.budgets.amounts import amount_text, nano_of
from rumi.models.model import ToolSpec
from rumi.platform.texts.questions import Detail, Value
from rumi.platform.untrusted_text import one_line
from rumi.store.journal.records import Parked, Spent
from rumi.web.messages import Method, Page

PROPOSE: Final = "propose_plan"

Lapse: TypeAlias = Literal["expired", "calls", "money"]
"""The reason why a plan is no longer valid."""

MOST_STEPS: Final = 20
MOST_HOSTS: Final = 20
MOST_FETCHES: Final = 1_000
MOST_CALLS: Final = 10_000
MOST_USD: Final = 10_000
MOST_HOURS: Final = 30 * 24
_STEP_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Plan:
    """A proposed plan.

    `hosts` maps each host to the allowed number of fetches. The approval is valid for `hours` hours.
    `nano_usd` is the money that the bot may spend, in billionths of a USD; 0 means that the plan sets no
    amount.
    """

    steps: tuple[str, ...]
    hosts: Mapping[str, int]
    calls: int
    nano_usd: int
    hours: float


@dataclass(frozen=True, slots=True)
class Approved:
    """An approved plan.

    `until` is the time when the plan expires, in seconds since 1970. `calls` and `nano_usd` are the session's
    usage at the time of the approval. `opened` counts, for each host, the fetches that the plan has allowed
    so far.
    """

    plan: Plan
    number: int
    until: float
    calls: int
    nano_usd: int
    opened: Mapping[str, int] = field(default_factory=dict)

    def calls_left(self, spent: Spent) -> int:
        """Return the number of model calls that the plan still allows."""
        return self.plan.calls - (spent.calls - self.calls)

    def nano_left(self, spent: Spent) -> int | None:
        """Return the money left in the plan, in billionths of a USD; None if the plan sets no amount."""
        return self.plan.nano_usd - (spent.nano_usd - self.nano_usd) if self.plan.nano_usd else None

    def lapsed(self, now: float, spent: Spent) -> Lapse | None:
        """Return the reason why the plan is no longer valid, or None if the plan is valid."""
        if now >= self.until:
            return "expired"
        if self.calls_left(spent) <= 0:
            return "calls"
        nano = self.nano_left(spent)
        return "money" if nano is not None and nano <= 0 else None

    def in_words(self, spent: Spent) -> str:
        """Return the description of the plan for the model."""
        hosts = [
            f"{host} ({most - self.opened.get(host, 0)} of {most} left)"
            for host, most in self.plan.hosts.items()
        ]
        return "\n".join(
            [
                "<plan>",
                f"The user approved your plan {self.number}. Keep to it; what is beyond it waits for a yes.",
                *(f"{number}. {step}" for number, step in enumerate(self.plan.steps, 1)),
                f"Hosts that you may open: {', '.join(hosts) or 'none'}.",
                f"Model calls: {self.calls_left(spent)} of {self.plan.calls} left.",
                "</plan>",
            ]
        )


def plan_in(arguments: Mapping[str, object]) -> Plan | str:
    """Parse the plan in the arguments of a tool call; return an error message if it is invalid."""
    steps, fetches = arguments.get("steps"), arguments.get("fetches") or []
    if (
        not isinstance(steps, list)
        or not 0 < len(steps) <= MOST_STEPS
        or not all(isinstance(step, str) and step.strip() for step in steps)
        or any(len(one_line(step)) > _STEP_CHARS for step in steps)
    ):
        return f"needs `steps`, a list of 1 to {MOST_STEPS} texts of at most {_STEP_CHARS} characters"
    if not isinstance(fetches, list) or len(fetches) > MOST_HOSTS:
        return f"takes `fetches` as a list of at most {MOST_HOSTS}"
    hosts: dict[str, int] = {}
    for fetch in fetches:
        host, count = (fetch.get("host"), fetch.get("count")) if isinstance(fetch, dict) else (None, None)
        if not isinstance(host, str) or not _whole(count, MOST_FETCHES):
            return f"needs a `host` and a `count` from 1 to {MOST_FETCHES} in each of `fetches`"
        try:
            exact, origin = exact_host(host)
        except ValueError as error:
            return str(error)
        if origin != f"https://{exact}":
            return f"takes exact hosts, such as example.com, not {one_line(host, 80)}"
        hosts[exact] = int(str(count))
    calls, usd, hours = arguments.get("model_calls"), arguments.get("usd"), arguments.get("hours", 24)
    if not _whole(calls, MOST_CALLS):
        return f"needs `model_calls`, a whole number from 1 to {MOST_CALLS}"
    if usd is not None and not _number(usd, MOST_USD):
        return f"takes `usd` as a number above 0, at most {MOST_USD}"
    if not _number(hours, MOST_HOURS):
        return f"takes `hours` as a number above 0, at most {MOST_HOURS}"
    lines = tuple(map(one_line, steps))
    money = 0 if usd is None else max(1, nano_of(float(str(usd))))
    return Plan(lines, hosts, int(str(calls)), money, float(str(hours)))


def _whole(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= most


def _number(value: object, most: float) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and 0 < value <= most  # type: ignore[arg-type,operator]


def details_of(plan: Plan, report_to: str) -> dict[str, Detail]:
    """Return the details of the approval question: the recipient, the hosts, the limits, and the steps."""
    return {
        "recipient": report_to or "-",
        "hosts": tuple(Value(host, f"{count}") for host, count in plan.hosts.items()),
        "model_calls": f"{plan.calls}",
        "money": amount_text("en", "usd", plan.nano_usd) if plan.nano_usd else "-",
        "hours": f"{plan.hours:g}",
        "steps": tuple(Value(f"{number}", step) for number, step in enumerate(plan.steps, 1)),
    }


def approved_json(approved: Approved | None) -> dict[str, Any] | None:
    """Return an approved plan as JSON."""
    return None if approved is None else asdict(approved)


def approved_in(stored: object) -> Approved | None:
    """Parse a stored approved plan. Damaged data gives None, so that no plan is approved."""
    try:
        found: dict[str, Any] = dict(stored)  # type: ignore[call-overload]
        plan = dict(found.pop("plan"))
        return Approved(Plan(tuple(plan.pop("steps")), **plan), **found)
    except (TypeError, ValueError, KeyError):
        return None


class PlannedCalls(CoveringCalls):
    """Allows a session's calls that its plan covers, and parks other calls that need approval.

    `spent` returns the session's usage so far. `store` stores the plan's usage before the call runs.
    """

    def __init__(
        self,
        calls: ParkedCalls,
        approved: Approved | None,
        now: Callable[[], float],
        spent: Callable[[], Spent],
        store: Callable[[Approved | None], Awaitable[None]],
    ) -> None:
        super().__init__(calls)
        self.approved = approved
        self._now = now
        self._spent = spent
        self._store = store

    @property
    def valid(self) -> Approved | None:
        """Return the approved plan, or None if it is no longer valid."""
        approved = self.approved
        return None if approved is None or approved.lapsed(self._now(), self._spent()) else approved

    @property
    def waits(self) -> bool:
        """Return True if a proposed plan is waiting for approval."""
        return any(_proposes(parked_call) and parked_call.state == "waits" for parked_call in self.calls.all)

    async def begin(self) -> None:
        """Activate the most recently approved plan.

        If the process is killed meanwhile, the next call of this method activates the same plan.
        """
        for parked_call in self.calls.all:
            if parked_call.state != "allowed" or not _proposes(parked_call):
                continue
            plan = plan_in(json.loads(parked_call.call.removeprefix(f"{PROPOSE} ")))
            if isinstance(plan, Plan):
                until, spent = self._now() + plan.hours * 3600, self._spent()
                self.approved = Approved(plan, parked_call.number, until, spent.calls, spent.nano_usd)
                await self._store(self.approved)
            # After the plan is stored: killed between the two, the next start activates it again. In the
            # other order a kill would lose the approval.
            await self.calls.use(parked_call)

    @override
    async def take(self, call: str, question: Question) -> bool:
        """Return True if the call is a fetch that the plan still covers."""
        approved, host = self.valid, str(question.details.get("host", ""))
        if approved is None or question.action != "fetch":
            return False
        opened = counted(approved.opened, host, approved.plan.hosts.get(host, 0))
        if opened is None:
            return False
        self.approved = replace(approved, opened=opened)
        await self._store(self.approved)
        return True

    @override
    async def park(self, call: str, text: str, question: Question | None = None) -> str:
        """Store a call until a person decides on it. A new plan replaces a plan that is still waiting."""
        if call.startswith(f"{PROPOSE} "):
            await self.calls.withdraw(lambda other: other.call != call and _proposes(other))
        return await self.calls.park(call, text, question)

    async def ask_again(self, text: Callable[[Plan, Lapse], str]) -> bool:
        """If the approved plan is no longer valid, drop it and ask for approval again.

        Return False if no approved plan has become invalid. The proposal is parked again with the question
        that `text` returns, unless another proposal is already waiting.
        """
        approved = self.approved
        why = None if approved is None else approved.lapsed(self._now(), self._spent())
        if approved is None or why is None:
            return False
        call = next(
            (parked_call.call for parked_call in self.calls.all if parked_call.number == approved.number), ""
        )
        # Parked before the plan is dropped: after a kill in between, `waits` prevents a second parking.
        if call and not self.waits:
            await self.calls.park(call, text(approved.plan, why))
        self.approved = None
        await self._store(None)
        return True


def _proposes(parked: Parked) -> bool:
    return parked.call.startswith(f"{PROPOSE} ")


class ProposePlan(Tool):
    """Tool that proposes a plan. Its call is always parked; approval of the call approves the plan."""

    concurrent = False
    turn_only = True
    always_asks = True
    spec = ToolSpec(
        PROPOSE,
        "Ask the user to approve a plan once, so that its addresses ask no more. Facts, skills and other "
        "hosts still ask.",
        {
            "type": "object",
            "properties": {
                "steps": {"type": "array", "items": {"type": "string"}},
                "fetches": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "host": {"type": "string", "description": "Such as example.com"},
                            "count": {"type": "integer", "description": "How often it may be opened"},
                        },
                        "required": ["host", "count"],
                    },
                },
                "model_calls": {"type": "integer", "description": "Your estimate of all model calls"},
                "usd": {"type": "number", "description": "Your estimate of the money"},
                "hours": {"type": "number", "description": "How long the approval holds; 24 if left out"},
            },
            "required": ["steps", "model_calls"],
        },
    )

    def __init__(self, report_to: str) -> None:
        self._report_to = report_to

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return a question that lists everything the plan would allow."""
        plan = plan_in(arguments)
        return None if isinstance(plan, str) else Question(PROPOSE, details_of(plan, self._report_to))

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Return the error for an invalid plan.

        Valid plans are parked; `PlannedCalls` handles their approval.
        """
        plan = plan_in(arguments)
        if isinstance(plan, str):
            return ToolResult(False, f"{PROPOSE} {plan}")
        return ToolResult(True, "this plan is approved already")


class PlannedFetch(WebFetch):
    """The tool `web_fetch` of a session with a plan.

    URLs need approval unless the user or the plan named them.
    """

    always_asks = True

    def __init__(
        self, fetch: Callable[[str, Method, Progress], Awaitable[Page]], own: Collection[str]
    ) -> None:
        super().__init__(fetch)
        self._own = own

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return the question that asks a user to approve the fetch of the URL in `arguments`.

        Return None if the user's own messages contain that URL: then no approval is needed.
        """
        return super().question(arguments, self._own)
