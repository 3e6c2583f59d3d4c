"""Conversations are kept within what a model takes, in few steps between which prompts only grow."""

from hypothesis import given
from hypothesis import strategies as st

from rumi.agent.fitting import Fitting
from rumi.models.fitting import cut_to, in_short, messages_tokens
from rumi.models.model import Message, ToolCall


def called(number: int, length: int) -> tuple[Message, Message]:
    """A call, and a result of so many characters."""
    call = Message("assistant", "", (ToolCall(f"c{number}", "bash", "{}"),))
    return call, Message("tool", "x" * length, tool_call_id=f"c{number}")


def conversation(*lengths: int) -> list[Message]:
    messages = [Message("system", "be good"), Message("user", "work")]
    for number, length in enumerate(lengths):
        messages += called(number, length)
    return messages


def test_what_fits_is_left_as_it_is() -> None:
    messages = conversation(100, 100)
    fitting = Fitting(messages)
    assert fitting.shorten_results(10_000) is None
    assert fitting.messages == messages


def test_the_oldest_results_are_shortened_first_until_there_is_room_for_a_while() -> None:
    messages = conversation(15_000, 15_000, 9000, 9000)
    fitting = Fitting(messages)
    assert fitting.shorten_results(15_000) is messages[5]
    lengths = [len(m.content) for m in fitting.messages if m.role == "tool"]
    assert max(lengths[:2]) < 600
    assert lengths[2:] == [9000, 9000]
    assert "left out" in fitting.messages[3].content
    assert fitting.shorten_results(15_000) is None


def test_results_that_the_model_has_not_seen_are_shortened_last_and_no_more_than_needed() -> None:
    messages = conversation(9000)
    messages += [Message("tool", "y" * 9000, tool_call_id="c8"), Message("tool", "z" * 9000)]
    fitting = Fitting(messages)
    assert fitting.shorten_results(7000) is messages[3]
    assert [len(m.content) for m in fitting.messages[4:]] == [9000, 9000]


@given(st.lists(st.integers(0, 60_000), max_size=12), st.integers(3000, 50_000))
def test_every_call_keeps_a_result_and_the_size_is_kept_where_results_can_give(
    lengths: list[int], max_tokens: int
) -> None:
    fitting = Fitting(conversation())
    for number, length in enumerate(lengths):
        call, result = called(number, length)
        fitting.add(call)
        fitting.add(cut_to(result, max_tokens // 4))
        fitting.shorten_results(max_tokens)
        whole = conversation(*lengths[: number + 1])
        assert [(m.role, m.tool_call_id) for m in fitting.messages] == [
            (m.role, m.tool_call_id) for m in whole
        ]
        assert messages_tokens(fitting.messages) <= max(max_tokens, 12 * 300)


@given(st.lists(st.integers(0, 30_000), min_size=30, max_size=60))
def test_prompts_only_grow_but_for_a_few_steps(lengths: list[int]) -> None:
    fitting = Fitting(conversation())
    before, steps = list(fitting.messages), 0
    for number, length in enumerate(lengths):
        for message in called(number, length):
            fitting.add(message)
        fitting.shorten_results(20_000)
        steps += fitting.messages[: len(before)] != before
        before = list(fitting.messages)
    assert steps <= sum(lengths) / 3 / (20_000 / 3) + 1


def test_what_is_shortened_already_stays_as_it_is() -> None:
    short = in_short(Message("tool", "x" * 5000 + "\n</a_very_long_block>"))
    assert len(short.content) < 700
    assert short.content.endswith("\n</a_very_long_block>")
    assert in_short(short) is short
    assert in_short(said := Message("user", "x" * 5000)) is said
