"""Receipts: a claim is true when the program has seen it happen in this session."""

import json
import os
import time
from pathlib import Path

import pytest

from rumi.models.model import Message, ToolCall
from rumi.tasks.bots.receipts import BotClaim, check_claims, claims_in


def ran(id: str, name: str, arguments: dict[str, object], result: str) -> list[Message]:
    call = ToolCall(id, name, json.dumps(arguments))
    return [Message("assistant", "", (call,)), Message("tool", result, tool_call_id=id)]


SAID = [
    *ran("a", "bash", {"command": "make  test"}, "exit code 1 (4 ms)\noutput:\nexit code 0 (1 ms)"),
    *ran("a", "bash", {"command": "ls"}, "exit code 0 (4 ms)\n(no output)"),
    *ran("b", "web_fetch", {"url": "https://a.test/"}, "status 200 · text/html\n<page …"),
    *ran("c", "web_fetch", {"url": "https://b.test/"}, "not fetched: no answer"),
    *ran("d", "web_fetch", {"url": "https://c.test/"}, "status 404 · text/html\nstatus 200"),
]


@pytest.mark.parametrize(
    ("claim", "true"),
    [
        (BotClaim("command", "ls"), True),
        (BotClaim("command", "make test", 1), True),
        (BotClaim("test", "make test"), False),
        (BotClaim("command", "make test", 0), False),
        (BotClaim("command", "rm x"), False),
        (BotClaim("url", "https://a.test/"), True),
        (BotClaim("url", "https://b.test/"), False),
        (BotClaim("url", "https://c.test/"), False),
        (BotClaim("url", "https://d.test/"), False),
    ],
)
def test_commands_and_pages_are_looked_up_in_the_history(claim: BotClaim, true: bool, tmp_path: Path) -> None:
    (found,) = check_claims((claim,), SAID, tmp_path, 0)
    assert found.true is true


def test_the_last_run_of_a_command_counts(tmp_path: Path) -> None:
    again = [*SAID, *ran("z", "bash", {"command": "make test"}, "exit code 0 (9 ms)\n(no output)")]
    assert check_claims((BotClaim("test", "make test"),), again, tmp_path, 0)[0].true


def test_a_file_is_there_and_was_written_in_this_session(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "new.txt").write_text("new")
    os.symlink("/etc/passwd", tmp_path / "link")
    now = time.time()

    def true(path: str, since: float = now - 60) -> bool:
        return check_claims((BotClaim("file", path),), (), tmp_path, since)[0].true

    assert true("in/new.txt")
    assert true("/workspace/in/new.txt")
    assert not true("in/new.txt", now + 60)
    assert not true("in/old.txt")
    assert not true("in")
    assert not true("link")
    assert not true("../../etc/passwd")
    assert not true("a\0b")


def test_claims_are_checked_for_their_form() -> None:
    assert claims_in(None) == ()
    assert claims_in([{"kind": "file", "what": "x"}]) == (BotClaim("file", "x"),)
    for wrong in ("x", [3], [{"kind": "deed", "what": "x"}], [{"kind": "file"}], [{}] * 51):
        assert isinstance(claims_in(wrong), str)
    assert isinstance(claims_in([{"kind": "test", "what": "x", "exit_code": "0"}]), str)
