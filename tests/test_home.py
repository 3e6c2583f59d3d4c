"""RUMI_HOME: its id, its permissions, and that one process holds it."""

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rumi.errors import UsageError
from rumi.home import Home, HomeHeld


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
from rumi.home import Home
with Home(Path(sys.argv[1])).hold("a test"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_one_process_holds_it_and_a_second_is_told_who(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert home.holder() == ""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    try:
        assert home.holder() == f"a test (process {holder.pid})"
        with pytest.raises(HomeHeld, match=rf"a test \(process {holder.pid}\)"), home.hold("another"):
            pass
    finally:
        holder.kill()
        holder.communicate()
    assert home.holder() == ""
    with home.hold("another"):
        pass


def test_a_home_that_cannot_be_used_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file where a folder should be")
    home = Home(tmp_path)
    for use in (home.make, home.holder):
        with pytest.raises(UsageError, match="cannot be used") as caught:
            use()
        assert "RUMI_HOME" in caught.value.advice
