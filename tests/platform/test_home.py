"""RUMI_HOME: its id, its permissions, and that one process holds it."""

import grp
import os
import pwd
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rumi.errors import UsageError
from rumi.platform.home import Home, HomeLocked, UnsafeHome
from rumi.platform.texts.translation import error_text


def test_an_installation_keeps_its_id(tmp_path: Path) -> None:
    first = Home(tmp_path / "home").installation()
    assert len(first) == 12
    assert Home(tmp_path / "home").installation() == first
    assert Home(tmp_path / "other").installation() != first
    assert not list((tmp_path / "home").glob(".installation*"))


def test_all_who_ask_at_the_same_time_get_the_same_id(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: Home(tmp_path).installation(), range(32)))) == 1


def test_a_damaged_id_is_named_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "installation").write_text("what?")
    with pytest.raises(UsageError, match="twelve hexadecimal digits"):
        Home(tmp_path).installation()
    assert (tmp_path / "installation").read_text() == "what?"


def test_it_is_its_owners_alone_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        home = Home(tmp_path / "deep" / "home").make()
        home.installation()
    finally:
        os.umask(before)
    assert stat.S_IMODE((home.root / "installation").stat().st_mode) == 0o600
    for folder in (home.root, home.workspaces, home.logs, home.run):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


