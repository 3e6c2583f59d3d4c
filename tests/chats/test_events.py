"""What chats tell: every event comes through as it is, versions get along, and late subscribers catch up."""

import json
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rumi.agent.events import (
    ConfirmationAsked,
    ConfirmationEnded,
    Thinking,
    ToolFinished,
    ToolOutput,
    ToolProgress,
    ToolStarted,
    TurnFinished,
)
from rumi.agent.tool import CommandTrace, ToolResult
from rumi.chats.events import (
    KINDS,
    MOST_STEPS,
    ChatEvent,
    Happening,
    Moved,
    NotUnderstood,
    Queued,
    Replied,
    TurnRestarted,
    TurnStarted,
    TurnState,
    from_json,
    to_json,
)
from rumi.chats.hub import Hub, HubSubscription
from rumi.models.model import Discarded, TextDelta, ToolCall, Usage, Used, Waiting
from rumi.store.journal.shown import CallFigures

anything = st.text(st.characters(codec=None), max_size=20)
tuples = st.lists(anything, max_size=3).map(tuple)
numbers = st.integers(0, 2**53)
arguments = st.dictionaries(anything, st.none() | numbers | anything | st.lists(anything, max_size=2))
calls = st.builds(ToolCall, anything, anything, anything)
results = st.builds(
    ToolResult,
    st.booleans(),
    anything,
    st.none() | numbers,
    st.none() | numbers,
    st.booleans(),
    anything,
    st.none() | st.builds(CommandTrace, tuples, anything),
    st.booleans(),
    tuples,
)
counts = st.integers(0, 2**53)
figures = st.builds(CallFigures, anything, *[counts] * 6, anything, counts, counts)
verdicts = st.sampled_from(["yes", "no", "expired"])
reasons = st.sampled_from(["complete", "stopped", "crashed"])
happenings: dict[str, st.SearchStrategy[Any]] = {
    "turn_started": st.builds(
        TurnStarted, anything, numbers, st.sampled_from(["en", "es"]), st.none() | numbers, st.booleans()
    ),
    "thinking": st.builds(Thinking, numbers),
    "text": st.builds(TextDelta, anything),
    "discarded": st.builds(Discarded),
    "waiting": st.builds(Waiting, st.floats(0, 1e6), anything),
    "usage": st.builds(Used, anything, st.builds(Usage, numbers, numbers, numbers, numbers)),
    "tool_call": st.builds(ToolStarted, calls, arguments),
    "tool_progress": st.builds(ToolProgress, anything, anything, numbers),
    "tool_output": st.builds(ToolOutput, anything, anything),
    "tool_result": st.builds(ToolFinished, calls, results, numbers),
    "confirm": st.builds(ConfirmationAsked, anything, anything),
    "confirmed": st.builds(ConfirmationEnded, anything, verdicts),
    "turn_finished": st.builds(TurnFinished, reasons, anything, st.builds(Usage, numbers, numbers, numbers)),
    "turn_restarted": st.builds(
        TurnRestarted, anything, st.lists(numbers, max_size=3).map(tuple), st.none() | numbers, st.booleans()
    ),
    "queued": st.builds(Queued, numbers, anything, numbers, st.none() | numbers),
    "reply": st.builds(
        Replied, numbers, st.lists(numbers, max_size=3).map(tuple), anything, st.none() | reasons
    ),
    "model_figures": figures,
    "moved": st.builds(Moved, anything, st.booleans()),
}
events = st.builds(ChatEvent, anything, anything, st.floats(0, 1e10), st.one_of(*happenings.values()))


@given(events)
def test_every_event_comes_through_as_it_is(event: ChatEvent) -> None:
    assert from_json(json.loads(json.dumps(to_json(event)))) == event


def test_every_kind_of_event_has_a_name() -> None:
    assert set(happenings) == set(KINDS)
    assert set(KINDS.values()) == set(_members(Happening))


def _members(union: Any) -> set[type]:
    return {kind for member in union.__args__ for kind in getattr(member, "__args__", (member,))}


