"""Files that users send, into workspaces that commands are changing meanwhile."""

import contextlib
import errno
import io
import os
import shutil
import stat
import threading
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rumi.sandbox.engine import SandboxLimits
from rumi.sandbox.incoming import MAX_NAME_BYTES, PART, PlacedFile, place_file, put_file, safe_name
from rumi.sandbox.policy import STRICT
from rumi.sandbox.workspace import WorkspaceError, prepare_workspace

MEGA = 1024 * 1024
UID, GID = (1000, 1000) if os.getuid() == 0 else (os.getuid(), os.getgid())


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return prepare_workspace(tmp_path, "chat", UID, GID)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text("secret")
    return folder


def put(
    workspace: Path,
    name: str = "report.pdf",
    content: bytes = b"content",
    *,
    limits: SandboxLimits | None = None,
    max_bytes: int = 20 * MEGA,
    checkpoint: Callable[[], None] = lambda: None,
    reuse: bool = False,
) -> str:
    return put_file(
        workspace,
        name,
        io.BytesIO(content),
        user=(UID, GID),
        limits=limits or SandboxLimits(),
        max_bytes=max_bytes,
        checkpoint=checkpoint,
        reuse=reuse,
    )


class NoUnnamedFiles:
    """What NFS says when it is asked for a file without a name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._open = os.open
        self.refused = 0
        monkeypatch.setattr("rumi.sandbox.incoming.os.open", self)

    def __call__(self, path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            self.refused += 1
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return self._open(path, flags, mode, dir_fd=dir_fd)


@pytest.fixture(params=["files without a name", "none of those"])
def any_file_system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "none of those":
        NoUnnamedFiles(monkeypatch)


@pytest.mark.usefixtures("any_file_system")
def test_a_file_is_the_sandbox_users_and_nobody_elses(workspace: Path) -> None:
    os.umask(os.umask(0o077))
    content = os.urandom(3 * MEGA + 17)
    assert put(workspace, content=content) == "report.pdf"
    status = (workspace / "report.pdf").stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (UID, GID, 0o600)
    assert status.st_nlink == 1
    assert (workspace / "report.pdf").read_bytes() == content
    assert os.listdir(workspace) == ["report.pdf"]


def test_the_source_is_read_from_its_beginning(workspace: Path) -> None:
    source = io.BytesIO(b"content")
    source.seek(4)
    put_file(workspace, "a", source, user=(UID, GID), limits=SandboxLimits(), max_bytes=7)
    assert (workspace / "a").read_bytes() == b"content"


@pytest.mark.usefixtures("any_file_system")
def test_nothing_that_is_there_is_replaced(workspace: Path, outside: Path) -> None:
    (workspace / "report.pdf").write_text("mine")
    (workspace / "report-2.pdf").symlink_to(outside / "secret")
    (workspace / "report-3.pdf").symlink_to("nowhere")
    (workspace / "report-4.pdf").mkdir()
    os.mkfifo(workspace / "report-5.pdf")
    assert put(workspace) == "report-6.pdf"
    assert put(workspace) == "report-7.pdf"
    assert (workspace / "report.pdf").read_text() == "mine"
    assert (outside / "secret").read_text() == "secret"
    assert not (workspace / "nowhere").exists()


def test_an_equal_file_is_stored_once_and_another_one_gets_its_own_name(
    workspace: Path, outside: Path
) -> None:
    assert [put(workspace, "a.csv", content, reuse=True) for content in (b"one", b"two", b"one", b"two")] == [
        *("a.csv", "a-2.csv", "a.csv", "a-2.csv")
    ]
    assert put(workspace, "a.csv", b"one") == "a-3.csv"
    (workspace / "b.csv").symlink_to(outside / "secret")
    os.mkfifo(workspace / "b-2.csv")
    (workspace / "b-3.csv").write_text("secret")
    (workspace / "b-3.csv").chmod(0)
    assert put(workspace, "b.csv", b"secret", reuse=True) == "b-4.csv"
    full = SandboxLimits(workspace_files=1)
    assert put(workspace, "a.csv", b"two", reuse=True, limits=full) == "a-2.csv"


def test_both_parts_of_an_ending_stay_behind_the_number(workspace: Path) -> None:
    assert [put(workspace, "a.tar.gz") for _ in range(2)] == ["a.tar.gz", "a-2.tar.gz"]
    assert [put(workspace, "notes") for _ in range(2)] == ["notes", "notes-2"]


@pytest.mark.usefixtures("any_file_system")
def test_many_at_once_get_names_of_their_own(workspace: Path) -> None:
    contents = [str(number).encode() * 1000 for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        names = list(threads.map(lambda content: put(workspace, content=content), contents))
    assert len(set(names)) == 40
    assert [(workspace / name).read_bytes() for name in names] == contents
    assert set(os.listdir(workspace)) == set(names)


@pytest.mark.usefixtures("any_file_system")
def test_what_commands_do_meanwhile_leads_nothing_outside(workspace: Path, outside: Path) -> None:
    over = False

    def meddle() -> None:
        while not over:
            with contextlib.suppress(OSError):
                (workspace / "report.pdf").symlink_to(outside / "secret")
                (workspace / "report-2.pdf").symlink_to(outside)
            for name in os.listdir(workspace):
                with contextlib.suppress(OSError):
                    os.unlink(workspace / name)  # what is just being written as well
                    (workspace / name).symlink_to(outside / "secret")
                    (workspace / name).rename(workspace / "aside")

    thread = threading.Thread(target=meddle)
    thread.start()
    try:
        for _ in range(300):
            with contextlib.suppress(WorkspaceError):
                put(workspace, content=b"x" * 5000)
    finally:
        over = True
        thread.join()
    assert os.listdir(outside) == ["secret"]
    assert (outside / "secret").read_text() == "secret"
    assert (outside / "secret").stat().st_uid == os.getuid()


def test_a_link_in_place_of_the_workspace_is_refused(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "link").symlink_to(outside)
    with pytest.raises(WorkspaceError, match=r"report\.pdf cannot be put into the workspace"):
        put(tmp_path / "link")
    assert os.listdir(outside) == ["secret"]


@pytest.mark.usefixtures("any_file_system")
def test_more_bytes_than_agreed_leave_nothing(workspace: Path) -> None:
    assert put(workspace, content=b"x" * MEGA, max_bytes=MEGA) == "report.pdf"
    with pytest.raises(WorkspaceError, match=r"report\.pdf is larger than 1 MB"):
        put(workspace, content=b"x" * (MEGA + 1), max_bytes=MEGA)
    assert os.listdir(workspace) == ["report.pdf"]


@pytest.mark.usefixtures("any_file_system")
def test_a_full_workspace_takes_nothing_and_says_what_to_do(workspace: Path) -> None:
    (workspace / "big").write_bytes(b"x" * MEGA)
    limits = SandboxLimits(workspace_bytes=2 * MEGA)
    with pytest.raises(WorkspaceError, match=r"no room for report\.pdf\. Delete files"):
        put(workspace, content=b"x" * (MEGA + 1), limits=limits)
    assert os.listdir(workspace) == ["big"]
    assert put(workspace, content=b"x" * (MEGA // 2), limits=limits) == "report.pdf"


def test_the_number_of_files_has_a_limit_too(workspace: Path) -> None:
    limits = SandboxLimits(workspace_files=3)
    assert [put(workspace, limits=limits) for _ in range(3)] == ["report.pdf", "report-2.pdf", "report-3.pdf"]
    with pytest.raises(WorkspaceError, match="no room"):
        put(workspace, limits=limits)
    assert len(os.listdir(workspace)) == 3


def test_holes_of_sparse_files_are_no_use_of_room(workspace: Path) -> None:
    with (workspace / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert put(workspace) == "report.pdf"


class Stopped(BaseException):
    """As a cancellation is: no Exception."""


@pytest.mark.usefixtures("any_file_system")
@pytest.mark.parametrize("at", range(4))
def test_stopped_at_any_moment_it_leaves_nothing(workspace: Path, at: int) -> None:
    calls = 0

    def checkpoint() -> None:
        nonlocal calls
        if calls == at:
            raise Stopped
        calls += 1

    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(Stopped):
        put(workspace, content=b"x" * (3 * MEGA), checkpoint=checkpoint)
    assert calls == at  # three pieces, then the name
    assert os.listdir(workspace) == []
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_a_disk_error_is_told_and_leaves_nothing(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("rumi.sandbox.incoming.os.write", full)
    with pytest.raises(WorkspaceError, match=r"report\.pdf cannot be put .*No space left on device"):
        put(workspace)
    monkeypatch.undo()
    assert os.listdir(workspace) == []


def test_a_killed_process_leaves_nothing_half_written(workspace: Path) -> None:
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            put(workspace, content=b"x" * (3 * MEGA), checkpoint=lambda: os._exit(9))
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert os.listdir(workspace) == []


@pytest.mark.parametrize(
    ("given_name", "safe"),
    [
        ("report.pdf", "report.pdf"),
        ("mi informe final.pdf", "mi_informe_final.pdf"),
        ("añ\u0303o ñandú.txt", "añ\u0303o_ñandú.txt"),
        ("re\u0301sume\u0301.pdf", "résumé.pdf"),  # as macOS writes it
        ("отчёт за май.docx", "отчёт_за_май.docx"),
        ("報告書（最終）.xlsx", "報告書_最終_.xlsx"),
        ("تقرير.pdf", "تقرير.pdf"),
        ("रिपोर्ट.pdf", "रिपोर्ट.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\a.txt", "a.txt"),
        ("/", "file"),
        ("", "file"),
        (".", "file"),
        ("..", "file"),
        (".bashrc", "bashrc"),
        (".pdf", "pdf"),
        ("-.pdf", "file.pdf"),
        ("-rf", "rf"),
        ("--help.txt", "help.txt"),
        ("@list.txt", "list.txt"),
        ("a\nb\x1b[31m.txt", "ab_31m.txt"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("zero\u200bwidth\ufeff.txt", "zerowidth.txt"),
        ("\u3164\u3164.txt", "file.txt"),
        ("a.\u3164txt", "a.txt"),
        ("\udcff\udcfe.txt", "file.txt"),
        ("a;rm -rf ~ $(x) `y` *?[z]{}|&<>!\"'#^\\.txt", "txt"),
        ("a;rm -rf ~ $(x) `y` *?[z]{}|&<>!\"'#^.txt", "a_rm_-rf_x_y_z_.txt"),
        ("🎉.png", "_.png"),
        ("archive.tar.gz", "archive.tar.gz"),
        ("v1.2 (copy)", "v1.2_copy_"),
        ("name.with a long and odd ending", "name.with_a_long_and_odd_ending"),
        ("x=1:2.csv", "x_1_2.csv"),
    ],
)
def test_names_are_made_safe(given_name: str, safe: str) -> None:
    assert safe_name(given_name) == safe


def test_long_names_keep_their_ending_and_whole_characters() -> None:
    assert safe_name("ñ" * 300 + ".pdf") == "ñ" * 48 + ".pdf"
    assert safe_name("報" * 300) == "報" * 33
    assert safe_name("a" * 300 + "." + "b" * 300) == "a" * 100


def test_a_file_with_the_longest_name_and_a_number_can_be_made(workspace: Path) -> None:
    names = [put(workspace, "報" * 300 + ".pdf") for _ in range(3)]
    assert len(set(names)) == 3


@given(st.text() | st.text(alphabet="./\\-_ \n\u202e'\"*a\ud800é報𝒳\u0301\u3164"))
def test_no_name_misleads_a_shell_a_terminal_or_a_person(name: str) -> None:
    safe = safe_name(name)
    assert 1 <= len(safe.encode()) <= MAX_NAME_BYTES
    assert safe[0] not in ".-"
    assert "/" not in safe
    assert safe.isprintable()
    assert not any(unicodedata.category(character)[0] in "CZ" for character in safe)
    assert safe_name(safe) == safe
    assert STRICT.parse(f'sh -c "cat {safe} > /tmp/{safe}"') == ("sh", "-c", f"cat {safe} > /tmp/{safe}")


def test_a_file_does_not_take_of_the_disks_reserve(workspace: Path) -> None:
    free = shutil.disk_usage(workspace).free
    with pytest.raises(WorkspaceError, match=r"The disk has no room for report\.pdf"):
        put(workspace, limits=SandboxLimits(reserve_bytes=free + 100 * MEGA))
    assert os.listdir(workspace) == []
    assert put(workspace, limits=SandboxLimits(reserve_bytes=0)) == "report.pdf"


# Files at a path.


def place(
    workspace: Path,
    path: str,
    content: bytes = b"content",
    *,
    limits: SandboxLimits | None = None,
    max_bytes: int = 20 * MEGA,
    checkpoint: Callable[[], None] = lambda: None,
) -> PlacedFile:
    return place_file(
        workspace,
        path,
        io.BytesIO(content),
        suggested="../sent by.csv",
        user=(UID, GID),
        limits=limits or SandboxLimits(),
        max_bytes=max_bytes,
        checkpoint=checkpoint,
    )


@pytest.mark.usefixtures("any_file_system")
@pytest.mark.parametrize(
    ("path", "placed"),
    [
        ("a.csv", "a.csv"),
        ("./x//y/a b.csv", "x/y/a b.csv"),
        ("ñ/数据.csv", "ñ/数据.csv"),
        (".", "sent_by.csv"),
        ("", "sent_by.csv"),
        ("x/y/", "x/y/sent_by.csv"),
        ("x/.", "x/sent_by.csv"),
        ("there", "there/sent_by.csv"),
        ("-rf", "-rf"),
    ],
)
def test_a_file_gets_its_path_and_the_folders_that_it_needs(workspace: Path, path: str, placed: str) -> None:
    if path == "there":
        (workspace / path).mkdir()
        os.chown(workspace / path, UID, GID)
    assert place(workspace, path) == PlacedFile(placed, replaced=False)
    status = (workspace / placed).stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (UID, GID, 0o600)
    assert {
        folder.stat().st_uid for folder in (workspace / placed).parents if folder != workspace.parent
    } >= {UID}
    assert (workspace / placed).read_bytes() == b"content"


@pytest.mark.usefixtures("any_file_system")
def test_a_file_at_the_path_is_replaced_and_one_that_the_server_named_is_not(workspace: Path) -> None:
    (workspace / "a.csv").write_text("mine")
    (workspace / "sent_by.csv").write_text("mine")
    (workspace / PART).write_text("left by a kill")
    with (workspace / "a.csv").open() as old:
        assert place(workspace, "a.csv") == PlacedFile("a.csv", replaced=True)
        assert old.read() == "mine"
    assert place(workspace, ".") == PlacedFile("sent_by-2.csv", replaced=False)
    assert sorted(os.listdir(workspace)) == ["a.csv", "sent_by-2.csv", "sent_by.csv"]


def test_a_folder_under_the_temporary_name_keeps_no_file_out(workspace: Path) -> None:
    (workspace / PART).mkdir()
    (workspace / PART / "a").write_text("mine")
    for replaced in (False, True):
        assert place(workspace, "a.csv") == PlacedFile("a.csv", replaced=replaced)
    assert sorted(os.listdir(workspace)) == [PART, "a.csv"]


@pytest.mark.parametrize(
    "path", ["../a", "x/../../a", "/etc/a", "a\nb", "a\0b", "\x1b[2J", "x" * 256, "x/" * 60 + "a"]
)
def test_a_path_that_leads_outside_or_cannot_be_is_refused(workspace: Path, path: str) -> None:
    with pytest.raises(WorkspaceError):
        place(workspace, path)
    assert os.listdir(workspace) == []


def test_no_link_is_followed_and_nothing_but_a_file_is_replaced(workspace: Path, outside: Path) -> None:
    (workspace / "folder").symlink_to(outside)
    (workspace / "file").symlink_to(outside / "secret")
    os.mkfifo(workspace / "pipe")
    for path in ("folder/a", "folder/", "file", "pipe", "pipe/a"):
        with pytest.raises(WorkspaceError):
            place(workspace, path)
    assert (outside / "secret").read_text() == "secret"
    assert os.listdir(outside) == ["secret"]
    assert sorted(os.listdir(workspace)) == ["file", "folder", "pipe"]


@pytest.mark.usefixtures("any_file_system")
def test_a_failure_and_a_cancellation_leave_the_old_file_and_no_folder(workspace: Path) -> None:
    (workspace / "a.csv").write_text("mine")

    def stop() -> None:
        raise InterruptedError

    for path in ("a.csv", "x/y/a.csv", "x/"):
        with pytest.raises(WorkspaceError):
            place(workspace, path, max_bytes=3)
        with pytest.raises(WorkspaceError):
            place(workspace, path, limits=SandboxLimits(workspace_bytes=8192), content=b"x" * 20_000)
        with pytest.raises(WorkspaceError):  # InterruptedError is an OSError
            place(workspace, path, checkpoint=stop)
    assert os.listdir(workspace) == ["a.csv"]
    assert (workspace / "a.csv").read_text() == "mine"
