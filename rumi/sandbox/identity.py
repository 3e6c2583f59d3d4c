"""Selection of the user that runs the commands of the sandboxes."""

import contextlib
import grp
import hashlib
import logging
import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rumi.platform.atomic_write import atomic_write
from rumi.sandbox.engine import SandboxError

log = logging.getLogger("rumi.sandbox")

RECORD: Final = "sandbox-user"
"""The file of the home with the current user id, followed by the former ones, one per line."""

MAX_FORMER_USERS: Final = 16
UNUSED: Final = (
    range(0x70000000, 0x7FFE0000),
    range(0x10000, 0x80000),
    range(60578, 61184),
    range(65520, 65534),
    range(1, 60578),
)
"""The ranges of candidate ids, best first. According to systemd's UIDS-GIDS.md, hosts may use the ids of the
last range, but not those of the other ranges; a user namespace may have only ids of the last range.
"""

TRIES: Final = 64
_PROC: Final = Path("/proc/self")
_ETC: Final = Path("/etc")


def sandbox_user(installation: str, home: Path | None = None) -> tuple[int, int]:
    """Return the uid and gid of commands, never 0.

    If Rumi runs as an ordinary user, commands run as that user, so that both can use the workspace's files.
    If Rumi runs as root, commands run as a user of this installation only, with an id that no account of the
    machine has: an account with the same id could read the files of a running command. The id is derived from
    the installation's id and recorded in the home; it changes if an account gets the same id.

    Blocking: it queries the system's name services.

    Raises:
        SandboxError: This process is root in a user namespace without a free id.
    """
    uid, gid = os.getuid(), os.getgid()
    if uid != 0:
        return uid, gid if gid != 0 else uid
    recorded = _recorded(home) if home is not None else ()
    spare = _Spare()
    if recorded and recorded[0] in spare:
        return recorded[0], recorded[0]
    chosen = next(spare.candidates(installation), None)
    if chosen is None:
        raise SandboxError(
            "Rumi runs as root, and this machine has no other user id for commands.",
            "Run Rumi as an ordinary user, or in a user namespace with more users.",
        )
    if home is not None:
        numbers = [chosen, *(number for number in recorded if number != chosen)][: MAX_FORMER_USERS + 1]
        try:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            atomic_write(home / RECORD, "".join(f"{number}\n" for number in numbers).encode())
        except OSError as error:  # not fatal, for example on a full disk: the next start derives the same id
            log.warning("%s cannot be written: %s", home / RECORD, error)
    return chosen, chosen


def former_users(home: Path) -> frozenset[int]:
    """Return the recorded ids of the users that formerly ran this home's commands. Blocking."""
    return frozenset(_recorded(home)[1:])


class _Spare:
    """The set of ids that this process may use and that no account has, neither as user nor as group."""

    def __init__(self) -> None:
        self._allowed = [*_mapped(_PROC / "uid_map")], [*_mapped(_PROC / "gid_map")]
        self._delegated = [*_delegated(_ETC / "subuid"), *_delegated(_ETC / "subgid")]

    def __contains__(self, number: int) -> bool:
        return (
            0 < number < 2**31 - 1
            and number not in (65534, 65535)
            and all(any(number in block for block in blocks) for blocks in self._allowed)
            and not any(number in block for block in self._delegated)
            and not _is_account(number)
        )

    def candidates(self, installation: str) -> Iterator[int]:
        """Yield free ids, best first; an installation always gets the same sequence on the same machine."""
        for unused in UNUSED:
            for block in self._allowed[0]:
                low, high = max(unused.start, block.start), min(unused.stop, block.stop)
                for attempt in range(TRIES if low < high else 0):
                    digest = hashlib.sha256(f"{installation}:{attempt}".encode()).digest()
                    number = low + int.from_bytes(digest[:8]) % (high - low)
                    if number in self:
                        yield number


def _is_account(number: int) -> bool:
    with contextlib.suppress(KeyError):
        pwd.getpwuid(number)
        return True
    with contextlib.suppress(KeyError):
        grp.getgrgid(number)
        return True
    return False


def _mapped(path: Path) -> Iterator[range]:
    """Yield the id ranges of this user namespace; all ids if the kernel has no user namespaces."""
    try:
        lines = path.read_text("ascii").splitlines()
    except OSError:
        lines = ["0 0 4294967295"]
    for line in lines:
        first, _, count = map(int, line.split())
        yield range(first, first + count)


def _delegated(path: Path) -> Iterator[range]:
    """Yield the id ranges of /etc/subuid or subgid, which accounts may use in their own namespaces."""
    with contextlib.suppress(OSError):
        for line in path.read_text("utf-8", "replace").splitlines():
            with contextlib.suppress(ValueError):
                _, first, count = line.split(":")
                yield range(int(first), int(first) + int(count))


def _recorded(home: Path) -> tuple[int, ...]:
    """Return the recorded ids; an empty tuple if the record is missing or damaged."""
    try:
        with open(os.open(home / RECORD, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            return tuple(int(line) for line in file.read(4096).split())
    except (OSError, ValueError):
        return ()
