import contextlib
import os
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rumi.platform.openat import shown
from rumi.sandbox import workspace as module
from rumi.sandbox.workspace import WorkspaceError, clear, measure, open_beneath, prepare_workspace
from tests.fakes.users import as_ordinary_user, give


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return prepare_workspace(tmp_path, "chat", os.getuid(), os.getgid())


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text("secret")
    return folder


def read(workspace: Path, name: str) -> bytes:
    fd = open_beneath(workspace, name)
    with os.fdopen(fd, "rb") as file:
        return file.read()


def deep(top: Path, depth: int) -> None:
    """A chain of folders, longer than any path may be."""
    folder = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)


class Swapping:
    """Swaps a folder for a link to the outside and back, as fast as it can, until it leaves the block."""

    def __init__(self, workspace: Path, outside: Path) -> None:
        self._folder, self._link, self._aside = workspace / "d", workspace / "link", workspace / "aside"
        self._folder.mkdir()
        (self._folder / "secret").write_text("mine")
        self._link.symlink_to(outside)
        self._over = False
        self._thread = threading.Thread(target=self._swap)

    def _swap(self) -> None:
        with contextlib.suppress(FileNotFoundError):  # cleared away
            while not self._over:
                self._folder.rename(self._aside)
                self._link.rename(self._folder)
                self._folder.rename(self._link)
                self._aside.rename(self._folder)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._thread.join()


def test_a_workspace_is_private_and_belongs_to_the_sandbox(tmp_path: Path) -> None:
    uid = 1000 if os.getuid() == 0 else os.getuid()
    gid = 1000 if os.getuid() == 0 else os.getgid()
    path = prepare_workspace(tmp_path, "tg-100777_5", uid, gid)
    assert path == tmp_path / "workspace/tg-100777_5"
    assert (path.stat().st_uid, path.stat().st_gid) == (uid, gid)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    (path / "kept").touch()
    assert prepare_workspace(tmp_path, "tg-100777_5", uid, gid) == path
    assert (path / "kept").exists()


@pytest.mark.parametrize("chat_id", ["..", "a/b", "", "a" * 65, "a\n", "ñ"])
def test_only_a_chats_id_becomes_a_folder(tmp_path: Path, chat_id: str) -> None:
    with pytest.raises(WorkspaceError, match="is not a chat id"):
        prepare_workspace(tmp_path, chat_id, 1000, 1000)


