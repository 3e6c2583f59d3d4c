"""Plans: what a bot asks to be allowed at once, and what of it is left.

A plan names its steps, hosts and how often each is opened, model calls, money and hours. It is parked like
any call that needs a yes. From the yes on, what the plan names asks no more; all else waits as before.
"""

import json
import math
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from rumi.agent.permissions.parking import ParkedCalls
from rumi.agent.tool import Progress, Question, Tool, ToolResult
from rumi.agent.tools.web_fetch import WebFetch
from rumi.chats.budgets.amounts import amount_text, nano_of
from rumi.models.model import ToolSpec
from rumi.platform.texts.questions import Detail, Value
from rumi.platform.untrusted_text import one_line
from rumi.store.journal.records import Parked, Spent
from rumi.web.messages import FetchError, Method, Page

PROPOSE: Final = "propose_plan"

Lapse: TypeAlias = Literal["expired", "calls", "money"]
"""Why a plan allows nothing any more."""

MOST_STEPS: Final = 20
MOST_HOSTS: Final = 20
MOST_FETCHES: Final = 1_000
MOST_CALLS: Final = 10_000
MOST_USD: Final = 10_000
MOST_HOURS: Final = 30 * 24
_STEP_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked for. `hosts` has how often each may be opened, `hours` is how long a yes lasts.

    `nano_usd` is 0 where the plan names no money.
    """

    steps: tuple[str, ...]
    hosts: Mapping[str, int]
    calls: int
    nano_usd: int
    hours: float


@dataclass(frozen=True, slots=True)
class Approved:
    """A plan with a yes. `until` is in seconds since 1970; `calls` and `nano_usd` are what the session had
    used before; `opened` is how often each host was opened by its allowance.
    """

    plan: Plan
    number: int
    until: float
    calls: int
    nano_usd: int
    opened: Mapping[str, int] = field(default_factory=dict)

    def calls_left(self, spent: Spent) -> int:
        """Return how many model calls it has left."""
        return self.plan.calls - (spent.calls - self.calls)

    def nano_left(self, spent: Spent) -> int | None:
        """Return how much money it has left, in billionths of a USD; None if it names none."""
        return self.plan.nano_usd - (spent.nano_usd - self.nano_usd) if self.plan.nano_usd else None

    def lapsed(self, now: float, spent: Spent) -> Lapse | None:
        """Return why the plan allows nothing any more; None while it does."""
        if now >= self.until:
            return "expired"
        if self.calls_left(spent) <= 0:
            return "calls"
        nano = self.nano_left(spent)
        return "money" if nano is not None and nano <= 0 else None

    def in_words(self, spent: Spent) -> str:
        """Return what the model reads of it."""
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
    """Return the plan of a call's arguments, or what is wrong with them."""
    from rumi.web.url import parse_target  # the parser is loaded at its first use, not at the start

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
            target = parse_target(f"https://{host}/")
        except FetchError as error:
            return f"cannot name the host {one_line(host, 80)}: {error}"
        if target.href != f"https://{target.host}/" or "*" in host:
            return f"takes exact hosts, such as example.com, not {one_line(host, 80)}"
        hosts[target.host] = int(str(count))
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
    """Return what a person judges: each thing that a yes allows, by its name, and what goes out first."""
    return {
        "recipient": report_to or "-",
        "hosts": tuple(Value(host, f"{count}") for host, count in plan.hosts.items()),
        "model_calls": f"{plan.calls}",
        "money": amount_text("usd", plan.nano_usd) if plan.nano_usd else "-",
        "hours": f"{plan.hours:g}",
        "steps": tuple(Value(f"{number}", step) for number, step in enumerate(plan.steps, 1)),
    }


def approved_json(approved: Approved | None) -> dict[str, Any] | None:
    """Return an approved plan as JSON."""
    return None if approved is None else asdict(approved)


def approved_in(stored: object) -> Approved | None:
    """Return the approved plan of a stored state; None for a damaged one, which allows nothing."""
    try:
        found: dict[str, Any] = dict(stored)  # type: ignore[call-overload]
        plan = dict(found.pop("plan"))
        return Approved(Plan(tuple(plan.pop("steps")), **plan), **found)
    except (TypeError, ValueError, KeyError):
        return None


