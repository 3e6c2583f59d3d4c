"""Whether a message names what a tool does."""

import pytest

from rumi.agent.permissions.action_words import action_word_in


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        ("git__git_create_branch", "Make the branch boiler"),
        ("lists__addItem", "Agregá leche a Groceries"),
        ("mail__send_message", "Please send Ana the minutes"),
        ("notes__update_note", "Editing it is fine"),
        ("odd__frobnicate_file", "Frobnicate it"),
    ],
)
def test_a_message_names_the_deed_in_its_own_words(tool: str, message: str) -> None:
    assert action_word_in(tool, message)


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        ("drive__share_file", "Read the file report.pdf"),
        ("lists__add_item", "What is at this address?"),
        ("mail__send_message", "Which messages came?"),
        ("odd__frobnicate_file", "Read the file"),
        ("odd__file", "Read the file"),
        ("", "Read the file"),
    ],
)
def test_a_message_that_only_reads_names_no_deed(tool: str, message: str) -> None:
    assert not action_word_in(tool, message)
