"""Git's work tree around a folder, and the ignore rules for the folder's files, read without running git."""

import contextlib
import os
from pathlib import Path

from rumi.platform.openat import read_foreign
from rumi.sandbox.project.ignoring import Ignored, Outer, outer_rules, rules_below, tracked_in


def work_tree_of(folder: Path) -> Path | None:
    """Return the root of the git work tree that contains a folder, or None."""
    for parent in (folder, *folder.parents):
        if (git_folder(parent) / "HEAD").is_file():
            return parent
    return None


def git_folder(root: Path) -> Path:
    """Return the folder with git's own files for a work tree, including linked work trees."""
    git = root / ".git"
    with contextlib.suppress(OSError, UnicodeError):
        if git.is_file():
            kind, _, where = read_foreign(git, 5000).decode().partition(":")
            if kind == "gitdir":
                return root / where.strip()
    return git


def ignored_in(folder: Path, root: Path, top: int) -> tuple[Ignored, tuple[Outer, ...]]:
    """Return the rules for a folder in the work tree `root`, and those of them from outside the folder.

    `top` is the open folder. Blocking.
    """
    git, at = git_folder(root), os.path.relpath(folder, root)
    at = "" if at == "." else at
    outer = tuple(outer_rules(root, git, at))
    start = f"{at}/" if at else ""
    tracked = [path.removeprefix(start) for path in tracked_in(git / "index") if path.startswith(start)]
    return Ignored(rules_below(top), tracked, outer), outer
