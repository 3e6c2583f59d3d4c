import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rumi.errors import UsageError
from rumi.sandbox.identity import installation_id, sandbox_user


def test_an_installation_keeps_its_id(tmp_path: Path) -> None:
    first = installation_id(tmp_path / "home")
    assert len(first) == 12
    assert installation_id(tmp_path / "home") == first
    assert installation_id(tmp_path / "other") != first
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["installation"]


def test_all_who_ask_at_the_same_time_get_the_same_id(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(installation_id, [tmp_path] * 32))) == 1


def test_a_damaged_file_is_named_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "installation").write_text("what?")
    with pytest.raises(UsageError, match="twelve hexadecimal digits"):
        installation_id(tmp_path)
    assert (tmp_path / "installation").read_text() == "what?"


@pytest.mark.parametrize(
    ("ours", "theirs"), [((0, 0), (1000, 1000)), ((1001, 1002), (1001, 1002)), ((1001, 0), (1001, 1001))]
)
def test_commands_never_run_as_root(
    ours: tuple[int, int], theirs: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: ours[0])
    monkeypatch.setattr(os, "getgid", lambda: ours[1])
    assert sandbox_user() == theirs
