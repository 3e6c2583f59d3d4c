"""The look at a workspace from outside: bounded, and never through a link."""

import os
from pathlib import Path

import pytest

from rumi.sandbox.overview import (
    MOST_FOLDERS,
    MOST_INNER_NAMES,
    MOST_INSTRUCTION_BYTES,
    MOST_NAMES,
    GitState,
    InstructionFile,
    instructions_in,
    overview,
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def test_a_workspace_that_does_not_exist_is_empty(tmp_path: Path) -> None:
    assert overview(tmp_path / "none") == overview(tmp_path / "neither")
    assert overview(tmp_path / "none").folders == ()


def test_names_are_two_levels_deep_and_bounded(workspace: Path) -> None:
    for folder in range(MOST_FOLDERS + 3):
        (workspace / f"f{folder:02}").mkdir()
        for name in range(MOST_INNER_NAMES + 5):
            (workspace / f"f{folder:02}" / f"n{name:02}").touch()
    for name in range(MOST_NAMES):
        (workspace / f"z{name:02}").touch()
    seen = overview(workspace)
    assert len(seen.folders) == 1 + MOST_FOLDERS
    top, first, *_ = seen.folders
    assert (len(top.names), top.left_out) == (MOST_NAMES, MOST_FOLDERS + 3)
    assert (first.path, len(first.names), first.left_out) == ("f00", MOST_INNER_NAMES, 5)


def test_no_link_is_followed(workspace: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / ".git").mkdir(parents=True)
    (outside / "AGENTS.md").write_text("secret")
    (outside / ".git" / "HEAD").write_text("ref: refs/heads/secret\n")
    (workspace / "AGENTS.md").symlink_to(outside / "AGENTS.md")
    (workspace / ".rumi").symlink_to(outside)
    (workspace / "linked").symlink_to(outside)
    (workspace / ".git").symlink_to(outside / ".git")
    os.mkfifo(workspace / "CLAUDE.md")
    seen = overview(workspace)
    assert (seen.instructions, seen.git, seen.folders[0].names) == ((), (), ())
    assert instructions_in(workspace) == ()


def test_a_long_instruction_file_is_cut_and_its_version_follows_its_text(workspace: Path) -> None:
    (workspace / ".rumi").mkdir()
    (workspace / ".rumi" / "AGENTS.md").write_text("x" * (MOST_INSTRUCTION_BYTES + 1))
    (found,) = overview(workspace).instructions
    assert (found.path, len(found.text), found.cut) == (".rumi/AGENTS.md", MOST_INSTRUCTION_BYTES, True)
    assert found.version != InstructionFile(found.path, found.text).version


def test_the_branch_the_commit_and_a_rebase_are_read_from_gits_files(workspace: Path) -> None:
    git = workspace / ".git"
    (git / "refs" / "heads" / "fix").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/fix/it\n")
    (git / "refs" / "heads" / "fix" / "it").write_text("0123456789" * 4 + "\n")
    assert overview(workspace).git == (GitState("", "fix/it", "0123456"),)
    (git / "HEAD").write_text("fedcba9876" * 4 + "\n")
    (git / "rebase-merge").mkdir()
    assert overview(workspace).git == (GitState("", "", "fedcba9", "rebase"),)
    for odd in ("", "ref: ../../etc/passwd", "ref: refs/heads/a\nb", "x" * 10_000):
        (git / "HEAD").write_text(odd)
        assert overview(workspace).git == ()


def test_a_branch_name_cannot_lead_out_of_the_repository(workspace: Path, tmp_path: Path) -> None:
    (workspace / ".git").mkdir()
    (tmp_path / "secret").write_text("0123456789" * 4)
    (workspace / ".git" / "HEAD").write_text("ref: refs/heads/../../../../secret\n")
    assert overview(workspace).git == (GitState("", "../../../../secret"),)
