"""Control calls that a command answers itself, on a home that no process has locked."""

from pathlib import Path

import pytest

from rumi.cli.at_rest import answer_at_rest
from rumi.errors import UsageError
from rumi.platform.home import Home, HomeLocked

LOOKS = {
    "bots": ("list", []),
    "chats": ("list", []),
    "memory": ("list", {"facts": [], "all": 0}),
    "recall": ("recall", []),
    "schedules": ("list", []),
    "tasks": ("list", []),
}


@pytest.mark.parametrize("call", LOOKS)
async def test_each_call_is_answered_from_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    monkeypatch.setenv("RUMI_HOME", str(tmp_path / "home"))
    home, (do, answer) = Home(tmp_path / "home").make(), LOOKS[call]
    assert await answer_at_rest(home, call, {"do": do, "query": "heron"}) == answer
    with pytest.raises(UsageError, match="needs the field query" if call == "recall" else "does not know"):
        await answer_at_rest(home, call, {"do": "dance"})


async def test_usage_is_answered_from_the_files_too(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").make()
    found = await answer_at_rest(home, "usage", {"by": "day", "first": None})
    assert isinstance(found, dict)
    assert (found["by"], found["rows"]) == ("day", [])


async def test_a_home_that_a_process_has_locked_is_left_alone(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").make()
    with home.lock("a test"), pytest.raises(HomeLocked, match="a test"):
        await answer_at_rest(home, "schedules", {"do": "list"})