@given(events, st.sampled_from(["newer", "call", "result"]), anything)
def test_fields_of_a_newer_version_are_ignored(event: ChatEvent, where: str, newer: str) -> None:
    data = to_json(event)
    for part in (data, *(inner for name, inner in data.items() if name == where and isinstance(inner, dict))):
        part["field of a newer version"] = newer
    assert from_json(data) == event


@given(events)
def test_fields_with_a_default_may_be_left_out_by_an_older_version(event: ChatEvent) -> None:
    data = to_json(event)
    for dataclass_field in fields(event.what):
        if (
            dataclass_field.name in ("outside", "origin", "reason", "steps")
            and getattr(event.what, dataclass_field.name) is dataclass_field.default
        ):
            del data[dataclass_field.name]
    assert from_json(data) == event


@pytest.mark.parametrize(
    "spoilt",
    [
        {"event": "from the future"},
        {"event": None},
        {"event": ["text"]},
        {"text": None, "event": "confirm"},
        {"event": "tool_call", "call": "x"},
        {"event": "turn_finished", "usage": [1, 2, 3]},
    ],
)
def test_an_unknown_kind_and_a_missing_field_are_a_clear_error(spoilt: dict[str, object]) -> None:
    data = to_json(ChatEvent("cli", "t1", 1.5, TextDelta("hi"))) | spoilt
    with pytest.raises(NotUnderstood, match="not an event of version"):
        from_json(data)


few_calls = st.sampled_from([ToolCall("a", "bash", "{}"), ToolCall("b", "bash", "{}")])
few_messages = st.sampled_from([1, 2])
few_questions = st.sampled_from(["q", "r"])
words = st.sampled_from(["", "word ", "x" * 4095, "y" * 5000]).map(TextDelta)
steps = st.one_of(
    *(words, words, words, words),
    st.builds(TurnStarted, st.just("go"), few_messages),
    happenings["thinking"],
    happenings["discarded"],
    happenings["waiting"],
    st.builds(ToolStarted, few_calls),
    *(st.builds(ToolProgress, st.sampled_from(["a", "b"]), anything, numbers),) * 2,
    st.builds(ToolFinished, few_calls, st.just(ToolResult(True, ""))),
    st.builds(ConfirmationAsked, few_questions, st.just("may I?")),
    st.builds(ConfirmationEnded, few_questions, verdicts),
    happenings["turn_finished"],
    happenings["reply"],
    st.builds(Replied, numbers, few_messages.map(lambda message: (message,)), anything),
    st.builds(Queued, few_messages, st.just("wait"), numbers),
    happenings["moved"],
)
told = st.lists(st.tuples(st.sampled_from(["t1", "t1", "t1", "t2", ""]), steps), max_size=30)


@pytest.mark.long
@settings(max_examples=300)
@given(told, told)
async def test_a_late_subscriber_reaches_the_state_of_one_that_was_there_from_the_start(
    before: list[tuple[str, Happening]], after: list[tuple[str, Happening]]
) -> None:
    hub = Hub()
    early = hub.subscribe("c")
    hub.publish(ChatEvent("c", "t1", 0.0, TurnStarted("begin")))
    for time, (turn, what) in enumerate(before):
        hub.publish(ChatEvent("c", turn, float(time), what))
    late = hub.subscribe("c", entering=True)
    for time, (turn, what) in enumerate(after, len(before)):
        hub.publish(ChatEvent("c", turn, float(time), what))
    states = [await folded(log) for log in (early, late)]
    assert states == [hub.turns.get("c", TurnState())] * 2


async def folded(events: HubSubscription) -> TurnState:
    """What a subscriber makes of all that it was told."""
    state = TurnState()
    while events.behind:
        state = state.apply(await events.receive())
    return state


