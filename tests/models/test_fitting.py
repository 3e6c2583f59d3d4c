"""Requests are kept within what a model takes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rumi.models.fitting import SHORT_CHARS, cut_to, fitted, messages_tokens, request_tokens
from rumi.models.model import Message, ModelRequest, ToolCall, ToolSpec, text_tokens


def fit(messages: list[Message], max_tokens: int) -> tuple[Message, ...]:
    return fitted(ModelRequest(tuple(messages)), max_tokens).messages


def conversation(*lengths: int) -> list[Message]:
    messages = [Message("system", "be good"), Message("user", "work")]
    for number, length in enumerate(lengths):
        messages.append(Message("assistant", "", (ToolCall(f"c{number}", "bash", "{}"),)))
        messages.append(Message("tool", "x" * length, tool_call_id=f"c{number}"))
    return messages


def test_what_fits_is_left_as_it_is() -> None:
    messages = conversation(100, 100)
    assert fit(messages, 10_000) == tuple(messages)


def test_nothing_is_cut_for_a_model_of_which_nothing_is_known() -> None:
    request = ModelRequest(tuple(conversation(10**6)))
    assert fitted(request, None) is request


def test_tools_take_room_too() -> None:
    tool = ToolSpec("bash", "x" * 30_000, {})
    request = ModelRequest(tuple(conversation(3000)), (tool,))
    assert fitted(request, 20_000) is request
    assert len(fitted(request, 10_500).messages[3].content) < 3000


def test_the_oldest_results_are_shortened_first_and_no_more_than_needed() -> None:
    fitted = fit(conversation(30_000, 30_000, 3000), 15_000)
    lengths = [len(m.content) for m in fitted if m.role == "tool"]
    assert lengths[0] < 1000
    assert lengths[1:] == [30_000, 3000]
    assert "left out" in fitted[3].content


def test_the_latest_result_is_cut_to_the_room_that_is_left() -> None:
    fitted = fit(conversation(30_000, 50_000), 6000)
    assert messages_tokens(fitted) <= 6000
    assert messages_tokens(fitted) > 5500
    assert len(fitted[-1].content) > 15_000


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


def exchanges(*lengths: int) -> list[Message]:
    messages = [Message("system", "be good")]
    for number, length in enumerate(lengths):
        messages += [Message("user", f"question {number}"), Message("assistant", "y" * length)]
    return [*messages, Message("user", "and now?")]


def test_the_oldest_exchanges_are_left_out_whole() -> None:
    fitted = fit(exchanges(6000, 6000, 6000), 4500)
    assert [m.content for m in fitted if m.role == "user"] == ["question 1", "question 2", "and now?"]
    assert fitted[0].role == "system"
    assert messages_tokens(fitted) <= 4500


def test_earlier_exchanges_make_room_before_the_latest_result_is_cut() -> None:
    turn = conversation(12_000)[1:]
    fitted = fit([*exchanges(6000, 6000, 6000)[:-1], *turn], 5000)
    assert len(fitted[-1].content) == 12_000
    assert messages_tokens(fitted) <= 5000


def test_what_a_user_sent_together_stays_together() -> None:
    sent = [Message("user", "a file"), Message("user", "x" * 3000), Message("user", "what is in it?")]
    fitted = fit([*exchanges(6000)[:-1], *sent], 1500)
    assert list(fitted[1:]) == sent


def test_a_long_question_loses_its_middle_and_instructions_lose_nothing() -> None:
    question = Message("user", f"FIRST {'x' * 60_000} LAST")
    fitted = fit([Message("system", "s" * 3000), question], 5000)
    assert fitted[0].content == "s" * 3000
    assert fitted[1].content.startswith("FIRST")
    assert fitted[1].content.endswith("LAST")
    assert "characters left out" in fitted[1].content
    assert messages_tokens(fitted) <= 5000


@pytest.mark.parametrize("before", ["", "my own words " * 4000])
def test_strangers_words_stay_marked_where_the_middle_with_the_mark_is_left_out(before: str) -> None:
    text = f'{before}\n<page source="x">\n{"evil " * 9000}\n</page>'
    content = fit([Message("user", text)], 3000)[0].content
    head, tail = content.split(" characters left out")
    assert text_tokens(content) < 3000
    assert content.endswith("\n</page>")
    assert '<page source="x">' in (tail if before else head)


def test_long_arguments_of_calls_that_were_made_are_cut_and_stay_json() -> None:
    messages = conversation(10)
    written = json.dumps({"command": "tee a", "stdin": "z" * 30_000})
    messages[2] = Message("assistant", "", (ToolCall("c0", "bash", written),))
    (call,) = fit(messages, 2000)[2].tool_calls
    assert json.loads(call.arguments) == {"command": "tee a", "stdin": "z" * SHORT_CHARS + "…"}


def test_thoughts_before_the_latest_call_go_first() -> None:
    messages = conversation(3000, 3000)
    for place in (2, 4):
        call = messages[place]
        messages[place] = Message(call.role, "", call.tool_calls, reasoning="hm " * 2000)
    fitted = fit(messages, 4500)
    assert [bool(m.reasoning) for m in fitted if m.tool_calls] == [False, True]
    assert [len(m.content) for m in fitted if m.role == "tool"] == [3000, 3000]


@given(
    st.lists(st.sampled_from(["user", "assistant", "calls", "system"]), max_size=20),
    st.integers(0, 20_000),
    st.integers(0, 5000),
)
def test_every_conversation_stays_one_that_servers_take(kinds: list[str], size: int, most: int) -> None:
    messages = [Message("system", "be good")]
    for number, kind in enumerate([*kinds, "user"]):
        if kind == "calls":
            messages.append(Message("assistant", "", (ToolCall(f"c{number}", "bash", "{}"),)))
            messages.append(Message("tool", "x" * size, tool_call_id=f"c{number}"))
        else:
            role = "assistant" if kind == "assistant" else "user" if kind == "user" else "system"
            messages.append(Message(role, f"{number} {'y' * size}"))  # type: ignore[arg-type]
    request = ModelRequest(tuple(messages))
    smaller = fitted(request, most)
    assert request_tokens(smaller) <= request_tokens(request)
    calls = [call.id for m in smaller.messages for call in m.tool_calls]
    assert [m.tool_call_id for m in smaller.messages if m.role == "tool"] == calls
    assert smaller.messages[0] == messages[0]
    assert smaller.messages[-1].content.startswith(f"{len(kinds)} ")


@pytest.mark.parametrize("text", ["a" * 9000, "ñandú " * 2000, "日本" * 3000])
def test_a_result_is_cut_to_so_many_tokens_in_any_alphabet(text: str) -> None:
    result = cut_to(Message("tool", text, tool_call_id="c"), 1000)
    assert 900 < text_tokens(result.content) <= 1000
    assert cut_to(Message("tool", text[:1500]), 1500).content == text[:1500]
    assert len(cut_to(Message("tool", text), -5).content) < SHORT_CHARS + 150
