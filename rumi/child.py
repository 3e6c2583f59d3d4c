"""What a process that works for us does first: live no longer than we do, and take no more than it may."""

import fcntl
import os
import resource
import select
import sys
from collections.abc import Mapping


def live_as_long_as(life: int, *, whole_group: bool = False) -> None:
    """Be ended when the other end of a pipe is closed, also if it has been already.

    `life` is the read end. With `whole_group` what this process starts is ended too.
    """
    fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp() if whole_group else os.getpid())
    # SIGIO's default is to end a process, and no Python is needed for that.
    fcntl.fcntl(life, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    if select.select([life], [], [], 0)[0]:
        sys.exit(0)


def give_up(bounds: Mapping[int, int]) -> None:
    """Take no more than `bounds`, by `RLIMIT_…`, allow, and never again."""
    for kind, bound in bounds.items():
        _, hard = resource.getrlimit(kind)
        most = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(kind, (most, most))
