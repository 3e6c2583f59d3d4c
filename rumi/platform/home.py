"""The home (`RUMI_HOME`): the folder of an installation, the paths in it, and its lock."""

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from rumi.errors import UsageError
from rumi.platform import home_permissions
from rumi.platform.atomic_write import FolderSwap
from rumi.platform.openat import opened
from rumi.texts import Text

if TYPE_CHECKING:
    pass

BRIEFLY = "rumi memory ("
BRIEF_S = 3.0
LOOK_S = 0.1
LOOK_AT_LOCK_S = 5.0
GONE_AFTER = 2
"""A process waits at most `BRIEF_S` seconds for the home's lock if the lock's owner is a brief command (its
purpose begins with `BRIEFLY`), and at most `LOOK_S` seconds for any other owner. A running process checks its
lock file every `LOOK_AT_LOCK_S` seconds; if it is missing `GONE_AFTER` times in a row, the home counts as
deleted.
"""

_INSTALLATION = re.compile(r"[0-9a-f]{12}")


class HomeLocked(UsageError):
    """Another process has locked the home."""


class UnsafeHome(UsageError):
    """The home is unsafe: other users may have put files into it, or a link in it leads out of it."""


@dataclass(frozen=True, slots=True)
class Danger:
    """One reason why a home is unsafe. `kind` is a constant of `rumi.platform.home_permissions`."""

    kind: str
    home: Path
    path: Path
    number: int

    def said(self) -> tuple[str, str]:
        """Describe the danger for users: return a sentence that names it, and a sentence with advice."""
        folder, path = shlex.quote(str(self.home)), shlex.quote(str(self.path))
        match self.kind:
            case home_permissions.ANOTHERS:
                found = Text(
                    "{home} belongs to user {owner}, and this is user {user}; nothing in it was looked at.",
                    home=self.home,
                    owner=self.number,
                    user=os.geteuid(),
                )
                fix = Text("Run Rumi as its owner, or set RUMI_HOME to a folder you own.")
                return found, fix
            case home_permissions.WRITABLE:
                fix = Text(
                    "Make sure that nothing in it comes from somebody else, then: chmod 700 {folder}",
                    folder=folder,
                )
                return Text(
                    "{home} can be written by others (mode {number}).",
                    home=self.home,
                    number=f"{self.number:o}",
                ), fix
            case home_permissions.READABLE:
                return Text(
                    "{home} can be read by others (mode {number}).", home=self.home, number=f"{self.number:o}"
                ), Text("chmod 700 {folder}", folder=folder)
            case home_permissions.LINK:
                found = Text(
                    "{path} is a link: what Rumi writes there would go to {target}.",
                    path=self.path,
                    target=os.readlink(self.path),
                )
                fix = Text(
                    "Remove it: rm {path}. If it has to be on another disk, mount that disk there.", path=path
                )
                return found, fix
            case _:
                found = Text(
                    "{home} has files of another user: {file}.",
                    home=self.home,
                    file=os.path.relpath(self.path, self.home),
                )
                return found, Text("As root: chown -R {user} {path}", user=os.geteuid(), path=path)


