"""The tests of a folder for workspaces on a disk of the network: each finds what it looks for."""

import fcntl
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rumi.sandbox.shared import faults

USER = (54321, 54321) if os.geteuid() == 0 else (os.getuid(), os.getgid())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "files"
    path.mkdir(mode=0o700)
    return path


def found(folder: Path) -> list[str]:
    return [fault.found for fault in faults(folder, USER, 0)]


def test_an_ordinary_folder_has_no_fault_and_nothing_is_left_in_it(folder: Path) -> None:
    assert found(folder) == []
    assert list(folder.iterdir()) == []


def test_a_folder_that_is_not_there_or_not_our_own_is_named_with_what_to_do(
    folder: Path, tmp_path: Path
) -> None:
    (missing,) = faults(tmp_path / "none", USER)
    assert missing.found == f"{tmp_path / 'none'} is not there: No such file or directory."
    (tmp_path / "link").symlink_to(folder)
    assert found(tmp_path / "link") == [f"{tmp_path / 'link'} is not a folder."]
    folder.chmod(0o755)
    (opened,) = faults(folder, USER)
    assert opened.found == f"{folder} is open to other users (mode 755)."
    assert opened.fix == f"chmod 700 {folder}"
    folder.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(folder, 1234, 1234)
        assert found(folder) == [f"{folder} belongs to user 1234, and this is user 0."]


def not_at_once(source: Path, target: Path) -> None:
    target.unlink()
    time.sleep(0.02)  # so that a busy machine sees it too
    shutil.copy(source, target)
    source.unlink()


def refuse(*_: object, **__: object) -> None:
    raise OSError(38, "not supported")


def do_nothing(*_: object, **__: object) -> None:
    """As a disk of the network does that only says that it has done it."""


@pytest.mark.parametrize(
    ("module", "call", "instead", "said"),
    [
        (os, "fsync", refuse, "so that it stays (fsync)."),
        (os, "replace", not_at_once, "does not replace a file in one step (rename)."),
        (os, "chmod", do_nothing, "does not keep the mode of a file."),
        (os, "symlink", refuse, "does not keep symbolic links, or names that are not UTF-8."),
        (fcntl, "flock", do_nothing, "from taking the same lock (flock, fcntl)."),
        (fcntl, "lockf", do_nothing, "from taking the same lock (flock, fcntl)."),
    ],
)
def test_what_a_disk_does_not_do_is_found(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: object,
    call: str,
    instead: Callable[..., None],
    said: str,
) -> None:
    monkeypatch.setattr(module, call, instead)
    (fault,) = faults(folder, USER, 0)
    assert fault.found.startswith(f"The file system of {folder} ")
    assert fault.found.endswith(said)
    assert fault.fix
    monkeypatch.undo()
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_disk_that_keeps_no_owners_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "chown", do_nothing)
    assert found(folder) == [f"The file system of {folder} does not keep the owner of a file."]


def test_a_disk_without_room_is_found(folder: Path) -> None:
    (fault,) = faults(folder, USER, 1 << 60)
    assert fault.found == f"The disk of {folder} has no more than its reserve free."
