"""Ends this process when its lease has ended and it does not know it, because it was paused or is stuck.

A paused process keeps its sandboxes: what they run would go on while another worker serves the chats. So a
program beside it, which is this file too (`python -I -S guard.py`), knows when the lease ends, and then kills
it with all its sandboxes. It reads lines with that moment, by a clock that runs while the machine sleeps.
It ends with this process, whatever ends that. Only the standard library is imported: it starts soon.
"""

import contextlib
import math
import os
import select
import signal
import subprocess
import sys
import time
from typing import Final

LOOK_S: Final = 1.0
"""How often to look at the clock, which may have jumped."""


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Guard:
    """The program beside this process. It is started when it first has something to guard."""

    def __init__(self) -> None:
        self._popen: subprocess.Popen[bytes] | None = None

    def __call__(self, left_s: float) -> None:
        """Have this process killed in so many seconds, unless another call comes before; infinity: never."""
        if self._popen is None or self._popen.poll() is not None:
            if math.isinf(left_s):
                return
            self.close()
            words = [sys.executable, "-I", "-S", __file__, str(os.getpid())]
            self._popen = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,  # a Ctrl-C is for the process that it guards
            )
        assert self._popen.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the next call starts another
            self._popen.stdin.write(f"{_now() + left_s}\n".encode())

    def close(self) -> None:
        """End the program."""
        if self._popen is not None:
            assert self._popen.stdin is not None
            self._popen.stdin.close()
            self._popen.wait()
            self._popen = None


def _guard(guarded: int) -> None:
    """Kill the process when its time is over; return when it has ended, or wants no guard any more."""
    process = os.pidfd_open(guarded)
    if os.getppid() != guarded:
        return
    until, unread = math.inf, b""
    while True:
        left_s = until - _now()
        if left_s <= 0:
            signal.pidfd_send_signal(process, signal.SIGKILL)
            return
        ready, _, _ = select.select([0, process], [], [], min(left_s, LOOK_S))
        if process in ready:
            return
        if ready:
            read = os.read(0, 4096)
            if not read:
                return
            *lines, unread = (unread + read).split(b"\n")
            until = float(lines[-1]) if lines else until


if __name__ == "__main__":
    for _number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # it ends with the process, not before
        signal.signal(_number, signal.SIG_IGN)
    with contextlib.suppress(ProcessLookupError):
        _guard(int(sys.argv[1]))
