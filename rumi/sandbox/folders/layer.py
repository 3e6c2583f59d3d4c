"""Reading and cleaning the upper layer of an overlay: what a chat has changed in its folder.

The kernel marks a deleted name with a character device 0:0 (a whiteout), and a folder that replaces all of
the folder beneath with an attribute (opaque). Commands control names and content; they cannot make these
marks themselves. No link is followed. Only `drop` writes, and only while the layer is not mounted.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Collection, Iterator
from typing import Final

from rumi.platform.openat import FOLDER, READ, is_ordinary, openat2, opened
from rumi.sandbox.entries import OPAQUE, is_opaque, is_whiteout
from rumi.sandbox.project.tree import (
    DRAFT,
    UNBOUNDED,
    UNREADABLE,
    ProjectEntry,
    ProjectTree,
    file_entry,
    is_gits,
    scan,
)

ORIGIN: Final = "user.overlay.origin"
"""Attribute of a changed file that the kernel has copied from the folder beneath."""

_MOST_DEPTH: Final = 256


class Layer:
    """What an open upper layer changes in the open folder `lower`.

    `after` has the new entry of each changed path, and None for a deleted one. Without `digests`, files have
    no hash, and nothing is read. With it, files are left out as soon as all together have more than `most`
    bytes: a sparse file has few on the disk, and takes as long to read as another. `copied` are the paths
    that existed beneath when they were changed.
    """

    def __init__(self, upper: int, lower: int, *, digests: bool, most: int = UNBOUNDED.bytes) -> None:
        self.after: dict[str, ProjectEntry | None] = {}
        self.left_out: list[tuple[str, str]] = []
        self.copied: set[str] = set()
        self._lower = lower
        self._digests = digests
        self._left = most
        with opened(os.dup(upper)) as top:
            self._folder(top, "", 0)

    def tree(self) -> ProjectTree:
        """Return the entries that exist."""
        tree = ProjectTree({path: entry for path, entry in self.after.items() if entry is not None})
        tree.left_out = list(self.left_out)  # type: ignore[arg-type]
        return tree

    def _folder(self, folder: int, path: str, depth: int) -> None:
        for name in sorted(os.listdir(folder)):
            here = f"{path}/{name}" if path else name
            if is_gits(name):
                if depth or name != ".git":
                    self.left_out.append((here, "git"))
            elif not name.startswith(DRAFT):
                try:
                    self._entry(folder, name, here, depth)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    if error.errno not in UNREADABLE:
                        raise
                    self.left_out.append((here, "unreadable"))

    def _entry(self, folder: int, name: str, here: str, depth: int) -> None:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if is_whiteout(status):
            self._gone(here)
        elif stat.S_ISDIR(status.st_mode):
            if depth >= _MOST_DEPTH:
                self.left_out.append((here, "deep"))
                return
            with opened(os.open(name, FOLDER, dir_fd=folder)) as inner:
                # A folder that took the place of a file, or of a whole folder, is opaque.
                if is_opaque(inner):
                    self._gone(here)
                self._folder(inner, here, depth + 1)
        elif stat.S_ISLNK(status.st_mode):
            self._gone_below(here)
            self.after[here] = ProjectEntry("link", os.readlink(name, dir_fd=folder))
        elif stat.S_ISREG(status.st_mode):
            self._gone_below(here)
            with opened(os.open(name, READ, dir_fd=folder)) as file:
                if not is_ordinary(file):
                    self.left_out.append((here, "special"))
                    return
                if self._digests:
                    size = os.fstat(file).st_size
                    if size > self._left:
                        self.left_out.append((here, "large"))
                        return
                    self._left -= size
                with contextlib.suppress(OSError):
                    os.getxattr(file, ORIGIN)
                    self.copied.add(here)
                self.after[here] = file_entry(file) if self._digests else ProjectEntry("file", "")
        else:
            self.left_out.append((here, "special"))

    def _gone(self, here: str) -> None:
        """Mark everything at a path of the folder beneath as deleted. A folder's own entries follow."""
        if self._gone_below(here) or (status := entry_at_without_content(self._lower, here)) is None:
            return
        if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
            self.after[here] = None
        elif not stat.S_ISDIR(status.st_mode):
            self.left_out.append((here, "special"))

    def _gone_below(self, here: str) -> bool:
        """Mark everything below a path of the folder beneath as deleted; return False if it is no folder."""
        try:
            folder = openat2(self._lower, os.fsencode(here), FOLDER)
        except OSError:
            return False
        with opened(folder):
            found = scan(folder, UNBOUNDED, None, lambda path, entry, file: entry)
        self.after.update({f"{here}/{path}": None for path in found.entries})
        self.left_out += [(f"{here}/{path}", reason) for path, reason in found.left_out]
        return True


