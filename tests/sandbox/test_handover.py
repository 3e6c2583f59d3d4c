"""Workspaces of a former user: what is handed over, what never is, and what a crash in the middle leaves."""

import io
import os
import secrets
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from rumi.sandbox.bubblewrap.engine import BubblewrapEngine
from rumi.sandbox.docker.engine import DockerEngine
from rumi.sandbox.engine import Engine, SandboxError, SandboxLimits
from rumi.sandbox.handover import Workspaces, hand_over, is_in_use
from rumi.sandbox.identity import RECORD
from rumi.sandbox.incoming import put_file
from rumi.sandbox.workspace import MAX_DEPTH, WorkspaceError, clear, prepare_workspace
from tests.fakes.engines import cleaned_up
from tests.sandbox.test_workspace import Swapping

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user's workspaces never change hands")

FORMER, FORMER_2, NEW, OTHER = 1000, 70_001, 70_002, 70_003


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path / "workspace" / "chat"
    path.mkdir(parents=True)
    path.chmod(0o700)
    return path


def owned(path: Path, uid: int = FORMER) -> Path:
    os.chown(path, uid, uid, follow_symlinks=False)
    return path


def file(path: Path, uid: int = FORMER, mode: int = 0o600) -> Path:
    path.touch()
    owned(path, uid)
    path.chmod(mode)
    return path


def folder(path: Path, uid: int = FORMER) -> Path:
    path.mkdir()
    return owned(path, uid)