class PlannedCalls:
    """The parking of a session with a plan: what the plan names is done, the rest is parked.

    `spent` returns what the session has used by now. `keep` stores what the plan has allowed, before it is
    done.
    """

    def __init__(
        self,
        calls: ParkedCalls,
        approved: Approved | None,
        now: Callable[[], float],
        spent: Callable[[], Spent],
        store: Callable[[Approved | None], Awaitable[None]],
    ) -> None:
        self.calls = calls
        self.approved = approved
        self._now = now
        self._spent = spent
        self._store = store

    @property
    def valid(self) -> Approved | None:
        """Return the plan, if it allows something."""
        approved = self.approved
        return None if approved is None or approved.lapsed(self._now(), self._spent()) else approved

    @property
    def waits(self) -> bool:
        """Return True if a plan waits for an answer."""
        return any(_proposes(parked_call) and parked_call.state == "waits" for parked_call in self.calls.all)

    async def begin(self) -> None:
        """Take up the last plan that has a yes; done again after a kill, it takes up the same one once."""
        for parked_call in self.calls.all:
            if parked_call.state != "allowed" or not _proposes(parked_call):
                continue
            plan = plan_in(json.loads(parked_call.call.removeprefix(f"{PROPOSE} ")))
            if isinstance(plan, Plan):
                until, spent = self._now() + plan.hours * 3600, self._spent()
                self.approved = Approved(plan, parked_call.number, until, spent.calls, spent.nano_usd)
                await self._store(self.approved)
            await self.calls.use(parked_call)

    async def allowed(self, call: str, question: Question) -> bool:
        """Return True for a call that has a yes of its own, or that the plan names and has room for."""
        if await self.calls.allowed(call, question):
            return True
        approved, host = self.valid, str(question.details.get("host", ""))
        if approved is None or question.action != "fetch":
            return False
        opened = approved.opened.get(host, 0)
        if opened >= approved.plan.hosts.get(host, 0):
            return False
        self.approved = replace(approved, opened={**approved.opened, host: opened + 1})
        await self._store(self.approved)
        return True

    async def park(self, call: str, text: str) -> str:
        """Have a call wait. A new plan stands in the place of one that waits."""
        if call.startswith(f"{PROPOSE} "):
            await self.calls.withdraw(lambda other: other.call != call and _proposes(other))
        return await self.calls.park(call, text)

    async def ask_again(self, text: Callable[[Plan, Lapse], str]) -> bool:
        """Park a plan that has lapsed once more; return False where none has. `text` returns its question."""
        approved = self.approved
        why = None if approved is None else approved.lapsed(self._now(), self._spent())
        if approved is None or why is None:
            return False
        call = next(
            (parked_call.call for parked_call in self.calls.all if parked_call.number == approved.number), ""
        )
        if call and not self.waits:
            await self.calls.park(call, text(approved.plan, why))
        self.approved = None
        await self._store(None)
        return True


def _proposes(parked: Parked) -> bool:
    return parked.call.startswith(f"{PROPOSE} ")


class ProposePlan(Tool):
    """Asks for a plan at once: the call is parked, and a yes to it is the approval."""

    concurrent = False
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
        """Return the question with all that a yes would allow."""
        plan = plan_in(arguments)
        return None if isinstance(plan, str) else Question(PROPOSE, details_of(plan, self._report_to))

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Say what is wrong; a plan without a fault is parked, and its yes is heard by the program."""
        plan = plan_in(arguments)
        if isinstance(plan, str):
            return ToolResult(False, f"{PROPOSE} {plan}")
        return ToolResult(True, "this plan is approved already")


class PlannedFetch(WebFetch):
    """`web_fetch` beside a plan: all addresses ask that are neither the user's own nor of the plan."""

    always_asks = True

    def __init__(
        self, fetch: Callable[[str, Method, Progress], Awaitable[Page]], own: Collection[str]
    ) -> None:
        super().__init__(fetch)
        self._own = own

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return a question, unless the user has given this address."""
        return super().question(arguments, self._own)
