"""Calls in texts: the recordings have the formats; here are the limits, and what is never a call."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rumi.models.dialects.call_parts import CallParts, joined
from rumi.models.dialects.events import BadStreamError
from rumi.models.dialects.text_calls import MAX_CALL_CHARS, calls_in_text
from rumi.models.model import ToolSpec

BASH = ToolSpec(
    "bash",
    "Runs",
    {
        "type": "object",
        "properties": {"command": {"type": "string"}, "n": {"type": "integer"}},
        "required": ["command"],
    },
)
CALL = '{"name": "bash", "arguments": {"command": "ls"}}'
MARKS = [
    "<tool_call>",
    "</tool_call>",
    "[TOOL_CALLS]",
    "<function=bash>",
    "<|python_tag|>",
    CALL,
    "bash",
    "```",
    "\n",
]
WORDS = ["This ", "is how ", "to call a tool: ", "`", "> ", "- ", "Done."]


@given(st.lists(st.sampled_from([*MARKS, *WORDS]), max_size=12))
def test_a_text_that_ends_with_words_is_never_a_call(parts: list[str]) -> None:
    text = "".join(parts) + " That is all."
    assert calls_in_text(text, (BASH,), bare=True) == (text, ())


@given(st.lists(st.sampled_from([*MARKS, *WORDS]), max_size=12))
def test_a_text_in_a_fence_with_words_is_never_a_call(parts: list[str]) -> None:
    inside = "".join(parts).replace("```", "")
    text = f"For example:\n```\n{inside}\n```"
    assert calls_in_text(text, (BASH,), bare=True) == (text, ())


@given(st.text(alphabet='<>{}[]|=/"\\:, \nabTOL_CS1()`', max_size=300))
def test_whatever_it_is_nothing_is_raised(text: str) -> None:
    calls_in_text(text, (BASH,), bare=True)
    calls_in_text(f"<tool_call>{text}", (BASH,), bare=True)
    joined([text[:9], text[9:]])


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>\n" * 200_000,
        "<tool_call>" + "[" * 150_000,
        "<tool_call>{'a': " * 10_000,
        "<function=bash>" + "<parameter=command>" * 9_000,
        "<tool_call>bash" + " " * 150_000,
        "<tool_call>bash<arg_key>" * 8_000,
        "[TOOL_CALLS]" + "bash(" * 30_000,
        "{" * MAX_CALL_CHARS,
        " " * 10**6 + "x",
        "<tool_call>" + CALL * 3_000,
        "<think>" * 100_000,
    ],
    ids=lambda text: text[:24],
)
def test_what_is_long_and_deep_is_bounded(text: str) -> None:
    assert calls_in_text(text, (BASH,), bare=True) == (text, ())


def test_parameters_have_the_types_of_the_schema() -> None:
    text = "<function=bash><parameter=command>5</parameter><parameter=n>7</parameter></function>"
    ((call,),) = [calls_in_text(text, (BASH,), bare=False)[1]]
    assert json.loads(call.arguments) == {"command": "5", "n": 7}


def test_a_reply_with_too_many_calls_is_refused() -> None:
    parts = CallParts()
    with pytest.raises(BadStreamError, match="too many"):
        for number in range(1000):
            parts.add({"index": number, "id": str(number), "function": {"name": "bash", "arguments": "{}"}})


@pytest.mark.parametrize(
    "before",
    [
        "For example:\n",
        "The format of Hermes looks like this:\n\n",
        "El formato es **así**:\n",
        "Here is the syntax:\n\n    ",
        "<pre>\n",
        '<code class="xml">\n',
        "Qwen models write:\n\n    ",
    ],
)
def test_a_call_that_is_announced_as_an_example_stays_text(before: str) -> None:
    text = f"{before}<tool_call>{CALL}</tool_call>"
    assert calls_in_text(text, (BASH,), bare=True) == (text, ())


@pytest.mark.parametrize("before", ["", "I look at the files:\n", "One moment.\n\n", "\n    "])
def test_a_call_that_is_announced_as_work_is_a_call(before: str) -> None:
    text, calls = calls_in_text(f"{before}<tool_call>{CALL}</tool_call>", (BASH,), bare=False)
    assert [text, calls[0].name] == [before.rstrip(), "bash"]


@pytest.mark.parametrize(
    "text",
    [
        '{"function_call": {"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"}}',
        f'{{"tool_call": {CALL}}}',
        f'{{"tool_calls": [{CALL}]}}',
        f"<tool_call>{CALL}}}</tool_call>",  # a bracket too many
        f"<TOOLCALL>[{CALL}]</TOOLCALL>",  # Nemotron
    ],
)
def test_a_call_in_an_object_or_with_marks_in_capitals_is_read(text: str) -> None:
    _, calls = calls_in_text(text, (BASH,), bare=True)
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [("bash", {"command": "ls"})]


def test_a_list_of_tools_is_not_a_list_of_calls() -> None:
    spec = json.dumps({"type": "function", "function": {"name": BASH.name, "parameters": BASH.parameters}})
    text = f"<tools>\n{spec}\n</tools>"
    assert calls_in_text(text, (BASH,), bare=True) == (text, ())


@pytest.mark.parametrize(
    ("pieces", "read"),
    [
        (['{"command": "a\nb"}'], {"command": "a\nb"}),  # a line break that is not escaped
        (['{"command": "a', '\tb"}'], {"command": "a\tb"}),
        (["null"], {}),
        (['""'], {}),
        (["[]"], {}),
        (["nu", "ll"], {}),
    ],
)
def test_arguments_become_strict_json(pieces: list[str], read: dict[str, str]) -> None:
    assert json.loads(joined(pieces)) == read
