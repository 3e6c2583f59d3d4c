"""The commit of the program is read from a file of the package, or from git's files."""

import os
import subprocess
from pathlib import Path

import pytest

from rumi.platform.commit import commit_of, version

ONE, TWO = "1" * 40, "2" * 40


def git(folder: Path, *words: str) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    name = ("-c", "user.name=Rumi", "-c", "user.email=rumi@example.org")
    command = ["git", *name, *words]
    done = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    root = tmp_path / "clone"
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch", "a/branch")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "One")
    return root


def test_it_is_what_git_says_on_a_branch_detached_and_packed(clone: Path) -> None:
    head = git(clone, "rev-parse", "HEAD")
    assert commit_of(str(clone)) == head
    git(clone, "pack-refs", "--all")
    assert not (clone / ".git/refs/heads/a").exists()
    assert commit_of(str(clone)) == head
    git(clone, "checkout", "--quiet", "--detach")
    assert commit_of(str(clone)) == head


def test_a_work_tree_has_its_own_head_and_the_clones_branches(clone: Path, tmp_path: Path) -> None:
    git(clone, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "tree"))
    git(tmp_path / "tree", "commit", "--quiet", "--allow-empty", "--message", "Two")
    for packed in (False, True):
        if packed:
            git(clone, "pack-refs", "--all")
        assert commit_of(str(tmp_path / "tree")) == git(tmp_path / "tree", "rev-parse", "HEAD")
        assert commit_of(str(clone)) == git(clone, "rev-parse", "HEAD")


@pytest.mark.parametrize(
    "head",
    [
        "",
        "ref: refs/heads/none",
        "ref: ../../secret",
        "ref: refs/../../x",
        "\0",
        "g" * 40,
        "1" * 41,
        "1" * 9000,
    ],
)
def test_an_odd_head_is_no_commit(tmp_path: Path, head: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").write_text(f"{head}\n")
    (tmp_path / "x").write_text(ONE)
    assert commit_of(str(tmp_path)) == ""


def test_no_clone_a_pipe_and_a_folder_are_no_commit(tmp_path: Path) -> None:
    assert commit_of(str(tmp_path)) == ""
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / ".git/HEAD")
    assert commit_of(str(tmp_path)) == ""
    os.unlink(tmp_path / ".git/HEAD")
    (tmp_path / ".git/HEAD").mkdir()
    assert commit_of(str(tmp_path)) == ""


def test_the_version_has_seven_digits_of_a_known_commit() -> None:
    assert version("1.2.3", TWO) == "1.2.3 (commit 2222222)"
    assert version("1.2.3", "") == "1.2.3"