def entry_at_without_content(top: int, path: str) -> os.stat_result | None:
    """Return the status of an entry below an open folder, or None. Follows no link."""
    try:
        with opened(openat2(top, os.fsencode(path), os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)) as found:
            return os.fstat(found)
    except OSError:
        return None


def drop(upper: int, lower: int, paths: Collection[str]) -> None:
    """Remove the changes of these paths from an open upper layer, so that the folder beneath shows there.

    Idempotent. The layer must not be mounted.

    Raises:
        OSError: The layer cannot be written.
    """
    # Deep paths first, so that a new folder in the place of a file is empty when its own turn comes.
    for path in sorted(paths, key=lambda path: -path.count("/")):
        try:
            _drop(upper, lower, path)
        except OSError as error:
            # Not changed; a file hides the folder it was in; or other changes are below it.
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ENOTEMPTY):
                raise


def _drop(upper: int, lower: int, path: str) -> None:
    *above, name = path.split("/")
    with contextlib.ExitStack() as stack:
        folders = [stack.enter_context(opened(os.dup(upper)))]
        for depth, step in enumerate(above):
            here = "/".join(above[: depth + 1])
            _spread(folders[-1], step, lower, here)
            folders.append(stack.enter_context(opened(os.open(step, FOLDER, dir_fd=folders[-1]))))
        status = os.stat(name, dir_fd=folders[-1], follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            os.rmdir(name, dir_fd=folders[-1])
        else:
            os.unlink(name, dir_fd=folders[-1])
        for depth in reversed(range(len(above))):
            if is_opaque(folders[depth + 1]) or os.listdir(folders[depth + 1]):
                break
            os.rmdir(above[depth], dir_fd=folders[depth])


def _spread(folder: int, name: str, lower: int, here: str) -> None:
    """Replace the mark that hides a whole folder by marks for each of its names."""
    beneath: list[str] = []
    is_folder = False
    with contextlib.suppress(OSError), opened(openat2(lower, os.fsencode(here), FOLDER)) as found:
        beneath, is_folder = os.listdir(found), True
    if is_whiteout(os.stat(name, dir_fd=folder, follow_symlinks=False)):
        if not is_folder:
            os.unlink(name, dir_fd=folder)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        # Prepared beside it: killed in between, the old mark still counts.
        draft = f"{DRAFT}{name}"[:200]
        with contextlib.suppress(FileExistsError):
            os.mkdir(draft, 0o700, dir_fd=folder)
            _own(draft, folder)
        with opened(os.open(draft, FOLDER, dir_fd=folder)) as inner:
            _whiteouts(inner, beneath)
        os.unlink(name, dir_fd=folder)
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        return
    with opened(os.open(name, FOLDER, dir_fd=folder)) as inner:
        if is_opaque(inner) and is_folder:
            _whiteouts(inner, beneath)
            os.removexattr(inner, OPAQUE)


def _whiteouts(folder: int, names: Collection[str]) -> None:
    for name in names:
        with contextlib.suppress(FileExistsError):
            os.mknod(name, stat.S_IFCHR, os.makedev(0, 0), dir_fd=folder)
            _own(name, folder)


def _own(name: str, folder: int) -> None:
    if os.geteuid() == 0:
        owner = os.fstat(folder)
        os.chown(name, owner.st_uid, owner.st_gid, dir_fd=folder, follow_symlinks=False)


def below(paths: Collection[str], chosen: Collection[str]) -> Iterator[str]:
    """Yield the paths that are among the chosen ones or below them."""
    for path in paths:
        if any(path == one or path.startswith(f"{one}/") for one in chosen):
            yield path
