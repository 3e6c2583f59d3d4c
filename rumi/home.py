"""`RUMI_HOME`: where everything of an installation lives, and who holds it."""

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rumi import unsafe
from rumi.errors import UsageError

BRIEFLY = "rumi memory ("
BRIEF_S = 3.0
LOOK_S = 0.1

_INSTALLATION = re.compile(r"[0-9a-f]{12}")


class HomeHeld(UsageError):
    """Another process holds the home."""


class UnsafeHome(UsageError):
    """Other users may have put something into the home, or lead Rumi out of it."""


@dataclass(frozen=True, slots=True)
class Danger:
    """One reason why a home is unsafe. `kind` is one of those of `rumi.unsafe`."""

    kind: str
    home: Path
    path: Path
    number: int

    def said(self) -> tuple[str, str]:
        """What was found, and what to do about it."""
        folder, path = shlex.quote(str(self.home)), shlex.quote(str(self.path))
        match self.kind:
            case unsafe.ANOTHERS:
                found = f"{self.home} belongs to user {self.number}, and this is user {os.geteuid()};"
                mend = "Run Rumi as its owner, or set RUMI_HOME to a folder you own."
                return f"{found} nothing in it was looked at.", mend
            case unsafe.WRITABLE:
                mend = f"Make sure that nothing in it comes from somebody else, then: chmod 700 {folder}"
                return f"{self.home} can be written by others (mode {self.number:o}).", mend
            case unsafe.READABLE:
                return f"{self.home} can be read by others (mode {self.number:o}).", f"chmod 700 {folder}"
            case unsafe.LINK:
                found = f"{self.path} is a link: what Rumi writes there would go to {os.readlink(self.path)}."
                mend = f"Remove it: rm {path}. If it has to be on another disk, mount that disk there."
                return found, mend
            case _:
                found = f"{self.home} has files of another user: {self.path.relative_to(self.home)}."
                return found, f"As root: chown -R {os.geteuid()} {path}"


@dataclass(frozen=True, slots=True)
class Home:
    """The paths below a home. Made with mode 0700: what is in it is its owner's alone."""

    root: Path

    @property
    def workspaces(self) -> Path:
        """One folder a chat, mounted at /workspace."""
        return self.root / "workspace"

    @property
    def state_db(self) -> Path:
        """Inbox, outbox and history."""
        return self.root / "state.db"

    @property
    def memory_db(self) -> Path:
        """What is known about its users."""
        return self.root / "memory.db"

    @property
    def logs(self) -> Path:
        """The audit log and the program's own."""
        return self.root / "logs"

    @property
    def run(self) -> Path:
        """What lives only while a process does: the lock and the control socket."""
        return self.root / "run"

    @property
    def rootfs(self) -> Path:
        """The root file system of the sandboxes."""
        return self.root / "rootfs"

    @property
    def reserve(self) -> Path:
        """Room that is held back for when the disk is full."""
        return self.root / "reserve"

    @property
    def terminal_history(self) -> Path:
        """What was typed at the terminal."""
        return self.root / "terminal_history"

    def make(self) -> "Home":
        """Make the folders that are missing.

        Raises:
            UsageError: the home is somebody else's, or cannot be written.
        """
        try:
            for folder in (self.root, self.workspaces, self.logs, self.run):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise self.unusable(error) from error
        return self

    def dangers(self) -> list[Danger]:
        """Why it is unsafe, the worst first; empty where it is not. It only looks. Blocking, briefly."""
        return [
            Danger(kind, self.root, Path(path), number)
            for kind, path, number in unsafe.dangers(str(self.root))
        ]

    def refuse_if_unsafe(self) -> bool:
        """Refuse a home that others may have changed; close one that they can only read.

        Return whether it was closed. One that holds other things too is left to its user.

        Raises:
            UnsafeHome: what was found, and what to do.
        """
        found = self.dangers()
        refused = [danger for danger in found if danger.kind != unsafe.READABLE]
        if found and not refused and unsafe.holds_only_ours(str(self.root)):
            with contextlib.suppress(OSError):  # a disk that is mounted read-only, say
                self.root.chmod(0o700)
                return True
        for danger in refused or found:
            raise UnsafeHome(*danger.said())
        return False

    def installation(self) -> str:
        """This installation's id: twelve hexadecimal digits, made once. Blocking, briefly.

        It tells this installation's containers from everybody else's, so it never changes.

        Raises:
            UsageError: the home cannot be written, or the file holds something else.
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
                f"{path} should hold twelve hexadecimal digits and holds {found[:40]!r}.",
                "Restore it from a backup. If you delete it, remove this installation's containers yourself.",
            )
        return found

    def _make_installation(self, path: Path) -> None:
        """Complete before it has its name; of two processes that start at once the first one's stays."""
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
    def hold(self, purpose: str) -> Iterator[None]:
        """Hold the home for this process; the kernel lets go when the process ends, however it does.

        Raises:
            HomeHeld: another process has it; the message says which.
            UsageError: the home cannot be written.
        """
        self.make()
        try:
            lock = os.open(self.run / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self.unusable(error) from error
        try:
            self._wait_for(lock)
            with contextlib.suppress(OSError):  # on a full disk others read only that the home is held
                signed = os.pwrite(lock, f"{purpose} (process {os.getpid()})\n".encode(), 0)
                os.ftruncate(lock, signed)
            yield
        finally:
            os.close(lock)

    def _wait_for(self, lock: int) -> None:
        """Take the lock. Whoever only looks who has it, or works on the files for a moment, is waited for."""
        begun = time.monotonic()
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                holder = os.pread(lock, 200, 0).decode("utf-8", "replace").strip() or "another process"
                if time.monotonic() > begun + (BRIEF_S if holder.startswith(BRIEFLY) else LOOK_S):
                    raise HomeHeld(
                        f"{self.root} is held by {holder}.", "End that one first, or set another RUMI_HOME."
                    ) from None
                time.sleep(0.01)

    def holder(self) -> str:
        """Who holds the home, empty where nobody does.

        Raises:
            UsageError: the home is somebody else's.
        """
        try:
            lock = os.open(self.run / "lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise self.unusable(error) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return os.pread(lock, 200, 0).decode("utf-8", "replace").strip() or "another process"
        finally:
            os.close(lock)
        return ""

    def unusable(self, error: Exception) -> UsageError:
        """What to tell of a home that cannot be used."""
        number = error.errno if isinstance(error, OSError) else None
        advice = "Set RUMI_HOME to a folder you own."
        if number in (errno.ENOSPC, errno.EDQUOT):
            advice = "Make room on its disk."
        elif number == errno.EROFS:
            advice = (
                "Its disk is mounted read-only: mount it for writing, or set RUMI_HOME to another folder."
            )
        return UsageError(f"The home {self.root} cannot be used: {error}.", advice)
