"""What the tests of linked folders share: a home, a project, and the folder as commands see it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rumi.sandbox.folders.linked import Found, LinkedFolders
from rumi.sandbox.folders.links import How
from rumi.sandbox.folders.views import Views
from rumi.sandbox.project.changes import stat_lines
from rumi.sandbox.project.tree import ProjectLimits

USER = (os.getuid(), os.getgid()) if os.getuid() else (0x70001234, 0x70001234)
CHAT = "here"
FILES = {"a.txt": "one\n", "d/x": "x\n", "d/y": "y\n", "d/deep/z": "z\n", "keep": "k\n"}


@dataclass(frozen=True, slots=True)
class Linking:
    """One chat that is linked to a project, in a home of its own."""

    home: Path
    project: Path
    how: How
    folders: LinkedFolders

    @property
    def seen(self) -> Path:
        """The files as commands see them."""
        return self.folders.ready(CHAT)

    def changes(self, *paths: str) -> set[str]:
        """Return the letter and the path of each change."""
        with self.folders.found(CHAT, paths) as (_, found):
            return {f"{letter} {path}" for letter, path in stat_lines(found.changes)}

    def found(self, *paths: str) -> Found:
        """Return the changes, without the copies of their content."""
        with self.folders.found(CHAT, paths) as (_, found):
            return found

    def apply(self, *paths: str) -> int:
        """Apply what is shown."""
        return self.folders.apply(CHAT, self.found(*paths).token, paths)


def folders_of(home: Path, how: How, *, shared: bool = False) -> LinkedFolders:
    """Return the links of a home, as a new process has them."""
    views = Views(USER, shared=shared) if how == "overlay" else None
    bounds = ProjectLimits(10_000_000, 1000)
    return LinkedFolders(home, home / "folders", home / "workspace", USER, bounds, views)


def write(folder: Path, files: dict[str, str]) -> None:
    """Write files by their paths."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def files_in(folder: Path) -> dict[str, str]:
    """Return the content of all files below a folder, and the targets of links."""
    return {
        str(path.relative_to(folder)): f"-> {os.readlink(path)}" if path.is_symlink() else path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


@contextmanager
def linking(path: Path, how: How) -> Iterator[Linking]:
    """A project with `FILES`, and a chat that sees it through an overlay or as a copy."""
    home, project = path / "home", path / "project"
    home.mkdir(exist_ok=True)
    write(project, FILES)
    folders = folders_of(home, how)
    assert folders.link(CHAT, project).how == how
    try:
        yield Linking(home, project, how, folders)
    finally:
        folders.close_all()


def change(seen: Path) -> None:
    """Change, add, delete; make a file a folder and a folder a file; replace a folder."""
    (seen / "a.txt").write_text("changed\n")
    write(seen, {"new/in/it": "new\n"})
    (seen / "keep").unlink()
    write(seen, {"keep/x": "was a file\n"})
    for name in ("x", "y"):
        (seen / "d" / name).unlink()
    (seen / "d" / "deep" / "z").unlink()
    (seen / "d" / "deep").rmdir()
    (seen / "d").rmdir()
    (seen / "d").write_text("was a folder\n")
