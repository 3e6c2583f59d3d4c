"""Who the commands of the sandboxes run as."""

import grp
import os
import pwd
from pathlib import Path

import pytest

from rumi.sandbox import identity
from rumi.sandbox.engine import SandboxError
from rumi.sandbox.identity import RECORD, former_users, sandbox_user

ME = "0123456789ab"


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without accounts beside the real ones; its /proc/self and /etc are in the folder."""
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr(identity, "_PROC", tmp_path)
    monkeypatch.setattr(identity, "_ETC", tmp_path)
    return tmp_path


def mapped(machine: Path, uids: str, gids: str) -> None:
    (machine / "uid_map").write_text(uids)
    (machine / "gid_map").write_text(gids)


@pytest.mark.parametrize(("ours", "theirs"), [((1001, 1002), (1001, 1002)), ((1001, 0), (1001, 1001))])
def test_an_ordinary_users_commands_run_as_that_user_and_never_as_roots_group(
    ours: tuple[int, int], theirs: tuple[int, int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: ours[0])
    monkeypatch.setattr(os, "getgid", lambda: ours[1])
    assert sandbox_user(ME, tmp_path / "home") == theirs
    assert not (tmp_path / "home").exists()


def test_roots_commands_run_as_a_number_that_no_account_has(as_root: Path) -> None:
    uid, gid = sandbox_user(ME, as_root / "home")
    assert uid == gid
    assert 0x70000000 <= uid < 0x7FFE0000
    with pytest.raises(KeyError):
        pwd.getpwuid(uid)
    with pytest.raises(KeyError):
        grp.getgrgid(gid)
    assert (as_root / "home" / RECORD).read_text() == f"{uid}\n"
    assert (as_root / "home" / RECORD).stat().st_mode & 0o777 == 0o600
    assert sandbox_user(ME, as_root / "home") == (uid, gid)
    assert sandbox_user("ba9876543210", as_root / "other")[0] != uid, "each installation has its own"


def test_a_number_that_an_account_has_taken_since_is_replaced(
    as_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = as_root / "home"
    first, _ = sandbox_user(ME, home)
    users, groups = pwd.getpwuid, grp.getgrgid
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: users(0 if uid == first else uid))
    second, _ = sandbox_user(ME, home)
    assert second != first
    assert former_users(home) == {first}
    monkeypatch.setattr(grp, "getgrgid", lambda gid: groups(0 if gid == second else gid))
    third, _ = sandbox_user(ME, home)
    assert third not in (first, second)
    assert former_users(home) == {first, second}
    assert sandbox_user(ME, home)[0] == third


@pytest.mark.parametrize("name", ["subuid", "subgid"])
def test_numbers_that_accounts_may_use_in_namespaces_are_left_to_them(as_root: Path, name: str) -> None:
    first, _ = sandbox_user(ME)
    (as_root / name).write_text(f"# none\nalice:{first - 10}:65536\nbob:damaged\n\n")
    second, _ = sandbox_user(ME)
    assert not first - 10 <= second < first - 10 + 65536


def test_the_number_is_one_that_the_namespace_of_root_has(as_root: Path) -> None:
    mapped(as_root, "0 1000 1\n1 100000 65535\n", "0 1000 1\n1 100000 60700\n")
    for installation in (f"{number:012x}" for number in range(50)):
        uid, _ = sandbox_user(installation)
        assert 60578 <= uid <= 60700
    mapped(as_root, "0 1000 1\n", "0 1000 1\n")
    with pytest.raises(SandboxError, match="no other user id"):
        sandbox_user(ME)


@pytest.mark.parametrize("number", [0, 65534, 65535, 2**31 - 1, 2**32 - 1])
def test_special_numbers_are_refused_also_where_they_are_recorded(as_root: Path, number: int) -> None:
    home = as_root / "home"
    home.mkdir()
    (home / RECORD).write_text(f"{number}\n")
    assert sandbox_user(ME, home) == sandbox_user(ME)


def test_a_damaged_record_and_one_that_cannot_be_written_change_nothing(as_root: Path) -> None:
    expected = sandbox_user(ME)
    home = as_root / "home"
    home.mkdir()
    (home / RECORD).write_bytes(b"\xff what?")
    assert sandbox_user(ME, home) == expected
    assert (home / RECORD).read_text() == f"{expected[0]}\n"
    assert sandbox_user(ME, Path("/proc/nowhere")) == expected
