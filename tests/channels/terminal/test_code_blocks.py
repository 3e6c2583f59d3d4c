"""The first code block of an answer, exactly as the answer has it."""

import pytest

from rumi.channels.terminal.code_blocks import FencedBlock, first_block

CODE = "a\tb  \n\n  x = 'é😀'\n" + "long " * 100 + "\n"


@pytest.mark.parametrize(
    ("answer", "block"),
    [
        (f"Here:\n\n```python\n{CODE}```\n\nand\n\n```\nother\n```", FencedBlock("python", CODE)),
        ("~~~sh -e\nls\n~~~", FencedBlock("sh", "ls\n")),
        ("````md\n```\nin it\n```\n````", FencedBlock("md", "```\nin it\n```\n")),
        ("1. do\n   ```\n   indented\n   ```", FencedBlock("", "indented\n")),
        ("```\nnever closed", FencedBlock("", "never closed")),
        ("```\n```", FencedBlock("", "")),
        ("no `code` here\n\n    an indented block\n", None),
        ("", None),
    ],
)
def test_the_first_fenced_block_is_found(answer: str, block: FencedBlock | None) -> None:
    assert first_block(answer) == block
