"""Who the sandboxes belong to: the installation that a home is, and the user that commands run as."""

import contextlib
import os
import re
import secrets
from pathlib import Path

from rumi.errors import UsageError

RUNNER = 1000
"""The uid and gid of `runner`, the sandbox's own user."""

_FORM = re.compile(r"[0-9a-f]{12}")


def installation_id(home: Path) -> str:
    """The id of the installation whose home this is: twelve hexadecimal digits, made at first use.

    It tells this installation's containers from everybody else's, so it never changes. Blocking, briefly.

    Raises:
        UsageError: the home cannot be written, or the file holds something else.
    """
    path = home / "installation"
    try:
        home.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            # Complete before it has its name; of two processes that start at once the first one's stays.
            draft = home / f".installation-{secrets.token_hex(4)}"
            try:
                with draft.open("x", encoding="ascii") as file:
                    file.write(secrets.token_hex(6) + "\n")
                    file.flush()
                    os.fsync(file.fileno())
                with contextlib.suppress(FileExistsError):
                    os.link(draft, path)
            finally:
                draft.unlink(missing_ok=True)
        found = path.read_text("ascii").strip()
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"The home {home} cannot be used: {error}.", "Set RUMI_HOME to a folder you own."
        ) from error
    if not _FORM.fullmatch(found):
        raise UsageError(
            f"{path} should hold twelve hexadecimal digits and holds {found[:40]!r}.",
            "Restore it from a backup. If you delete it, remove this installation's containers yourself.",
        )
    return found


def sandbox_user() -> tuple[int, int]:
    """The uid and gid that commands run as, never 0.

    Rumi's own where it runs as an ordinary user, so that both can use the workspace's files;
    `runner`'s where it runs as root, and then the workspace belongs to `runner`.
    """
    uid, gid = os.getuid(), os.getgid()
    if uid == 0:
        return RUNNER, RUNNER
    return uid, gid if gid != 0 else uid
