"""Who the commands of the sandboxes run as."""

import os

RUNNER = 1000
"""The uid and gid of `runner`, the sandbox's own user."""


def sandbox_user() -> tuple[int, int]:
    """The uid and gid that commands run as, never 0.

    Rumi's own where it runs as an ordinary user, so that both can use the workspace's files;
    `runner`'s where it runs as root, and then the workspace belongs to `runner`.
    """
    uid, gid = os.getuid(), os.getgid()
    if uid == 0:
        return RUNNER, RUNNER
    return uid, gid if gid != 0 else uid
