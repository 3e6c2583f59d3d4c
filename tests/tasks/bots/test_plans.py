"""Plans: what can be asked for, what a yes allows, and when it allows nothing any more."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
import trio

from rumi.agent.permissions.parking import ParkedCalls
from rumi.agent.tool import Question
from rumi.platform.texts.questions import Value
from rumi.store.journal.records import Parked, Spent
from rumi.tasks.bots.plans import (
    PROPOSE,
    Approved,
    Lapse,
    Plan,
    PlannedCalls,
    ProposePlan,
    approved_in,
    approved_json,
    plan_in,
)

ARGUMENTS = {
    "steps": ["Read the page", "Write a summary"],
    "fetches": [{"host": "a.example", "count": 2}],
    "model_calls": 10,
    "usd": 0.5,
    "hours": 2,
}
CALL = f"{PROPOSE} {json.dumps(ARGUMENTS, sort_keys=True)}"


class World:
    """A clock, what is spent, and what is kept."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.spent = Spent(calls=3, nano_usd=1_000_000)
        self.parked: dict[int, Parked] = {}
        self.plan: Approved | None = None

    def planned(self) -> PlannedCalls:
        """The session as the next iteration, or the next process, finds it."""

        async def store(parked: Sequence[Parked]) -> None:
            await trio.lowlevel.checkpoint()
            self.parked |= {parked_call.number: parked_call for parked_call in parked}

        async def store_plan(plan: Approved | None) -> None:
            await trio.lowlevel.checkpoint()
            self.plan = approved_in(json.loads(json.dumps(approved_json(plan))))

        self.parked = {
            number: replace(parked_call, asked=True) for number, parked_call in self.parked.items()
        }
        calls = ParkedCalls(tuple(self.parked.values()), store)
        return PlannedCalls(calls, self.plan, lambda: self.now, lambda: self.spent, store_plan)

    async def approved(self) -> PlannedCalls:
        """The session after a yes to its plan."""
        await self.planned().park(CALL, "May I?")
        planned = self.planned()
        await planned.calls.hear(("yes 1",))
        await planned.begin()
        return planned


def opens(host: str, path: str = "") -> tuple[str, Question]:
    url = f"https://{host}/{path}"
    return f'web_fetch {{"url": "{url}"}}', Question("fetch", {"url": url, "host": host})


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"steps": []}, "`steps`"),
        ({"steps": "all"}, "`steps`"),
        ({"steps": [" "]}, "`steps`"),
        ({"steps": ["x" * 201]}, "at most 200 characters"),  # what people read is what is approved
        ({"fetches": [{"host": "a.example"}]}, "`count`"),
        ({"fetches": [{"host": "a.example", "count": 0}]}, "`count`"),
        ({"fetches": [{"host": "a.example", "count": True}]}, "`count`"),
        ({"fetches": [{"host": "*.example", "count": 1}]}, "exact hosts"),
        ({"fetches": [{"host": "a.example/steal", "count": 1}]}, "exact hosts"),
        ({"fetches": [{"host": "a.example@b.example", "count": 1}]}, "host"),
        ({"model_calls": None}, "`model_calls`"),
        ({"model_calls": 0}, "`model_calls`"),
        ({"model_calls": 1.5}, "`model_calls`"),
        ({"usd": -1}, "`usd`"),
        ({"usd": float("nan")}, "`usd`"),
        ({"hours": 10_000}, "`hours`"),
    ],
)
async def test_a_plan_with_a_fault_is_not_asked_and_says_what_is_wrong(
    change: dict[str, object], wrong: str
) -> None:
    arguments = {**ARGUMENTS, **change}
    assert wrong in str(plan_in(arguments))
    assert ProposePlan("cli").question(arguments, ()) is None
    result = await ProposePlan("cli").call(arguments)
    assert not result.ok
    assert wrong in result.content


