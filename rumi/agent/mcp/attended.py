"""A launcher that runs a server without a sandbox, and ends all its processes when it or Rumi ends.

This file is a program: `python -I -m rumi.agent.mcp.attended PARENT PROGRAM…`. Processes that a server leaves
behind, such as a browser, become children of the launcher, even if they have their own session. If the
launcher itself is killed, the kernel kills the server, but not what the server has started.
"""

import os
import select
import signal
import sys
from contextlib import suppress

from rumi.sandbox.confined.child import become_reaper, end_descendants
from rumi.sandbox.confined.namespaced import PR_SET_PDEATHSIG, exit_code, forget_streams, libc


def main() -> int:
    """Run the program until it exits or the parent process ends; return its exit code."""
    parent, *words = sys.argv[1:]
    asker = os.pidfd_open(int(parent))
    if os.getppid() != int(parent):
        return 1  # the parent has ended before pidfd_open, and another process may have its pid now
    become_reaper()
    own = os.getpid()
    server = os.fork()
    if server == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == own:
            os.execvp(words[0], words)
        os._exit(1)
    handles = asker, os.pidfd_open(server)  # before anything can reap the server
    ended: dict[int, int] = {}

    def reap(*_: object) -> None:
        """Reap the server, and orphans of it that have ended: a server may run for weeks."""
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == server:
                    ended[server] = found[1]

    signal.signal(signal.SIGCHLD, reap)
    forget_streams()
    poll = select.poll()
    for handle in handles:
        poll.register(handle, select.POLLIN)
    poll.poll()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    end_descendants()
    return exit_code(status if (status := ended.get(server)) is not None else os.waitpid(server, 0)[1])


if __name__ == "__main__":
    sys.exit(main())