def test_a_turn_is_at_what_its_events_say() -> None:
    call = ToolCall("a", "bash", "{}")
    state, phases = TurnState(), []
    for what in (
        TurnStarted("go"), Thinking(1), TextDelta("I "), TextDelta("look"), ToolStarted(call),
        ConfirmationAsked("q", "may I?"), ConfirmationEnded("q", "yes"),
        ToolFinished(call, ToolResult(True, "")), Waiting(3, "rate limit"), Thinking(2), Discarded(),
    ):  # fmt: skip
        state = state.apply(ChatEvent("c", "t1", 0.0, what))
        phases.append(f"{state.phase} {state.words}".strip())
    assert phases == [
        "starting", "thinking", "answering I", "answering I look", "acting I look", "asking I look",
        "acting I look", "answering I look", "waiting I look", "thinking", "thinking",
    ]  # fmt: skip
    assert state.apply(ChatEvent("c", "t2", 0.0, TextDelta("of another turn"))) == state
    assert state.apply(ChatEvent("c", "t1", 0.0, Replied(1, (1,), "done"))) == TurnState()


async def test_a_late_subscriber_gets_the_last_steps_of_each_call_that_runs() -> None:
    hub = Hub()
    calls = [ToolCall(id, "research", "{}") for id in ("a", "b", "c")]
    hub.publish(ChatEvent("c", "t1", 0.0, TurnStarted("go")))
    for call in calls:
        hub.publish(ChatEvent("c", "t1", 1.0, ToolStarted(call)))
    for number in range(1, 10_001):
        hub.publish(ChatEvent("c", "t1", 2.0, ToolProgress("a", f"page {number}", number)))
    hub.publish(ChatEvent("c", "t1", 3.0, ToolProgress("b", "only one", 1)))
    hub.publish(ChatEvent("c", "t1", 3.0, ToolProgress("gone", "of no call that runs", 1)))
    state = await folded(hub.subscribe("c", entering=True))
    assert [len(state.steps.get(call.id, ())) for call in calls] == [MOST_STEPS, 1, 0]
    assert (state.step("a"), state.step("b"), state.step("c")) == ("page 10000", "only one", "")
    assert state.steps["a"][0].what.step == 10_001 - MOST_STEPS
    assert state.phase == "acting"
    ended = state.apply(ChatEvent("c", "t1", 4.0, ToolFinished(calls[0], ToolResult(True, ""), 10_000)))
    assert set(ended.steps) == {"b"}
    assert not ended.apply(ChatEvent("c", "t1", 5.0, Thinking(2))).steps


def listed(*states: str, id: str = "c1") -> ToolStarted:
    """A call of the todo tool with a step for each state."""
    items = [{"text": f"step {n}", "state": state} for n, state in enumerate(states)]
    return ToolStarted(ToolCall(id, "todo", json.dumps({"items": items})), {"items": items})


def test_the_todo_list_of_a_turn_is_kept_replaced_and_told_to_those_that_come_later() -> None:
    ran = ToolFinished(listed().call, ToolResult(True, "0/2"))
    happened: list[Happening] = [TurnStarted("go", 1), Thinking(1), listed("open", "open"), ran]
    happened += [Thinking(2), TextDelta("so")]
    happened += [listed("done", "doing", id="c2"), listed("later", id="c3"), Thinking(3)]
    state, counts = TurnState(), []
    for what in happened:
        state = state.apply(ChatEvent("cli", "t1", 1.0, what))
        counts.append([item.state for item in state.todo])
        assert not state.calls, "a list is no running call"
    assert counts == [*[[]] * 2, *[["open", "open"]] * 4, *[["done", "doing"]] * 3]
    later = TurnState()
    for event in state.catch_up("cli"):
        later = later.apply(event)
    assert later == state
    assert TurnState().apply(ChatEvent("cli", "t2", 2.0, TurnStarted("next", 2))).todo == ()


def test_a_channel_without_buttons_shows_the_commands_that_a_reply_does_not_name() -> None:
    reply = Replied(1, (2,), "⏰ tea", commands=("/snooze 10 min #2", "/snooze 1 h #2"))
    assert reply.with_commands == "⏰ tea\n\n`/snooze 10 min #2` · `/snooze 1 h #2`"
    named = Replied(1, (2,), "/schedules resume all resumes all", commands=("/schedules resume all",))
    assert named.with_commands == named.text
    assert Replied(1, (2,), "hello").with_commands == "hello"
    event = ChatEvent("cli", "", 0.0, reply)
    assert from_json(to_json(event)) == event
