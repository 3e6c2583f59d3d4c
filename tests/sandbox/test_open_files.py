"""Files without a name, as /proc shows them to root and to an ordinary user."""

import mmap
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rumi.sandbox.open_files import Nameless, nameless
from tests.fakes.users import as_ordinary_user, become_ordinary, give

MB = 1 << 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    give(tmp_path)
    return tmp_path


@contextmanager
def process(work: Callable[[], object]) -> Iterator[int]:
    """A process of an ordinary user that has done its work and stays."""
    heard, told = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            become_ordinary()
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            os.dup2(0, 1)  # pytest's own files have no names either
            os.dup2(0, 2)
            os.closerange(3, told)
            os.closerange(told + 1, 100)
            held = work()
            os.write(told, b"x")
            signal.pause()
            del held
        finally:
            os._exit(1)
    os.close(told)
    assert os.read(heard, 1) == b"x"
    os.close(heard)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def unnamed(folder: Path) -> int:
    file = os.open(folder / "x", os.O_RDWR | os.O_CREAT)
    os.unlink(folder / "x")
    os.write(file, bytes(MB))
    return file


def mapped(folder: Path) -> mmap.mmap:
    file = unnamed(folder)
    held = mmap.mmap(file, 4096)
    os.closerange(file, file + 10)  # with the one that Python opens for itself
    return held


def counted(found: Nameless) -> tuple[int, int, bool]:
    return found.bytes // MB, found.files, found.hidden


def test_open_files_without_a_name_are_counted_for_everyone(folder: Path) -> None:
    with process(lambda: (unnamed(folder), unnamed(folder))) as pid:
        assert counted(as_ordinary_user(lambda: nameless([pid], folder))) == (2, 2, False)
        assert counted(nameless([pid, pid], folder)) == (2, 2, False)
    assert counted(nameless([pid], folder)) == (0, 0, False)


def test_files_with_a_name_and_those_elsewhere_are_not_counted(folder: Path) -> None:
    with process(lambda: (folder / "named").open("wb").write(bytes(MB))) as pid:
        assert counted(nameless([pid], folder)) == (0, 0, False)
    with process(lambda: os.write(os.memfd_create("memory"), bytes(MB))) as pid:
        assert counted(nameless([pid], folder)) == (0, 0, False)


def test_of_a_mapped_file_only_root_learns_the_size_and_others_that_it_is_there(folder: Path) -> None:
    with process(lambda: mapped(folder)) as pid:
        assert counted(as_ordinary_user(lambda: nameless([pid], folder))) == (0, 0, True)
        if os.getuid() == 0:
            assert counted(nameless([pid], folder)) == (1, 1, False)


@pytest.mark.skipif(os.getuid() != 0, reason="another user's process takes root")
def test_what_may_not_be_looked_into_hides_something_and_a_zombie_does_not(folder: Path) -> None:
    assert as_ordinary_user(lambda: nameless([1], folder)).hidden
    if (pid := os.fork()) == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert not as_ordinary_user(lambda: nameless([pid], folder)).hidden
    os.waitpid(pid, 0)
