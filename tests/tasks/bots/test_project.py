"""A bot's project on the host: what is ignored, how changes read, and what a kill or a fault leaves."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rumi.errors import RumiError
from rumi.platform.openat import read_foreign
from rumi.sandbox.project import applying
from rumi.sandbox.project.changes import Changes, FileChange, unified
from rumi.sandbox.project.ignoring import outer_rules, tracked_in
from rumi.sandbox.project.tree import ProjectEntry, ProjectLimits, is_gits, stays_inside
from rumi.tasks.bots.config import BotError
from rumi.tasks.bots.files import BotFiles
from rumi.tasks.bots.project.applying import apply
from rumi.tasks.bots.project.link import Project
from rumi.tasks.bots.project.showing import apply_shown, show_changes
from tests.fakes.git_server import GIT_ENV, git

BOUNDS = ProjectLimits(10_000_000, 1000)


class Killed(BaseException):
    """The process ends here, and no handler of an expected error runs."""


def files_of(folder: Path) -> dict[str, tuple[bytes, bool]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), os.access(path, os.X_OK))
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink() and ".rumi-apply-" not in str(path)
    }


def a_bot(root: Path, folder: Path) -> Project:
    """A bot that has got the folder, as a session would have given it."""
    files = BotFiles(root)
    if not files.has("garden"):
        files.create("garden")
    project = files.project("garden")
    link = project.take(folder, BOUNDS, plain=True, discard=True)
    shutil.rmtree(project.workspace, ignore_errors=True)
    project.workspace.mkdir(parents=True)
    shutil.copytree(project.base(link), project.workspace / "project", symlinks=True)
    project.made(link)
    return project


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    for name in ("a/one", "a/two", "b", "c", "d/deep/x"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(f"{name}\n")
    return made


def changed(project: Project) -> None:
    """Change, add, delete, and make a file a folder."""
    theirs = project.workspace / "project"
    (theirs / "a" / "one").write_text("changed\n")
    (theirs / "new" / "in").mkdir(parents=True)
    (theirs / "new" / "in" / "it").write_text("new\n")
    (theirs / "b").unlink()
    (theirs / "b").mkdir()
    (theirs / "b" / "x").write_text("was a file\n")
    shutil.rmtree(theirs / "d")
    (theirs / "d").write_text("was a folder\n")
    (theirs / "c").chmod(0o755)


def applied(project: Project) -> int:
    with project.changed(BOUNDS) as changes:
        return apply(project, project.needed(), changes)


STEPS = ("rename", "link", "unlink", "mkdir", "rmdir")


@pytest.fixture
def at_step(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, BaseException], list[int]]]:
    """Have a change of a file system raise, the one of that number."""

    def begin(number: int, error: BaseException) -> list[int]:
        count = [0]

        def stepping(real: Callable[..., object]) -> Callable[..., object]:
            def step(*words: object, **named: object) -> object:
                if "dst_dir_fd" not in named and "dir_fd" not in named:
                    return real(*words, **named)
                count[0] += 1
                if count[0] == number:
                    raise error
                return real(*words, **named)

            return step

        for name in STEPS:
            monkeypatch.setattr(os, name, stepping(getattr(os, name)))
        return count

    yield begin
    monkeypatch.undo()


@pytest.mark.long
def test_a_kill_at_any_step_loses_nothing_and_the_next_run_does_the_rest(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch,
    at_step: Callable[[int, BaseException], list[int]],
) -> None:  # fmt: skip
    origin = tmp_path / "origin"
    shutil.copytree(folder, origin)
    number = 0
    while True:
        number += 1
        shutil.rmtree(folder)
        shutil.copytree(origin, folder)
        project = a_bot(tmp_path / "root", folder)
        changed(project)
        wanted = files_of(project.workspace / "project")
        count = at_step(number, Killed())
        try:
            applied(project)
            ended = True
        except Killed:
            ended = False
        monkeypatch.undo()
        if not ended:
            applied(project)
        assert files_of(folder) == wanted, number
        with project.changed(BOUNDS) as changes:
            assert changes.all == (), number
        assert not list(folder.glob(".rumi*"))
        if ended:
            assert count[0] > 15
            return


@pytest.mark.long
def test_a_fault_at_any_step_leaves_the_folder_as_it_was(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch,
    at_step: Callable[[int, BaseException], list[int]],
) -> None:  # fmt: skip
    origin = tmp_path / "origin"
    shutil.copytree(folder, origin)
    number, said = 0, set()
    while True:
        number += 1
        shutil.rmtree(folder)
        shutil.copytree(origin, folder)
        project = a_bot(tmp_path / "root", folder)
        changed(project)
        before, wanted = files_of(folder), files_of(project.workspace / "project")
        count = at_step(number, OSError(28, "No space left on device"))
        message = ""
        try:
            applied(project)
        except BotError as error:
            message = error.message
        monkeypatch.undo()
        is_there = not message or "could not be noted" in message
        assert files_of(folder) == (wanted if is_there else before), (number, message)
        applied(project)
        assert files_of(folder) == wanted, number
        said.add(message.rpartition(": ")[0].rpartition(" ")[2])
        if count[0] < number:
            assert number > 15
            assert len(said) > 2
            return


def test_a_change_that_comes_while_it_is_applied_is_a_conflict(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = a_bot(tmp_path / "root", folder)
    changed(project)
    before = files_of(folder)
    real = applying._prepare

    def prepare(*words: object) -> None:
        (folder / "a" / "one").write_text("the user's\n")
        real(*words)  # type: ignore[arg-type]

    monkeypatch.setattr(applying, "_prepare", prepare)
    with pytest.raises(BotError, match="nothing was applied"):
        applied(project)
    assert files_of(folder) == {**before, "a/one": (b"the user's\n", False)}


def test_what_was_shown_is_applied_and_nothing_newer(tmp_path: Path, folder: Path) -> None:
    project = a_bot(tmp_path / "root", folder)
    one = project.workspace / "project" / "a" / "one"
    one.write_text("shown\n")
    with project.changed(BOUNDS) as changes:
        assert "+shown" in list(unified(changes))
        one.write_text("newer\n")
        apply(project, project.needed(), changes)
    assert (folder / "a" / "one").read_text() == "shown\n"
    with project.changed(BOUNDS) as changes:
        assert list(unified(changes))[-2:] == ["-shown", "+newer"]


def test_what_git_ignores_does_not_come_along(tmp_path: Path) -> None:
    top = tmp_path / "work"
    rules = {
        ".gitignore": "*.o\n!keep.o\n/build/\nlogs/**/x\n\\#odd\nsp\\ ace\n[ab]?.txt\n**/deep\n",
        "sub/.gitignore": "!*.o\nlocal\n",
    }
    names = [
        "a.o", "keep.o", "build/x", "sub/build/x", "sub/a.o", "sub/local", "local", "logs/1/2/x", "logs/x",
        "#odd", "sp ace", "ab.txt", "cb.txt", "x/deep/y", "build/tracked", "excluded", "é.o",
        "sub/excluded/z",
    ]  # fmt: skip
    for name, text in {**dict.fromkeys(names, "x"), **rules}.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    git(top, "init", "--quiet", "--initial-branch=main", ".")
    (top / ".git" / "info" / "exclude").write_text("excluded\n")
    git(top, "add", "--force", "build/tracked")
    for at in (top, top / "sub"):
        listed = git(at, "ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0")
        project = a_bot(tmp_path / "root", at)
        assert set(files_of(project.base(project.needed()))) == set(filter(None, listed))


@pytest.mark.parametrize("version", ["2", "3", "4"])
@pytest.mark.parametrize("kind", ["sha1", "sha256"])
def test_the_index_is_read_in_each_of_its_forms(tmp_path: Path, version: str, kind: str) -> None:
    git(tmp_path, "init", "--quiet", f"--object-format={kind}", ".")
    names = ["a", "a/b".replace("/", "-"), "dir/é", "dir/longer/name", "z" * 100]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    git(tmp_path, "add", "--all")
    if version == "3":
        git(tmp_path, "rm", "--quiet", "--cached", "a")
        git(tmp_path, "add", "--intent-to-add", "a")
    else:
        git(tmp_path, "update-index", "--index-version", version)
    assert tracked_in(tmp_path / ".git" / "index") == set(names)
    data = (tmp_path / ".git" / "index").read_bytes()
    (tmp_path / ".git" / "index").write_bytes(data[: len(data) // 2])
    assert tracked_in(tmp_path / ".git" / "index") == set()


LINES = st.lists(st.sampled_from(["a", "b", "", "c d", "-x", "+y"]), max_size=30).map("\n".join)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=LINES, after=LINES)
def test_a_diff_is_one_that_git_applies(tmp_path: Path, before: str, after: str) -> None:
    shutil.rmtree(tmp_path, ignore_errors=True)
    (tmp_path / "base").mkdir(parents=True)
    (tmp_path / "base" / "f").write_text(before)
    (tmp_path / "0").write_text(after)
    one, other = ProjectEntry("file", "x", len(before)), ProjectEntry("file", "y", len(after))
    changes = Changes((FileChange("f", one, other, 0),), (), tmp_path / "base", tmp_path)
    diff = "".join(f"{line}\n" for line in unified(changes))
    if before != after:
        words = ["git", "-C", str(tmp_path / "base"), "apply", "--whitespace=nowarn", "-"]
        subprocess.run(words, input=diff, text=True, check=True, env=GIT_ENV)
    assert (tmp_path / "base" / "f").read_text() == after


def test_two_long_texts_are_compared_in_little_time(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x\ny\n" * 100_000)
    (tmp_path / "0").write_text("y\nx\nz\n" * 100_000)
    one, other = ProjectEntry("file", "x", 1), ProjectEntry("file", "y", 1)
    changes = Changes((FileChange("f", one, other, 0),), (), tmp_path, tmp_path)
    assert len(list(unified(changes))) > 400_000


def test_only_links_that_stay_in_the_project_come_back() -> None:
    for path, target in (("a", "b"), ("d/a", "../b"), ("d/e/a", "../../b/c"), ("a", "./b")):
        assert stays_inside(path, target), (path, target)
    for path, target in (
        ("a", "/etc/passwd"), ("a", "../b"), ("d/a", "../../b"), ("a", "b/../../c"), ("a", "d/.."),
        ("a", ".git/config"), ("d/a", "../.GIT/hooks"), ("a", ""), ("a", "x" * 5000),
    ):  # fmt: skip
        assert not stays_inside(path, target), (path, target)
    theirs = (".git", ".GIT", ".git ", ".git.", "GIT~1", ".g\u200cit", ".git::$DATA")
    assert all(map(is_gits, theirs))
    assert not any(map(is_gits, (".gitignore", ".github", "git", ".gitattributes")))


def test_a_folder_that_holds_rumi_or_too_much_is_refused(tmp_path: Path, folder: Path) -> None:
    files = BotFiles(tmp_path / "root")
    files.create("garden")
    project = files.project("garden")
    with pytest.raises(BotError, match="Rumi's own"):
        project.take(tmp_path, BOUNDS, plain=True, discard=False)
    for bounds in (ProjectLimits(3, 100), ProjectLimits(1000, 3)):
        with pytest.raises(BotError, match="more than"):
            project.take(folder, bounds, plain=True, discard=False)
    assert project.link() is None
    assert list(project.state.iterdir()) == []
    project.workspace.mkdir(parents=True)
    (project.workspace / "project").mkdir()
    with pytest.raises(BotError, match="files of its own"):
        project.take(folder, BOUNDS, plain=True, discard=False)


@pytest.mark.parametrize("kind", ["pipe", "link", "sparse", "folder"])
def test_hostile_files_of_git_around_a_project_are_read_as_nothing(tmp_path: Path, kind: str) -> None:
    git = tmp_path / ".git"
    (git / "info").mkdir(parents=True)
    (tmp_path / "secret").write_text("hidden-rule\n")
    for path in (git / "index", git / "info" / "exclude", tmp_path / ".gitignore"):
        match kind:
            case "pipe":
                os.mkfifo(path)
            case "link":
                path.symlink_to(tmp_path / "secret")
            case "folder":
                path.mkdir()
            case _:
                path.touch()
                os.truncate(path, 1 << 40)
    assert tracked_in(git / "index") == set()
    words = [rule.text for rule in outer_rules(tmp_path, git, "inner")]
    assert not any("hidden-rule" in word for word in words)


def test_no_read_of_a_foreign_file_waits_or_follows(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("words")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 1 << 40)
    for name in ("pipe", "link", "sparse", "none"):
        with pytest.raises(OSError, match=r".+"):
            read_foreign(tmp_path / name, 100)
    with pytest.raises(OSError, match="not a regular file"):
        read_foreign(Path("/dev/zero"), 100)
    assert read_foreign(tmp_path / "file", 5) == b"words"
    assert read_foreign(tmp_path / "link", 5, own_link=True) == b"words"
    with pytest.raises(OSError, match="too large"):
        read_foreign(tmp_path / "file", 4)


def test_exactly_the_changes_that_were_shown_are_applied(tmp_path: Path, folder: Path) -> None:
    project = a_bot(tmp_path / "home", folder)
    assert show_changes(project, BOUNDS).files == ()
    changed(project)
    seen = show_changes(project, BOUNDS)
    assert ("M", "a/one") in seen.files
    assert "+changed" in seen.lines
    (project.workspace / "project" / "a" / "one").write_text("changed again\n")
    with pytest.raises(RumiError, match="has changed its files meanwhile"):
        apply_shown(project, BOUNDS, seen.token)
    assert (folder / "a" / "one").read_text() == "a/one\n"
    assert apply_shown(project, BOUNDS, show_changes(project, BOUNDS).token) > 0
    assert (folder / "a" / "one").read_text() == "changed again\n"
    assert show_changes(project, BOUNDS).files == ()