@dataclass(frozen=True, slots=True)
class Home:
    """A home and the paths in it. The folder has mode 0700, so only its owner can use it.

    `files` is the folder of the chats' files if `[store] workspaces` names a folder outside the home.
    """

    root: Path
    files: Path | None = None

    @property
    def workspaces(self) -> Path:
        """The folder with the chats' workspaces. A sandbox mounts its chat's workspace at /workspace."""
        return self.files or workspaces_in(self.root)

    @property
    def snapshots(self) -> Path:
        """The folder with snapshots of chats' files, taken before each turn, so that it can be undone.

        The folder is on the same file system as the chats' files, so that an undo can restore a snapshot by
        renaming.
        """
        return self.files / ".undo" if self.files is not None else self.root / "undo"

    @property
    def folders(self) -> Path:
        """The folder with the state of chats that work on a folder of a person: the link and the changes."""
        return self.root / "folders"

    @property
    def state_db(self) -> Path:
        """The database with the inbox, the outbox and the history of chats."""
        return self.root / "state.db"

    @property
    def memory_db(self) -> Path:
        """The database with the facts about users."""
        return self.root / "memory.db"

    @property
    def recall_db(self) -> Path:
        """The search index of earlier messages, which can be rebuilt from `state.db`."""
        return self.root / "recall.db"

    @property
    def logs(self) -> Path:
        """The folder of the audit log and of the program log."""
        return self.root / "logs"

    @property
    def run(self) -> Path:
        """The folder of files that belong to a running process: the lock and the control socket."""
        return self.root / "run"

    @property
    def rootfs(self) -> Path:
        """The root file system of the sandboxes."""
        return self.root / "rootfs"

    @property
    def packages(self) -> Path:
        """The Python packages of bubblewrap's sandboxes."""
        return self.root / "packages"

    @property
    def tasks(self) -> Path:
        """The parent folder of the tasks' folders. Only Rumi itself writes there, never a sandbox."""
        return self.root / "tasks"

    @property
    def reserve(self) -> Path:
        """The file that reserves disk space; it is deleted when the disk is full."""
        return self.root / "reserve"

    @property
    def restoring(self) -> FolderSwap:
        """The folder swap with which a restore replaces entries of the home, retaining the old ones."""
        return FolderSwap(self.root, self.root / "restoring", self.root / "before-restore")

    @property
    def terminal_history(self) -> Path:
        """The file with the history of lines typed in the terminal."""
        return self.root / "terminal_history"

    def with_files(self, folder: str | None) -> "Home":
        """Return a copy of this home with the chats' files in `folder`; None selects the default folder."""
        return replace(self, files=None if folder is None else Path(folder))

    def make(self) -> "Home":
        """Create the missing folders, and return the home.

        Raises:
            UsageError: The home belongs to another user, or cannot be written.
        """
        try:
            for folder in (self.root, workspaces_in(self.root), self.logs, self.run):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise self.unusable(error) from error
        return self

    def dangers(self) -> list[Danger]:
        """Return the reasons why the home is unsafe, the worst first. Changes nothing. Blocks briefly."""
        return [
            Danger(kind, self.root, Path(path), number)
            for kind, path, number in home_permissions.dangers(str(self.root))
        ]

    def refuse_if_unsafe(self) -> bool:
        """Refuse a home that other users could have changed. If they can only read it, set its mode to 700.

        Return True if the mode was changed. A home that others can read and that also contains files that are
        not Rumi's is refused, and its mode stays unchanged.

        Raises:
            UnsafeHome: The home is unsafe. The error says why and what to do.
        """
        found = self.dangers()
        refused = [danger for danger in found if danger.kind != home_permissions.READABLE]
        if found and not refused and home_permissions.has_only_own_files(str(self.root)):
            with contextlib.suppress(OSError):  # for example, a disk that is mounted read-only
                self.root.chmod(0o700)
                return True
        for danger in refused or found:
            raise UnsafeHome(*danger.said())
        return False

    def installation(self) -> str:
        """Return this installation's id, twelve hexadecimal digits; create a missing id. Blocks briefly.

        The id never changes, because it distinguishes this installation's containers from the containers of
        other installations.

        Raises:
            UsageError: The home cannot be written, or the file does not contain a valid id.
        """
        path = self.root / "installation"
        try:
            if not path.exists():
                self.make()
                self._make_installation(path)
            found = path.read_text("ascii").strip()
        except (OSError, UnicodeError) as error:
            raise self.unusable(error) from error
        if _INSTALLATION.fullmatch(found) is None:
            raise UsageError(
                "{path} should hold twelve hexadecimal digits and holds {found}.",
                "Restore it from a backup. If you delete it, remove this installation's containers yourself.",
                path=path,
                found=f"{found[:40]!r}",
            )
        return found

    def _make_installation(self, path: Path) -> None:
        """Create the file with a new installation id, unless another process creates it first."""
        # A complete draft is linked to the name, and `link` never replaces a file: of two simultaneous starts
        # both read the same id, and none reads half of one.
        draft = self.root / f".installation-{secrets.token_hex(4)}"
        try:
            with open(
                os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="ascii"
            ) as file:
                file.write(secrets.token_hex(6) + "\n")
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)
        finally:
            draft.unlink(missing_ok=True)

    @contextmanager
    def lock(self, purpose: str) -> Iterator[Callable[[], None]]:
        """Lock the home for this process. The kernel releases the lock when the process ends.

        A forked process shares the lock, even after this process has left the block. The context manager
        yields a function that the fork calls to write its process id into the lock file. If a restore
        was killed while it replaced files, the restore is completed before the block starts.

        Raises:
            HomeLocked: Another process has locked the home; the message names that process.
            UsageError: The home cannot be written.
        """
        self.make()
        try:
            lock = os.open(self.run / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self.unusable(error) from error
        with opened(lock):
            self._acquire(lock)

            def write_lock_owner() -> None:
                with contextlib.suppress(OSError):  # on a full disk, others see the lock but not its owner
                    signed = os.pwrite(lock, f"{purpose} (process {os.getpid()})\n".encode(), 0)
                    os.ftruncate(lock, signed)

            write_lock_owner()
            try:
                # Under the lock, because only one process may do a swap at a time.
                self.restoring.finish()
            except OSError as error:
                raise self.unusable(error) from error
            yield write_lock_owner

    def _acquire(self, lock: int) -> None:
        """Take the lock. If another process only checks the lock or holds it briefly, wait for that process.

        Raises:
            HomeLocked: Another process holds the lock for too long.
        """
        begun = time.monotonic()
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                lock_holder = _read_lock_owner(lock)
                if time.monotonic() > begun + (BRIEF_S if lock_holder.startswith(BRIEFLY) else LOOK_S):
                    raise HomeLocked(
                        "{root} is held by {lock_holder}.",
                        "End that one first, or set another RUMI_HOME.",
                        root=self.root,
                        lock_holder=lock_holder,
                    ) from None
                time.sleep(0.01)

    def lock_identity(self) -> tuple[int, int] | None:
        """Return the device and inode numbers of the lock file; None if there is no lock file.

        Raises:
            UsageError: The home cannot be used.
        """
        try:
            found = os.stat(self.run / "lock", follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self.unusable(error) from error
        return found.st_dev, found.st_ino

    async def wait_until_gone(self) -> None:
        """Wait until the home is gone: this process's lock file has been deleted or replaced."""
        own_lock, missed = self.lock_identity(), 0
        if own_lock is None:  # this process holds no lock
            await trio.sleep_forever()
        while missed < GONE_AFTER:
            await trio.sleep(LOOK_AT_LOCK_S)
            # A network file system that does not answer is no proof that the home is gone.
            with contextlib.suppress(UsageError):
                missed = missed + 1 if self.lock_identity() != own_lock else 0

    def lock_holder(self) -> str:
        """Return the description of the process that has locked the home; empty if the home is not locked.

        Raises:
            UsageError: The home belongs to another user.
        """
        try:
            lock = os.open(self.run / "lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise self.unusable(error) from error
        with opened(lock):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return _read_lock_owner(lock)
        return ""

    def unusable(self, error: Exception) -> UsageError:
        """Convert an error into a `UsageError` that says why the home cannot be used and what to do."""
        number = error.errno if isinstance(error, OSError) else None
        advice = Text("Set RUMI_HOME to a folder you own.")
        if number in (errno.ENOSPC, errno.EDQUOT):
            advice = Text("Make room on its disk.")
        elif number == errno.EROFS:
            advice = Text(
                "Its disk is mounted read-only: mount it for writing, or set RUMI_HOME to another folder."
            )
        return UsageError("The home {root} cannot be used: {error}.", advice, root=self.root, error=error)


def workspaces_in(root: Path) -> Path:
    """Return the home's default folder for workspaces, which has one folder for each chat."""
    return root / "workspace"


_LOCK_OWNER = re.compile(r"(.*) \(process (\d+)\)")


def _read_lock_owner(lock: int) -> str:
    """Return the description that the lock's owner wrote into the lock file."""
    owner = os.pread(lock, 200, 0).decode("utf-8", "replace").strip()
    if (known := _LOCK_OWNER.fullmatch(owner)) is not None:
        return Text("{command} (process {pid})", command=known[1], pid=known[2])
    return owner or Text("another process")


LONGEST_SOCKET_PATH = 100
"""Maximum length of a socket path in bytes that every system accepts (Linux: 107 and a terminating NUL)."""


def socket_path(run: Path, installation: str) -> Path:
    """Return `run/control.sock` in the home; if that path is too long, one in the user's runtime folder."""
    path = run / "control.sock"
    if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
        return path
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if not os.path.isdir(runtime):
        import tempfile  # seldom needed, and the start of every command would wait for it

        runtime = os.path.join(tempfile.gettempdir(), f"rumi-{os.getuid()}")
    return Path(runtime) / f"rumi-{installation}.sock"