def test_a_link_in_place_of_a_workspace_is_refused(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/chat").symlink_to(outside)
    with pytest.raises(WorkspaceError, match="cannot be used"):
        prepare_workspace(tmp_path, "chat", 1000, 1000)


def test_files_and_folders_are_counted_by_their_blocks(workspace: Path) -> None:
    (workspace / "a").write_bytes(b"x" * 100_000)
    (workspace / "d").mkdir()
    (workspace / "d/b").write_bytes(b"x" * 50_000)
    use = measure(workspace)
    assert use.files == 3
    assert use.complete
    assert 150_000 <= use.bytes < 200_000


def test_holes_of_sparse_files_do_not_count(workspace: Path) -> None:
    with (workspace / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert measure(workspace).bytes < 1 << 20


def test_a_file_with_many_names_counts_once(workspace: Path) -> None:
    (workspace / "a").write_bytes(b"x" * 100_000)
    for number in range(10):
        os.link(workspace / "a", workspace / f"link{number}")
    use = measure(workspace)
    assert use.files == 1
    assert use.bytes < 200_000


def test_links_are_counted_and_not_followed(workspace: Path, outside: Path) -> None:
    (outside / "big").write_bytes(b"x" * 1_000_000)
    (workspace / "out").symlink_to(outside)
    (workspace / "file").symlink_to(outside / "big")
    (workspace / "loop").symlink_to(".")
    assert measure(workspace).files == 3
    assert measure(workspace).bytes < 100_000


def test_counting_never_leaves_through_a_swapped_folder(workspace: Path, outside: Path) -> None:
    for number in range(100):
        (outside / f"{number}").touch()
    with Swapping(workspace, outside):
        for _ in range(300):
            assert measure(workspace).files <= 4


def test_counting_stops_at_many_files_and_says_so(workspace: Path) -> None:
    for number in range(50):
        (workspace / str(number)).touch()
    use = measure(workspace, stop_after=20)
    assert use.files >= 20
    assert not use.complete


def test_what_is_hidden_by_depth_counts_as_too_much(workspace: Path) -> None:
    deep(workspace, 3000)
    use = measure(workspace)
    assert not use.complete
    assert use.files >= module.STOP_AFTER
    clear(workspace)


def test_what_is_hidden_by_permissions_is_counted(workspace: Path) -> None:
    (workspace / "d").mkdir()
    (workspace / "d/big").write_bytes(b"x" * 100_000)
    (workspace / "d").chmod(0)
    assert measure(workspace).bytes >= 100_000


def test_what_is_hidden_by_permissions_is_counted_by_an_ordinary_user_too(tmp_path: Path) -> None:
    give(tmp_path)

    def hide_and_measure() -> list[int]:
        sizes = []
        for mode in (0, 0o400, 0o300):
            folder = tmp_path / f"d{mode}"
            (folder / "inner").mkdir(parents=True)
            (folder / "inner/big").write_bytes(b"x" * 100_000)
            folder.chmod(mode)
            sizes.append(measure(tmp_path).bytes)
        return sizes

    first, second, third = as_ordinary_user(hide_and_measure)
    assert first >= 100_000
    assert second >= first + 100_000
    assert third >= second + 100_000


def test_a_workspace_that_is_gone_is_empty(tmp_path: Path) -> None:
    assert measure(tmp_path / "none") == module.WorkspaceUse(0, 0)


def test_files_that_vanish_meanwhile_do_not_disturb(workspace: Path) -> None:
    over = False

    def churn() -> None:
        while not over:
            (workspace / "d").mkdir()
            (workspace / "d/f").touch()
            (workspace / "d/f").unlink()
            (workspace / "d").rmdir()

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(300):
            assert measure(workspace).files <= 2
    finally:
        over = True
        thread.join()


@pytest.mark.long
def test_fifty_thousand_files_are_counted(workspace: Path) -> None:
    for folder in range(50):
        (workspace / str(folder)).mkdir()
        for number in range(1000):
            os.close(os.open(workspace / str(folder) / str(number), os.O_CREAT, 0o600))
    assert measure(workspace).files == 50_050


NAMES = ["plain", "with space", "new\nline", "\x1b[31mred", "bell\a", "año", "\udcff\udcfe", "-rf", "d/inner"]


@pytest.mark.parametrize("name", NAMES)
def test_ordinary_files_are_read_whatever_their_name(workspace: Path, name: str) -> None:
    (workspace / "d").mkdir()
    (workspace / name).write_bytes(b"content")
    assert read(workspace, name) == b"content"
    assert shown(name).isprintable()
    assert measure(workspace).files >= 2


def refused_link(workspace: Path, outside: Path) -> str:
    (workspace / "x").symlink_to(outside / "secret")
    return "x"


def refused_folder_link(workspace: Path, outside: Path) -> str:
    (workspace / "x").symlink_to(outside)
    return "x/secret"


def refused_inner_link(workspace: Path, outside: Path) -> str:
    (workspace / "y").touch()
    (workspace / "x").symlink_to("y")
    return "x"


def refused_pipe(workspace: Path, outside: Path) -> str:
    os.mkfifo(workspace / "x")
    return "x"


def refused_folder(workspace: Path, outside: Path) -> str:
    (workspace / "x").mkdir()
    return "x"


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (refused_link, "symbolic link"),
        (refused_folder_link, "symbolic link"),
        (refused_inner_link, "symbolic link"),
        (refused_pipe, "not an ordinary file"),
        (refused_folder, "not an ordinary file"),
        (lambda _, outside: "../outside/secret", "leads out"),
        (lambda _, outside: str(outside / "secret"), "leads out"),
        (lambda _, outside: "../chat/none", "leads out"),
        (lambda *_: "none", "no file none"),
        (lambda *_: "", "names no file"),
        (lambda *_: "a\0b", "names no file"),
        (lambda *_: "none\x1b[31m\n", r"no file none\\x1b\[31m\\n"),
        (lambda *_: "a" * 300, "cannot be opened"),
    ],
)
def test_what_is_no_file_of_the_workspace_is_refused(
    workspace: Path, outside: Path, prepare: Callable[[Path, Path], str], words: str
) -> None:
    before = time.perf_counter()
    with pytest.raises(WorkspaceError, match=words):
        open_beneath(workspace, prepare(workspace, outside))
    assert time.perf_counter() - before < 30


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("s")
        with pytest.raises(WorkspaceError, match="not an ordinary file"):
            open_beneath(tmp_path, "s")


def test_reading_never_leaves_through_a_swapped_folder(workspace: Path, outside: Path) -> None:
    found = set()
    with Swapping(workspace, outside):
        for _ in range(2000):
            try:
                found.add(read(workspace, "d/secret"))
            except WorkspaceError as error:
                found.add(error.message.split()[0].encode())
    assert b"secret" not in found
    assert b"mine" in found


def test_clearing_removes_everything_and_keeps_the_folder(workspace: Path, outside: Path) -> None:
    (workspace / "d/e").mkdir(parents=True)
    (workspace / "d/f").touch()
    for name in NAMES[:-1]:
        (workspace / name).touch()
    (workspace / "out").symlink_to(outside)
    (workspace / "dangling").symlink_to("nowhere")
    os.mkfifo(workspace / "pipe")
    (workspace / "shut").mkdir()
    (workspace / "shut/x").touch()
    (workspace / "shut").chmod(0)
    before = workspace.stat().st_ino
    clear(workspace)
    assert list(workspace.iterdir()) == []
    assert workspace.stat().st_ino == before
    assert (outside / "secret").read_text() == "secret"


def test_clearing_reaches_any_depth(workspace: Path) -> None:
    deep(workspace, 3000)
    clear(workspace)
    assert list(workspace.iterdir()) == []


@pytest.mark.long
def test_clearing_many_folders_takes_no_longer_than_there_are_folders(workspace: Path) -> None:
    for number in range(5000):
        (workspace / str(number)).mkdir()
    # Its own work alone: the disk and other processes take what time they like.
    before = time.process_time()
    clear(workspace)
    assert time.process_time() - before < 2


def test_clearing_is_not_lured_outside_by_a_swapped_folder(workspace: Path, outside: Path) -> None:
    for _ in range(30):
        with Swapping(workspace, outside), contextlib.suppress(WorkspaceError):
            clear(workspace)
        clear(workspace)
        assert (outside / "secret").read_text() == "secret"


def test_clearing_what_is_no_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="cannot be cleared"):
        clear(tmp_path / "none")
