"""A process that `namespaced` runs in namespaces of its own: its start, and its end with all descendants."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import trio

from rumi.platform.openat import opened
from rumi.sandbox.confined import namespaced
from rumi.sandbox.confined.child import PAUSE_S, kill_descendants, processes


@dataclass(slots=True)
class NamespaceLaunch:
    """What a process needs to be started in namespaces of its own.

    Run `words` followed by the program, with the descriptors `fds` inherited. `gateway` gets the listening
    sockets of the new network namespace; None without one. The block that started the process must duplicate
    it.
    """

    words: list[str]
    fds: list[int]
    gateway: socket.socket | None
    _stack: contextlib.ExitStack = field(repr=False)

    def in_memory(self, content: bytes) -> int:
        """Return a descriptor of a file in memory, which the process inherits."""
        fd = self._stack.enter_context(opened(os.memfd_create("confined", os.MFD_CLOEXEC)))
        os.pwrite(fd, content, 0)
        self.fds.append(fd)
        return fd


@contextlib.contextmanager
def launching(listeners: Sequence[str] | None) -> Iterator[NamespaceLaunch]:
    """Yield what starts a process in a PID namespace, which always ends together with Rumi.

    With `listeners`, the process gets a network namespace that has only `lo`, and Rumi the sockets that
    listen there (`rumi.sandbox.confined.namespaced`). The descriptors are closed at the end of the block.
    """
    words = [sys.executable, "-I", "-S", str(namespaced.__file__), str(os.getpid())]
    with contextlib.ExitStack() as stack:
        if listeners is None:
            yield NamespaceLaunch([*words, "-1", ""], [], None, stack)
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        stack.enter_context(ours)
        stack.enter_context(theirs)
        ours.setblocking(False)
        yield NamespaceLaunch(
            [*words, str(theirs.fileno()), ",".join(listeners)], [theirs.fileno()], ours, stack
        )


class Namespace:
    """A running process that was started by `launching`. Its pid stays valid until it is reaped."""

    def __init__(self, popen: "subprocess.Popen[bytes]") -> None:
        self._popen = popen
        self.pidfd = os.pidfd_open(popen.pid)

    @property
    def pid(self) -> int:
        """The pid of the launcher."""
        return self._popen.pid

    async def ended(self) -> None:
        """Wait until the launcher exits."""
        await trio.lowlevel.wait_readable(self.pidfd)

    async def reap(self) -> None:
        """Wait until the launcher exits, and reap it."""
        await self.ended()
        self._popen.wait()

    def kill(self) -> None:
        """Kill the launcher, and with it all processes of the namespace; do nothing if it is reaped."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    @contextlib.contextmanager
    def children(self) -> Iterator[list[int]]:
        """Yield pidfds of the launcher's children: the only one is the first process of the PID namespace.

        Take them before the launcher ends: once it is gone, its children can no longer be found through it.
        """
        with contextlib.ExitStack() as stack:
            found = []
            for pid in (pid for pid, (_, parent, _) in processes().items() if parent == self._popen.pid):
                with contextlib.suppress(ProcessLookupError):
                    found.append(stack.enter_context(opened(os.pidfd_open(pid))))
            yield found

    async def kill_all(self, children: Sequence[int]) -> None:
        """Kill all processes of the PID namespace, and wait until the namespace's first process has exited.

        The first process exits only after the kernel has ended all other processes of the namespace.
        bubblewrap itself exits earlier.
        """
        # Repeated, because a namespace that is still being set up may get new processes meanwhile.
        while not select.select([self.pidfd], [], [], 0)[0]:
            kill_descendants(self._popen.pid)
            await trio.sleep(PAUSE_S)
        for child in children:
            await trio.lowlevel.wait_readable(child)

    def close(self) -> None:
        """Close the descriptor of the process."""
        os.close(self.pidfd)
