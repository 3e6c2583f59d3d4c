"""The first code block of an answer, exactly as the answer has it."""

import pytest

from rumi.channels.terminal.code_blocks import CodeBlock, first_block

CODE = "a\tb  \n\n  x = 'é😀'\n" + "long " * 100 + "\n"


@pytest.mark.parametrize(
    ("answer", "block"),
    [
        (f"Here:\n\n```python\n{CODE}```\n\nand\n\n```\nother\n```", CodeBlock("python", CODE)),
        ("~~~sh -e\nls\n~~~", CodeBlock("sh", "ls\n")),
        ("````md\n```\nin it\n```\n````", CodeBlock("md", "```\nin it\n```\n")),
        ("1. do\n   ```\n   indented\n   ```", CodeBlock("", "indented\n")),
        ("```\nnever closed", CodeBlock("", "never closed")),
        ("```\n```", CodeBlock("", "")),
        ("no `code` here\n\n    an indented block\n", None),
        ("", None),
    ],
)
def test_the_first_fenced_block_is_found(answer: str, block: CodeBlock | None) -> None:
    assert first_block(answer) == block
