"""Folders that chats work on: nothing changes before an apply, which happens completely or not at all."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rumi.sandbox.folders.links import FolderFault, How
from rumi.sandbox.folders.views import sweep
from rumi.sandbox.project import applying
from tests.fakes.git_server import git
from tests.sandbox.folders.linking import CHAT, FILES, Linking, change, files_in, folders_of, linking, write

pytestmark = pytest.mark.bubblewrap

WAYS = ("overlay", "copy")
CHANGED = {
    "a.txt": "changed\n", "new/in/it": "new\n", "keep/x": "was a file\n", "d": "was a folder\n",
}  # fmt: skip


@pytest.fixture(params=WAYS)
def linked(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Linking]:
    with linking(tmp_path, request.param) as made:
        yield made


@pytest.fixture
def overlay(tmp_path: Path) -> Iterator[Linking]:
    with linking(tmp_path, "overlay") as made:
        yield made


def test_nothing_in_the_folder_changes_before_an_apply(linked: Linking) -> None:
    change(linked.seen)
    assert files_in(linked.project) == FILES
    assert files_in(linked.seen) == CHANGED
    assert linked.changes() == {
        "M a.txt", "D d/deep/z", "D d/x", "D d/y", "A d", "D keep", "A keep/x", "A new/in/it",
    }  # fmt: skip
    assert linked.apply() == 8
    assert files_in(linked.project) == CHANGED
    assert linked.changes() == set()
    assert files_in(linked.seen) == CHANGED


def test_what_was_shown_is_applied_and_nothing_newer(linked: Linking) -> None:
    (linked.seen / "a.txt").write_text("shown\n")
    token = linked.found().token
    (linked.seen / "a.txt").write_text("newer\n")
    with pytest.raises(FolderFault, match="no longer"):
        linked.folders.apply(CHAT, token)
    assert files_in(linked.project) == FILES


def test_some_paths_are_applied_and_others_discarded(linked: Linking) -> None:
    shutil.rmtree(linked.seen / "d")
    write(linked.seen, {"d/new": "n\n", "a.txt": "changed\n", "keep": "changed\n"})
    assert linked.apply("d/x", "keep") == 2
    assert files_in(linked.project) == {**{k: v for k, v in FILES.items() if k != "d/x"}, "keep": "changed\n"}
    assert linked.changes() == {"D d/y", "D d/deep/z", "A d/new", "M a.txt"}
    assert linked.folders.discard(CHAT, ("d/y", "a.txt")) == 2
    assert linked.changes() == {"D d/deep/z", "A d/new"}
    assert files_in(linked.seen) == {"a.txt": "one\n", "d/y": "y\n", "d/new": "n\n", "keep": "changed\n"}
    with pytest.raises(FolderFault, match="Nothing has changed"):
        linked.folders.discard(CHAT, ("keep",))
    assert linked.folders.discard(CHAT) == 2
    assert files_in(linked.seen) == files_in(linked.project)


def test_a_file_that_the_person_changes_too_is_a_conflict(linked: Linking) -> None:
    linked.folders.refresh(CHAT)
    write(linked.seen, {"a.txt": "the chat's\n", "keep": "k2\n"})
    linked.folders.record(CHAT)
    (linked.project / "a.txt").write_text("the person's\n")
    found = linked.found()
    assert found.conflicts == {"a.txt"}
    with pytest.raises(FolderFault, match="same places"):
        linked.folders.apply(CHAT, found.token)
    assert files_in(linked.project) == {**FILES, "a.txt": "the person's\n"}
    assert linked.apply("keep") == 1
    linked.folders.discard(CHAT, ("a.txt",))
    assert (linked.seen / "a.txt").read_text() == "the person's\n"


def test_a_change_before_the_first_look_is_a_conflict_too(overlay: Linking) -> None:
    overlay.folders.refresh(CHAT)
    (overlay.seen / "a.txt").write_text("the chat's\n")
    time.sleep(0.02)  # file systems count time in steps of some milliseconds
    (overlay.project / "a.txt").write_text("the person's\n")
    (overlay.seen / "d" / "x").write_text("the chat's\n")
    (overlay.project / "d" / "x").unlink()
    assert overlay.found().conflicts == {"a.txt", "d/x"}


def test_a_persons_new_and_replaced_files_become_visible(overlay: Linking) -> None:
    assert not (overlay.seen / "later").exists()
    assert (overlay.seen / "a.txt").read_text() == "one\n"
    (overlay.project / "later").write_text("l\n")
    (overlay.project / "draft").write_text("replaced\n")
    (overlay.project / "draft").rename(overlay.project / "a.txt")
    overlay.folders.refresh(CHAT)
    assert (overlay.seen / "later").read_text() == "l\n"
    assert (overlay.seen / "a.txt").read_text() == "replaced\n"


def test_what_git_ignores_is_seen_and_not_applied(linked: Linking) -> None:
    git(linked.project, "init", "--quiet", ".")
    (linked.project / ".gitignore").write_text("*.o\nbuild/\n")
    (linked.project / "old.o").write_text("o\n")
    if linked.how == "overlay":
        linked.folders.refresh(CHAT)
    assert (linked.seen / "old.o").read_text() == "o\n"
    write(linked.seen, {"new.o": "o\n", "build/out": "b\n", "c": "c\n", ".git/hooks/post-commit": "evil\n"})
    assert (linked.changes(), linked.found().ignored) == ({"A c"}, 2)
    assert linked.changes("build/out") == {"A build/out"}
    assert linked.apply() == 1
    assert not (linked.project / ".git" / "hooks" / "post-commit").exists()
    assert not (linked.project / "new.o").exists()


def test_hostile_entries_are_left_out_and_harm_nothing(linked: Linking, tmp_path: Path) -> None:
    seen = linked.seen
    (seen / "a.txt").unlink()
    (seen / "a.txt").symlink_to("/etc/passwd")
    (seen / "up").symlink_to("../../outside")
    os.mkfifo(seen / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"/proc/self/fd/{os.open(seen, os.O_PATH)}/socket")
    names = ["new\nline", "\x1b[31mred", os.fsdecode(b"bytes\xff"), "ünï", " space "]
    for name in names:
        (seen / name).write_text("n\n")
    (seen / "sparse").touch()
    os.truncate(seen / "sparse", 9_000_000)
    os.link(seen / "keep", seen / "hard")
    shutil.rmtree(seen / "d")
    (seen / "d").symlink_to("/tmp")
    (seen / ".git").write_text("gitdir: /evil\n")
    write(seen, {"sub/.git/hooks/x": "evil\n"})
    deep = seen
    for _ in range(120):
        deep = deep / "e"
        deep.mkdir()
    (deep / "bottom").write_text("b\n")
    found = linked.found()
    left_out = dict(found.changes.left_out)
    expected = {"a.txt": "link", "up": "link", "d": "link", "pipe": "special", "socket": "special"}
    assert {path: left_out.get(path) for path in expected} == expected
    assert left_out["sub/.git"] == "git"
    with linked.folders.found(CHAT) as (_, shown):
        from rumi.sandbox.project.changes import unified

        assert all(line.isprintable() or "\t" in line for line in unified(shown.changes))
    linked.apply()
    assert (linked.project / "hard").read_text() == "k\n"
    assert {name for name in names if (linked.project / name).read_text() == "n\n"} == set(names)
    assert (linked.project / "a.txt").read_text() == "one\n"
    assert (linked.project / "d" / "x").read_text() == "x\n"
    assert not os.path.lexists(linked.project / ".git")
    assert not os.path.lexists(linked.project / "pipe")


def test_files_that_are_large_and_empty_on_the_disk_are_named_and_not_read(linked: Linking) -> None:
    for name in ("big1", "big2"):
        (linked.seen / name).touch()
        os.truncate(linked.seen / name, 8_000_000_000)  # the limit of these links is 10 MB
    (linked.seen / "a.txt").write_text("c\n")
    began = time.monotonic()
    assert linked.changes() == {"M a.txt"}
    assert linked.found().changes.left_out == (("big1", "large"), ("big2", "large"))
    assert linked.apply() == 1
    assert time.monotonic() - began < 10
    assert not (linked.project / "big1").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root mounts")
def test_what_lies_on_a_mount_in_the_folder_is_named_and_the_rest_applied(linked: Linking) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "none", linked.project / "d"], check=True)
    try:
        (linked.project / "d" / "x").write_text("on the mount\n")
        write(linked.seen, {"d/x": "changed\n", "d/new/y": "new\n", "a.txt": "c\n"})
        assert linked.changes() == {"M a.txt"}
        left_out = dict(linked.found().changes.left_out)
        assert (left_out["d/x"], left_out["d/new/y"]) == ("mount", "mount")
        assert linked.apply() == 1
        assert files_in(linked.project / "d") == {"x": "on the mount\n"}
    finally:
        subprocess.run(["umount", linked.project / "d"], check=True)


def test_deletions_that_no_apply_repeats_are_named(overlay: Linking) -> None:
    os.mkfifo(overlay.project / "pipe")
    os.mkfifo(overlay.project / "d" / "pipe")
    write(overlay.project, {"d/sub/.git/HEAD": "x\n", "e/" * 102 + "bottom": "b\n"})
    overlay.folders.refresh(CHAT)
    (overlay.seen / "pipe").unlink()
    for name in ("d", "e"):
        shutil.rmtree(overlay.seen / name)
    left_out = dict(overlay.found().changes.left_out)
    assert (left_out.pop("pipe"), left_out.pop("d/pipe"), left_out.pop("d/sub/.git")) == (
        *("special", "special", "git"),
    )
    assert list(left_out.values()) == ["deep"]
    assert overlay.changes() == {"D d/deep/z", "D d/x", "D d/y"}
    overlay.apply()
    assert (overlay.project / "pipe").is_fifo()
    assert sorted(os.listdir(overlay.project / "d")) == ["pipe", "sub"]


def test_modes_are_applied_and_owners_stay(linked: Linking) -> None:
    (linked.project / "keep").chmod(0o640)
    if linked.how == "overlay":
        linked.folders.refresh(CHAT)
    (linked.seen / "keep").chmod(0o755)
    (linked.seen / "a.txt").write_text("c\n")
    assert linked.changes() == {"m keep", "M a.txt"}
    linked.apply()
    assert (linked.project / "keep").stat().st_mode & 0o777 == 0o750
    assert (linked.project / "a.txt").stat().st_uid == os.getuid()


def test_a_folder_that_cannot_be_written_stays_as_it_was(linked: Linking) -> None:
    if os.getuid() == 0:
        pytest.skip("root may write everywhere")
    write(linked.seen, {"a.txt": "c\n", "d/x": "c\n"})
    (linked.project / "d").chmod(0o500)
    with pytest.raises(FolderFault, match="as it was before"):
        linked.apply()
    (linked.project / "d").chmod(0o700)
    assert files_in(linked.project) == FILES


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), OSError(13, "Permission denied")])
def test_a_fault_at_a_change_puts_everything_back(
    linked: Linking, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    change(linked.seen)
    token = linked.found().token
    real, calls = applying._make, [0]

    def make(*words: object) -> None:
        calls[0] += 1
        if calls[0] == 6:
            raise error
        real(*words)  # type: ignore[arg-type]

    monkeypatch.setattr(applying, "_make", make)
    with pytest.raises(FolderFault, match="as it was before"):
        linked.folders.apply(CHAT, token)
    monkeypatch.undo()
    assert files_in(linked.project) == FILES
    assert linked.apply() == 8
    assert files_in(linked.project) == CHANGED


def test_a_folder_that_has_vanished_loses_no_change(linked: Linking) -> None:
    (linked.seen / "a.txt").write_text("kept\n")
    linked.folders.close(CHAT)
    linked.project.rename(linked.project.with_name("elsewhere"))
    for call in (lambda: linked.seen, linked.found, linked.apply):
        with pytest.raises(FolderFault, match="cannot be reached"):
            call()
    linked.project.with_name("elsewhere").rename(linked.project)
    assert linked.changes() == {"M a.txt"}


def test_another_folder_in_its_place_is_compared_anew(linked: Linking) -> None:
    (linked.seen / "a.txt").write_text("the chat's\n")
    linked.folders.record(CHAT)
    linked.folders.close(CHAT)
    shutil.rmtree(linked.project)
    write(linked.project, {"a.txt": "another\n"})
    assert linked.found().conflicts == {"a.txt"}
    with pytest.raises(FolderFault, match="same places"):
        linked.apply()


@pytest.mark.parametrize(
    "folder", ["/", "/etc", "/usr/lib", "/proc", "/home", "/tmp", "~", "HOME", "ABOVE", "IN", "FILE", "NONE"]
)
def test_folders_that_no_chat_may_have_are_refused(tmp_path: Path, folder: str) -> None:
    home = tmp_path / "home"
    (home / "workspace").mkdir(parents=True)
    (tmp_path / "file").touch()
    places = {"HOME": home, "ABOVE": tmp_path, "IN": home / "workspace", "FILE": tmp_path / "file"}
    place = places.get(folder) or Path("/nonexistent" if folder == "NONE" else folder).expanduser()
    with pytest.raises(FolderFault):
        folders_of(home, "copy").link(CHAT, place)
    assert not (home / "folders").exists()


def test_a_chat_keeps_its_folder_and_its_own_files(tmp_path: Path) -> None:
    with linking(tmp_path, "copy") as made:
        write(tmp_path, {"other/a": "a"})
        assert made.folders.link(CHAT, made.project).how == "copy"
        with pytest.raises(FolderFault, match="keeps that folder"):
            made.folders.link(CHAT, tmp_path / "other")
        write(made.home / "workspace" / "own", {"a": "a"})
        with pytest.raises(FolderFault, match="files of its own"):
            made.folders.link("own", made.project)


def test_a_folder_too_large_for_a_copy_says_which_limit(tmp_path: Path) -> None:
    with linking(tmp_path, "copy") as made:
        write(made.project, {f"many/{number}": "" for number in range(1001)})
        with pytest.raises(FolderFault, match="1,000 files"):
            made.folders.ready(CHAT)
        shutil.rmtree(made.project / "many")
        (made.project / "big").write_bytes(b"x" * 11_000_000)
        with pytest.raises(FolderFault, match="more than"):
            made.folders.ready(CHAT)
        assert not (made.home / "workspace" / CHAT).exists()
        assert (made.folders.shown(CHAT) / "a.txt").read_text() == "one\n"


STEPS = ("rename", "link", "unlink", "mkdir", "rmdir", "replace", "mknod", "fsync", "symlink", "fchmod")


def killed(home: Path, how: How, last: int) -> bool:
    """Apply in another process, killed before its change of this number; return True if it was."""
    if (pid := os.fork()) == 0:
        try:
            folders = folders_of(home, how)
            folders.start()
            with folders.found(CHAT) as (_, found):
                token = found.token
            count = 0

            def stepping(real: Callable[..., object]) -> Callable[..., object]:
                def step(*words: object, **named: object) -> object:
                    nonlocal count
                    count += 1
                    if count == last:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return real(*words, **named)

                return step

            for name in STEPS:
                setattr(os, name, stepping(getattr(os, name)))
            folders.apply(CHAT, token)
            os._exit(0)
        finally:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, -signal.SIGKILL)
    return code != 0


@pytest.mark.long
@pytest.mark.parametrize("how", WAYS)
def test_a_kill_at_any_step_leaves_all_or_nothing(tmp_path: Path, how: How) -> None:
    number, ends = 1, set[str]()
    with linking(tmp_path, how) as made:
        change(made.seen)
        made.folders.record(CHAT)
    saved = tmp_path / "saved"
    subprocess.run(["cp", "-a", tmp_path / "home", saved], check=True)
    while True:
        for name in ("home", "project"):
            shutil.rmtree(tmp_path / name)
        subprocess.run(["cp", "-a", saved, tmp_path / "home"], check=True)
        write(tmp_path / "project", FILES)
        was_killed = killed(tmp_path / "home", how, number)
        folders = folders_of(tmp_path / "home", how)
        folders.start()
        now = files_in(tmp_path / "project")
        assert now in (FILES, CHANGED), number
        ends.add("before" if now == FILES else "after")
        after = Linking(tmp_path / "home", tmp_path / "project", how, folders)
        assert len(after.found().changes.all) == (8 if now == FILES else 0), number
        assert not after.found().conflicts
        assert files_in(after.seen) == CHANGED, number
        if now == FILES:
            assert after.apply() == 8
        folders.close_all()
        assert files_in(tmp_path / "project") == CHANGED
        assert not list((tmp_path / "project").glob(".rumi*"))
        if not was_killed:
            break
        number += 1 if number < 4 else 5
    assert ends == {"before", "after"}
    assert number > 20


def test_the_end_of_the_process_ends_its_mounts(tmp_path: Path) -> None:
    if os.getuid():
        pytest.skip("only root mounts in the host's namespace")
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    write(project, FILES)
    code = f"""
import os, signal
from pathlib import Path
from tests.sandbox.folders.linking import CHAT, folders_of
made = folders_of(Path({str(home)!r}), "overlay", shared=True)
made.link(CHAT, Path({str(project)!r}))
print((made.ready(CHAT) / "a.txt").read_text(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "one\n\n", done.stderr
    deadline = time.monotonic() + 5
    while (mounted := str(home) in Path("/proc/self/mountinfo").read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not mounted


def test_a_start_removes_mounts_of_this_home_only(tmp_path: Path) -> None:
    if os.getuid():
        pytest.skip("only root mounts in the host's namespace")
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for home in (ours, theirs):
        (home / "folders" / CHAT / "view").mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "none", home / "folders" / CHAT / "view"], check=True)
    try:
        assert sweep(ours / "folders") == 1
        assert not os.path.ismount(ours / "folders" / CHAT / "view")
        assert os.path.ismount(theirs / "folders" / CHAT / "view")
    finally:
        sweep(theirs / "folders")
