from hypothesis import given
from hypothesis import strategies as st

from rumi.models.fitting import messages_tokens, request_tokens
from rumi.models.model import Message, ModelRequest, ToolCall, ToolSpec, text_tokens

SPANISH = (
    "Rumi es un asistente personal que vive en un servidor y hace trabajo de verdad en una caja de arena."
)


def test_plain_text_is_counted_at_more_than_a_token_a_word_and_at_fewer_than_three() -> None:
    words = len(SPANISH.split())
    assert 1.3 * words <= text_tokens(SPANISH) <= 3 * words


def test_no_text_is_no_tokens_and_odd_text_is_no_error() -> None:
    assert text_tokens("") == 0
    assert text_tokens("\udcff") > 0
    assert text_tokens("日本語") == 3


def test_calls_and_tools_count() -> None:
    call = ToolCall("c", "bash", '{"command": "ls"}')
    message = Message("assistant", "", (call,))
    tool = ToolSpec("bash", "Runs a command", {"type": "object"})
    assert message.tokens > Message("assistant").tokens
    assert request_tokens(ModelRequest((message,), (tool,))) > messages_tokens([message])


@given(st.text(), st.text())
def test_joining_texts_never_costs_more_than_apart(first: str, second: str) -> None:
    assert text_tokens(first + second) <= text_tokens(first) + text_tokens(second)
