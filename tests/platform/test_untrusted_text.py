"""Blocks of words from outside: what goes in comes out, and nothing else passes for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rumi.platform.untrusted_text import CLOSING, WARNING, harmless, one_line, read_block, untrusted_block


@given(source=st.text(), text=st.text())
def test_what_a_block_holds_can_be_read_again(source: str, text: str) -> None:
    assert read_block(f"[In front.]\n{untrusted_block(source, text)}") == (
        one_line(source),
        harmless(text).strip(),
    )


@given(text=st.text())
def test_a_block_in_a_block_is_text(text: str) -> None:
    found = read_block(untrusted_block("outer", f"{text}\n{untrusted_block('inner', text)}"))
    assert found is not None
    assert found[0] == "outer"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        f"<page>\n{CLOSING}",
        WARNING,
        f"{untrusted_block('x', 'y')} and more",
        f"{WARNING}\n{CLOSING}",
    ],
)
def test_other_texts_are_no_blocks(text: str) -> None:
    assert read_block(text) is None
