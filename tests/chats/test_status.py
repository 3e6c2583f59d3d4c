"""Tool calls in few words, as people read them."""

import pytest

from rumi.agent.events import ToolStarted, title_of
from rumi.chats.status import gist
from rumi.models.model import ToolCall


@pytest.mark.parametrize(
    ("tool", "arguments", "title", "telling"),
    [
        ("bash", {"command": "ls", "stdin": "ñ"}, "$ ls  ← 2 B", "ls"),
        ("web_fetch", {"url": "https://x.example/", "method": "HEAD"}, "web_fetch https://x.example/ (HEAD)", "https://x.example/"),
        ("research", {"question": "Why?", "urls": ["https://x.example/"]}, "research “Why?”", "Why?"),
        ("research_repo", {"uri": "https://x.example/r", "question": "Who?"},
         "research_repo https://x.example/r “Who?”", "Who?"),
        ("remind", {"at": "tomorrow at 9", "text": "call Ana"}, "remind tomorrow at 9: call Ana", ""),
        ("remind", {"in_minutes": 20, "text": "tea"}, "remind 20 min: tea", ""),
        ("unknown", {"a": 1}, "unknown {}", ""),
    ],
)  # fmt: skip
def test_a_call_is_told_by_what_it_is_about(
    tool: str, arguments: dict[str, object], title: str, telling: str
) -> None:
    assert title_of(ToolStarted(ToolCall("c", tool, "{}"), arguments), str) == title
    assert gist(arguments) == telling
