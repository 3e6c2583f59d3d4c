"""What an undo says of a turn's calls: those without effects outside of the chat's files are not named."""

from rumi.agent.tool_names import BASH_TOOLS, FILE_TOOLS
from rumi.chats.undoing import TAKEN_BACK


def test_an_undo_names_no_tool_whose_effects_it_takes_back() -> None:
    assert {*BASH_TOOLS, *FILE_TOOLS} <= TAKEN_BACK
    assert not {"web_fetch", "send_file", "delegate", "use_skill"} & TAKEN_BACK
