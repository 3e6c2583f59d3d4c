"""Conversations are kept within what a model takes."""

from hypothesis import given
from hypothesis import strategies as st

from rumi.agent.fitting import fit
from rumi.models import Message, ToolCall, messages_tokens


def conversation(*lengths: int) -> list[Message]:
    messages = [Message("system", "be good"), Message("user", "work")]
    for number, length in enumerate(lengths):
        messages.append(Message("assistant", "", (ToolCall(f"c{number}", "bash", "{}"),)))
        messages.append(Message("tool", "x" * length, tool_call_id=f"c{number}"))
    return messages


def test_what_fits_is_left_as_it_is() -> None:
    messages = conversation(100, 100)
    assert fit(messages, 10_000) == tuple(messages)


def test_the_oldest_results_are_shortened_first_and_no_more_than_needed() -> None:
    fitted = fit(conversation(30_000, 30_000, 3000), 15_000)
    lengths = [len(m.content) for m in fitted if m.role == "tool"]
    assert lengths[0] < 1000
    assert lengths[1:] == [30_000, 3000]
    assert "left out" in fitted[3].content


@given(st.lists(st.integers(0, 60_000), max_size=12), st.integers(3000, 50_000))
def test_every_call_keeps_a_result_and_the_size_is_kept_where_results_can_give(
    lengths: list[int], max_tokens: int
) -> None:
    messages = conversation(*lengths)
    fitted = fit(messages, max_tokens)
    assert [(m.role, m.tool_call_id) for m in fitted] == [(m.role, m.tool_call_id) for m in messages]
    assert messages_tokens(fitted) <= max(max_tokens, 12 * 300)


def test_a_block_of_strangers_words_stays_closed() -> None:
    messages = conversation(100, 100)
    block = "https://x/ answered 200\n<page>\n" + "x" * 50_000 + "\n</page>"
    messages[3] = Message("tool", block, tool_call_id="c0")
    shortened = fit(messages, 2000)[3].content
    assert len(shortened) < 1000
    assert shortened.endswith("\n</page>")