def owner(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_uid, status.st_gid


def many(workspace: Path, count: int) -> list[Path]:
    """Files in some folders, all of the former user."""
    owned(workspace)
    folders = [folder(workspace / f"folder {number}") for number in range(1 + count // 100)]
    files = [file(folders[number // 100] / f"{number}") for number in range(count)]
    return [*folders, *files]


def give(workspace: Path, *former: int) -> int:
    return hand_over(workspace, NEW, NEW, {FORMER, *former})


def test_all_that_the_former_user_has_becomes_the_new_ones(workspace: Path) -> None:
    owned(workspace)
    deep = folder(workspace / "folder")
    paths = [file(workspace / "file"), deep, file(deep / "a\n\x1b[2Jb"), file(deep / os.fsdecode(b"\xff"))]
    (workspace / "link").symlink_to("nowhere")
    os.mkfifo(workspace / "pipe")
    os.mknod(workspace / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    os.link(workspace / "file", workspace / "second name")
    closed = folder(workspace / "closed")
    inner = file(closed / "inner")
    closed.chmod(0)
    set_id = file(workspace / "set-id", mode=0o6755)
    paths += [owned(workspace / name) for name in ("link", "pipe", "device")]
    paths += [closed, inner, set_id]
    assert give(workspace) == len(paths), "a file with two names is given once"
    assert {owner(path) for path in (*paths, workspace)} == {(NEW, NEW)}
    assert stat.S_IMODE(set_id.stat().st_mode) == 0o755
    assert stat.S_IMODE(closed.stat().st_mode) == 0
    assert give(workspace) == 0


def test_what_belongs_to_anybody_else_stays_theirs(workspace: Path, tmp_path: Path) -> None:
    owned(workspace)
    theirs = [
        file(workspace / "roots", 0),
        file(workspace / "others", OTHER),
        folder(workspace / "folder", OTHER),
    ]
    outside = folder(tmp_path / "outside")
    secret = file(outside / "secret")
    links = [workspace / "to a file", workspace / "to a folder", workspace / "to root's"]
    for link, target in zip(links, (secret, outside, "/etc/passwd"), strict=True):
        link.symlink_to(target)
        owned(link)
    shared = file(workspace / "of a shared group")
    os.chown(shared, FORMER, OTHER)
    before = [owner(path) for path in (*theirs, secret, outside, Path("/etc/passwd"))]
    assert give(workspace) == len(links) + 1
    assert [owner(path) for path in (*theirs, secret, outside, Path("/etc/passwd"))] == before
    assert owner(shared) == (NEW, OTHER)


def test_what_is_mounted_in_a_workspace_is_left_alone(workspace: Path, tmp_path: Path) -> None:
    owned(workspace)
    outside = folder(tmp_path / "documents")
    letter = file(outside / "letter")
    place = folder(workspace / "documents")
    mounted = subprocess.run(["mount", "--bind", outside, place], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"nothing can be mounted here: {mounted.stderr!r}")
    try:
        assert give(workspace) == 0
        assert {owner(outside), owner(letter)} == {(FORMER, FORMER)}
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)
    assert owner(workspace) == (NEW, NEW)


def test_depth_is_no_bound_and_takes_no_more_open_files(workspace: Path) -> None:
    owned(workspace)
    depth, at = 2 * MAX_DEPTH + 7, os.open(workspace, os.O_RDONLY)
    for _ in range(depth):
        for name in ("a", "b"):
            os.mkdir(name, dir_fd=at)
            os.chown(name, FORMER, FORMER, dir_fd=at)
        inner = os.open("a", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)
    free = os.dup(0)
    os.close(free)
    assert give(workspace) == 2 * depth
    after = os.dup(0)
    os.close(after)
    assert after == free, "every folder is closed again"
    assert give(workspace) == 0
    clear(workspace)


HALF = """
import os, sys
from pathlib import Path
from rumi.sandbox.handover import hand_over
left = int(sys.argv[2])
def checkpoint():
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), 9)
new, former = int(sys.argv[3]), {int(word) for word in sys.argv[4:]}
hand_over(Path(sys.argv[1]), new, new, former, checkpoint)
"""


def half_way(workspace: Path, steps: int, new: int, *former: int) -> int:
    """Hand over in a process that is killed after so many files; its exit code."""
    words = [sys.executable, "-c", HALF, workspace, str(steps), str(new), *map(str, former)]
    return subprocess.run(words, check=False).returncode


@pytest.mark.parametrize("steps", [0, 1, 7, 199])
def test_killed_at_any_point_the_next_one_does_the_rest(workspace: Path, steps: int) -> None:
    paths = many(workspace, 200)
    assert half_way(workspace, steps, NEW, FORMER) == -9
    assert owner(workspace) == (FORMER, FORMER), "the folder itself comes last"
    assert sum(owner(path) == (NEW, NEW) for path in paths) == steps
    assert give(workspace) == len(paths) - steps
    assert {owner(path) for path in (*paths, workspace)} == {(NEW, NEW)}


async def test_two_changes_of_the_user_with_a_crash_between_them_lose_nothing(
    workspace: Path, tmp_path: Path
) -> None:
    paths = many(workspace, 20)
    assert half_way(workspace, 10, FORMER_2, FORMER) == -9
    (tmp_path / RECORD).write_text(f"{NEW}\n{FORMER_2}\n")
    await Workspaces(tmp_path, (NEW, NEW)).ready("chat")
    assert {owner(path) for path in (*paths, workspace)} == {(NEW, NEW)}


def test_folders_swapped_for_links_meanwhile_lead_nowhere_else(workspace: Path, tmp_path: Path) -> None:
    owned(workspace)
    outside = folder(tmp_path / "outside")
    theirs = [file(outside / name) for name in ("secret", "another")]
    with Swapping(workspace, outside):
        for number in range(300):
            before, after = (FORMER, FORMER_2) if number % 2 == 0 else (FORMER_2, FORMER)
            hand_over(workspace, after, after, {before})
            assert {owner(path) for path in (outside, *theirs)} == {(FORMER, FORMER)}


def test_a_folder_that_becomes_a_link_before_it_is_entered_leads_nowhere(
    workspace: Path, tmp_path: Path
) -> None:
    owned(workspace)
    outside = folder(tmp_path / "outside")
    secret = file(outside / "secret")
    inner = folder(workspace / "folder")
    file(inner / "secret")

    def swap() -> None:
        if not inner.is_symlink():
            inner.rename(tmp_path / "aside")
            inner.symlink_to(outside)

    hand_over(workspace, NEW, NEW, {FORMER}, swap)
    assert {owner(outside), owner(secret)} == {(FORMER, FORMER)}
    assert owner(tmp_path / "aside") == (NEW, NEW), "it was open by then"


async def test_a_large_workspace_holds_up_neither_the_loop_nor_other_chats(
    workspace: Path, tmp_path: Path
) -> None:
    paths, done, turns = many(workspace, 5000), list[str](), 0
    workspaces = Workspaces(tmp_path, (NEW, NEW))

    async def ready(chat: str) -> None:
        await workspaces.ready(chat)
        done.append(chat)

    async with trio.open_nursery() as nursery:
        for chat in ("chat", "another"):
            nursery.start_soon(ready, chat)
        while len(done) < 2:
            await trio.lowlevel.checkpoint()
            turns += 1
    assert done == ["another", "chat"]
    assert turns > 100
    assert {owner(path) for path in (*paths, workspace, tmp_path / "workspace/another")} == {(NEW, NEW)}


async def test_cancelled_it_ends_soon_and_goes_on_later(workspace: Path, tmp_path: Path) -> None:
    paths = many(workspace, 3000)
    workspaces = Workspaces(tmp_path, (NEW, NEW))
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(workspaces.ready, "chat")
            while not any(owner(path)[0] == NEW for path in paths[:100]):
                await trio.lowlevel.checkpoint()
            scope.cancel()
    assert owner(workspace) == (FORMER, FORMER)
    await workspaces.ready("chat")
    assert {owner(path) for path in (*paths, workspace)} == {(NEW, NEW)}


@pytest.fixture(
    params=[
        pytest.param("docker", marks=pytest.mark.docker),
        pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
    ]
)
def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    """An engine as an earlier Rumi had it, whose commands run as the former user."""
    installation, user = secrets.token_hex(6), (FORMER, FORMER)
    if request.param == "bubblewrap":
        return BubblewrapEngine(tmp_path, installation, SandboxLimits(), user=user)
    return DockerEngine(
        installation, SandboxLimits(), image=request.getfixturevalue("docker_image"), user=user
    )


async def test_files_that_an_earlier_sandbox_still_works_on_are_waited_for(
    earlier: Engine, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned(workspace)
    letter = file(workspace / "letter")
    monkeypatch.setattr("rumi.sandbox.handover.WAIT_S", 0.5)
    workspaces = Workspaces(tmp_path, (NEW, NEW))
    async with cleaned_up(earlier):
        await earlier.create("chat", workspace)
        assert is_in_use(workspace)
        with pytest.raises(SandboxError, match="still work in"):
            await workspaces.ready("chat")
        assert {owner(workspace), owner(letter)} == {(FORMER, FORMER)}
        monkeypatch.setattr("rumi.sandbox.handover.WAIT_S", 20)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(workspaces.ready, "chat")
            await trio.sleep(0.3)
            await earlier.remove("chat")
    assert {owner(workspace), owner(letter)} == {(NEW, NEW)}


async def test_a_file_that_arrives_before_the_handover_is_the_new_users(
    workspace: Path, tmp_path: Path
) -> None:
    owned(workspace)
    letter = file(workspace / "letter")
    prepare_workspace(tmp_path, "chat", NEW, NEW)
    name = put_file(
        workspace, "sent.txt", io.BytesIO(b"hello"), user=(NEW, NEW), limits=SandboxLimits(), max_bytes=100
    )
    assert {owner(workspace), owner(letter)} == {(FORMER, FORMER)}, "that is the next command's to do"
    assert owner(workspace / name) == (NEW, NEW)
    await Workspaces(tmp_path, (NEW, NEW)).ready("chat")
    assert {owner(path) for path in (workspace, letter, workspace / name)} == {(NEW, NEW)}


def test_a_disk_that_takes_no_other_owner_is_named(workspace: Path, tmp_path: Path) -> None:
    owned(workspace)
    letter = file(workspace / "letter")
    how = subprocess.run(
        ["mount", "--bind", "-o", "ro", workspace, workspace], capture_output=True, check=False
    )
    if how.returncode:
        pytest.skip(f"nothing can be mounted here: {how.stderr!r}")
    try:
        with pytest.raises(WorkspaceError, match=f"cannot be given to the sandbox's user {NEW}"):
            give(workspace)
    finally:
        subprocess.run(["umount", "--lazy", workspace], check=True)
    assert {owner(workspace), owner(letter)} == {(FORMER, FORMER)}