def test_the_question_names_all_that_a_yes_allows() -> None:
    question = ProposePlan("tg5").question(ARGUMENTS, ())
    assert question is not None
    assert question.details == {
        "recipient": "tg5",
        "hosts": (Value("a.example", "2"),),
        "model_calls": "10",
        "money": "0.50 USD",
        "hours": "2",
        "steps": (Value("1", "Read the page"), Value("2", "Write a summary")),
    }


async def test_nothing_is_allowed_before_the_yes_and_only_what_it_names_after() -> None:
    world = World()
    await world.planned().park(CALL, "May I?")
    before = world.planned()
    await before.begin()
    assert not await before.allowed(*opens("a.example"))
    await before.calls.hear(("yes 1",))
    await before.begin()
    assert await before.allowed(*opens("a.example", "one"))
    assert not await before.allowed(*opens("b.example"))
    assert not await before.allowed(*opens("c.a.example"))
    assert not await before.allowed('remember {"key": "x"}', Question("remember", {"host": "a.example"}))
    after_a_kill = world.planned()
    await after_a_kill.begin()
    assert await after_a_kill.allowed(*opens("a.example", "two"))
    assert not await after_a_kill.allowed(*opens("a.example", "three")), "the count is stored"


async def test_a_yes_whose_use_a_kill_cut_short_begins_its_plan_once() -> None:
    world = World()
    await world.planned().park(CALL, "May I?")
    await world.planned().calls.hear(("yes 1",))  # and killed before the plan was taken up
    await world.planned().begin()
    assert world.plan is not None
    assert world.parked[1].state == "used"
    assert await world.planned().allowed(*opens("a.example"))
    again = world.planned()
    await again.begin()
    assert again.approved is not None
    assert again.approved.opened == {"a.example": 1}


@pytest.mark.parametrize(
    ("later", "spent", "why"),
    [
        (7199.0, Spent(calls=12, nano_usd=400_000_000), None),
        (7200.0, Spent(calls=3), "expired"),
        (0.0, Spent(calls=13), "calls"),
        (0.0, Spent(calls=4, nano_usd=501_000_000), "money"),
    ],
)
async def test_what_is_used_up_or_past_allows_nothing_and_is_asked_again(
    later: float, spent: Spent, why: Lapse | None
) -> None:
    world = World()
    planned = await world.approved()
    world.now += later
    world.spent = spent
    assert await planned.allowed(*opens("a.example")) is (why is None)
    told: list[Lapse] = []

    def text(plan: Plan, lapse: Lapse) -> str:
        told.append(lapse)
        return "Once more?"

    assert await planned.ask_again(text) is (why is not None)
    assert told == ([] if why is None else [why])
    assert [call for _, call in planned.calls.to_ask()] == ([] if why is None else ["Once more?"])
    assert not await planned.ask_again(text), "it is asked once"
    if why is not None:
        again = world.planned()
        await again.calls.hear(("yes 2",))
        await again.begin()
        assert again.valid is not None
        assert again.valid.number == 2
        assert await again.allowed(*opens("a.example"))


async def test_a_changed_plan_stands_in_the_place_of_the_one_that_waits() -> None:
    world = World()
    await world.planned().park(CALL, "May I?")
    changed = CALL.replace("a.example", "b.example")
    await world.planned().park(changed, "May I?")
    planned = world.planned()
    assert planned.waits
    await planned.calls.hear(("yes 1",))
    await planned.begin()
    assert planned.valid is None, "the first one waits no more"
    await planned.calls.hear(("yes 2",))
    await planned.begin()
    assert await planned.allowed(*opens("b.example"))
    assert not await planned.allowed(*opens("a.example"))


@pytest.mark.parametrize("kept", [None, 3, "x", {}, {"plan": {}}, {"plan": {"steps": []}, "number": 1}])
def test_a_damaged_plan_allows_nothing(kept: object) -> None:
    assert approved_in(kept) is None
