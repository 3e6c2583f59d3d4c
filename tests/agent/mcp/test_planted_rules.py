"""The generated deeds find each rule of the gate that is loosened: planted, it must let one of them run."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pytest

from rumi.agent.mcp.messages import RemoteTool
from rumi.agent.permissions import carried, consent, declare, gate
from rumi.agent.permissions.consent import ArgumentValue, Words, plain
from rumi.agent.permissions.declare import Declaration
from rumi.agent.permissions.intent import Intent
from tests.agent.mcp.asking import Asking, bound
from tests.agent.mcp.injections import EARLIER, TASKS, attacks, tools
from tests.agent.mcp.test_injections import behind

Plant: TypeAlias = Callable[[pytest.MonkeyPatch], None]


def session_consents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words of the whole session consent, not only those of the turn's message."""
    monkeypatch.setattr(gate, "Words", lambda text: Words(f"{text}\n{EARLIER}"))


def numbers_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers and short words count as the user's choice, and a declared one needs no word beside it."""
    monkeypatch.setattr(consent, "chooses", lambda value: bool(plain(str(value))))


def actions_go_unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's words consent to whatever deed they are put into."""
    monkeypatch.setattr(gate, "action_word_in", lambda tool, message: "any")


def hints_default_to_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool whose server says nothing of destruction destroys nothing, and its deed needs no name."""
    monkeypatch.setattr(RemoteTool, "destroys", property(lambda tool: tool.destructive is True))
    actions_go_unnamed(monkeypatch)


def no_arguments_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call without a value says nothing, so it may run."""

    def all_plain(words: Words, arguments: Any, schema: Any, action_word: str = "") -> bool:
        return all(argument.is_plain for argument in consent.argument_values(arguments, schema))

    monkeypatch.setattr(Words, "consent_to_all", all_plain)
    actions_go_unnamed(monkeypatch)


def bits_are_unbounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call and a turn carry out as much as they like."""
    monkeypatch.setattr(carried, "CALL_BITS", 10_000)
    monkeypatch.setattr(carried, "TURN_BITS", 10_000)
    monkeypatch.setattr(carried, "MOST_FREE_IN_LISTS", 100)


def content_leads_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Free texts of a declared call may lead to any address."""
    monkeypatch.setattr(declare, "leads_in", lambda text: [])


def literals_are_anybodys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A declared destination need not stand in the message; other arguments are taken as content."""
    monkeypatch.setattr(Declaration, "_is_grounded", lambda declared, claims, words: True)
    monkeypatch.setattr(Declaration, "fits", _fits_by_name)


def _fits_by_name(declared: Declaration, tool: str, *_: object) -> bool:
    return tool == declared.tool


PLANTS: Final[tuple[Plant, ...]] = (
    session_consents,
    numbers_consent,
    actions_go_unnamed,
    hints_default_to_harmless,
    no_arguments_change_nothing,
    bits_are_unbounded,
    content_leads_anywhere,
    literals_are_anybodys,
)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
async def test_a_loosened_rule_lets_a_deed_run(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    known = tools()
    for task in TASKS:
        for name, arguments in attacks(task.said):
            if await behind(task, 1).runs(known[name], arguments):
                return
    raise AssertionError("the generated deeds did not find it")


async def test_calls_that_count_no_use_pay_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    pay = RemoteTool("pay", "", {"type": "object", "properties": {"account": {"type": "string"}}})
    call = {"account": "DE89370400440532013000"}

    async def runs_twice() -> bool:
        asking = Asking("Pay DE89370400440532013000")
        asking.gate._intent._declared.append(Declaration("s__pay", call))
        return all([await asking.runs(bound(pay), call) for _ in range(2)])

    assert not await runs_twice()
    monkeypatch.setattr(Intent, "note_made", lambda *_: None)
    assert await runs_twice()


async def test_a_gate_that_goes_on_after_noes_runs_what_could_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add = RemoteTool(
        "add", "", {"type": "object", "properties": {"item": {"type": "string"}}}, destructive=False
    )

    async def runs_after_noes() -> bool:
        asking = Asking("Add milk please")
        for _ in range(3):
            await asking.runs(bound(add), {"item": "something else"})
        return await asking.runs(bound(add), {"item": "milk"})

    assert not await runs_after_noes()
    monkeypatch.setattr(gate, "MOST_NOS", 100)
    assert await runs_after_noes()


def test_a_blank_argument_is_a_plain_value() -> None:
    assert ArgumentValue("   ", "text", {}).is_plain
    assert not Words("milk   and bread").consent_to("   ")