HOLDER = """
import sys
from pathlib import Path
from rumi.platform.home import Home
with Home(Path(sys.argv[1])).lock("a test"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_one_process_holds_it_and_a_second_is_told_who(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert home.lock_holder() == ""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    try:
        assert home.lock_holder() == f"a test (process {holder.pid})"
        with pytest.raises(HomeLocked, match=rf"a test \(process {holder.pid}\)"), home.lock("another"):
            pass
    finally:
        holder.kill()
        holder.communicate()
    assert home.lock_holder() == ""
    with home.lock("another"):
        pass


def test_a_home_that_cannot_be_used_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file where a folder should be")
    home = Home(tmp_path)
    for use in (home.make, home.lock_holder):
        with pytest.raises(UsageError, match="cannot be used") as caught:
            use()
        assert "RUMI_HOME" in caught.value.advice


def refusal(home: Home) -> str:
    with pytest.raises(UnsafeHome) as caught:
        home.refuse_if_unsafe()
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """One with a file of each kind."""
    home = Home(tmp_path / "home").make()
    home.installation()
    for name in (
        "state.db",
        "state.db-wal",
        "config.toml",
        "logs/audit.jsonl",
        "logs/audit.jsonl.1",
        "run/lock",
    ):
        (home.root / name).touch(0o600)
    assert home.refuse_if_unsafe() is False
    return home


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o720, 0o702])
def test_a_home_that_others_can_write_to_is_refused_with_what_to_do(home: Home, mode: int) -> None:
    home.root.chmod(mode)
    said = refusal(home)
    assert said.startswith(f"{home.root} can be written by others (mode {mode:o}).")
    assert said.endswith(f"chmod 700 {home.root}")
    assert stat.S_IMODE(home.root.stat().st_mode) == mode, "its user has to look at it first"


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o711])
def test_a_home_that_others_can_only_read_is_closed(home: Home, mode: int) -> None:
    home.root.chmod(mode)
    assert home.refuse_if_unsafe() is True
    assert stat.S_IMODE(home.root.stat().st_mode) == 0o700
    assert home.refuse_if_unsafe() is False


AS_ANOTHER = """
import grp, os, pwd, sys
from pathlib import Path
from rumi.platform.home import Home
home, user = Home(Path(sys.argv[1])), pwd.getpwnam(sys.argv[2])
os.setgroups([])
os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
home.root.mkdir()
home.root.chmod(0o775)
print([danger.kind for danger in home.dangers()], home.refuse_if_unsafe(), oct(home.root.stat().st_mode))
"""


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that every user can reach and write to."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


def test_a_group_with_nobody_else_in_it_is_not_others(reachable: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can become a user with such a group")
    groups: dict[int, list[pwd.struct_passwd]] = {}
    for account in pwd.getpwall():
        groups.setdefault(account.pw_gid, []).append(account)
    alone = next(
        names[0]
        for group, names in groups.items()
        if len(names) == 1 and names[0].pw_uid and not set(grp.getgrgid(group).gr_mem) - {names[0].pw_name}
    )
    words = [sys.executable, "-c", AS_ANOTHER, str(reachable / "theirs"), alone.pw_name]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout == "['readable'] True 0o40700\n"


def test_a_folder_with_other_things_in_it_is_not_closed_to_those_who_use_them(home: Home) -> None:
    (home.root / "public_html").mkdir()
    home.root.chmod(0o755)
    assert refusal(home) == f"{home.root} can be read by others (mode 755). chmod 700 {home.root}"
    assert stat.S_IMODE(home.root.stat().st_mode) == 0o755


@pytest.mark.parametrize(
    "name",
    [
        *("state.db", "state.db-wal", "memory.db", "installation", "sandbox-user", "terminal_history"),
        *("logs", "run", "workspace", "tasks", "cache", "rootfs", "logs/audit.jsonl", "logs/rumi.jsonl.1"),
        "run/lock",
    ],
)
def test_a_link_where_rumi_writes_is_refused_and_not_followed(home: Home, tmp_path: Path, name: str) -> None:
    target = tmp_path / "elsewhere"
    path = home.root / name
    if path.exists():
        path.rename(target)
    path.symlink_to(target)
    said = refusal(home)
    assert said.startswith(f"{path} is a link: what Rumi writes there would go to {target}.")
    assert f"rm {path}" in said
    assert path.is_symlink()


@pytest.mark.parametrize("name", ["config.toml", ".env", "skills", "skills-trusted.json", "prompts"])
def test_what_a_person_keeps_elsewhere_may_be_a_link_of_their_own(
    home: Home, tmp_path: Path, name: str
) -> None:
    target = tmp_path / "dotfiles"
    target.touch(0o600)
    (home.root / name).unlink(missing_ok=True)
    (home.root / name).symlink_to(target)
    assert home.dangers() == []
    if os.getuid() == 0:
        os.chown(target, 1234, 1234)
        assert "has files of another user: " + name in refusal(home)
        os.chown(target, 0, 0)
        os.chown(home.root / name, 1234, 1234, follow_symlinks=False)
        assert "has files of another user: " + name in refusal(home)


def test_a_home_may_itself_be_a_link_to_a_folder_of_ones_own(home: Home, tmp_path: Path) -> None:
    link = Home(tmp_path / "link")
    link.root.symlink_to(home.root)
    assert link.dangers() == []
    home.root.chmod(0o777)
    assert "mode 777" in refusal(link)


def test_a_home_or_a_file_in_it_that_is_another_users_is_refused(home: Home) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a file away")
    for name in ("state.db", "config.toml", "logs/audit.jsonl", "run/lock", "workspace"):
        os.chown(home.root / name, 1234, 1234)
        said = refusal(home)
        assert said.startswith(f"{home.root} has files of another user: {name}.")
        assert said.endswith(f"chown -R 0 {home.root / name}")
        os.chown(home.root / name, 0, 0)
    os.chown(home.root, 1234, 1234)
    assert refusal(home).startswith(f"{home.root} belongs to user 1234, and this is user 0")


def test_what_is_not_rumis_in_a_home_and_what_a_sandbox_tries_out_there_is_no_danger(home: Home) -> None:
    (home.root / "notes").symlink_to("/etc/hostname")
    (home.run / "probe-1").mkdir()
    if os.getuid() == 0:
        os.chown(home.run / "probe-1", 1234, 1234)
    (home.workspaces / "cli").mkdir()
    assert home.dangers() == []


def test_the_refusal_is_in_the_persons_language(home: Home) -> None:
    home.root.chmod(0o777)
    with pytest.raises(UnsafeHome) as caught:
        home.refuse_if_unsafe()
    said = error_text("es", caught.value)
    assert said.startswith("Otros pueden escribir en")
    assert "Asegúrate" in said


def test_the_lock_is_never_a_link(home: Home, tmp_path: Path) -> None:
    (home.run / "lock").unlink()
    (home.run / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises((OSError, UsageError), match="symbolic links"), home.lock("a test"):
        pass
    assert not (tmp_path / "elsewhere").exists()
