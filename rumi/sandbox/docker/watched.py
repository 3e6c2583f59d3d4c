"""Control of the process that removes this engine's containers if Rumi is killed; see `watcher.py`."""

import os
import secrets
import sys
from typing import Final

import trio

from rumi.platform.openat import opened
from rumi.sandbox.docker import watcher
from rumi.sandbox.engine import SandboxError
from rumi.texts import os_error

END_S: Final = 5.0


class Watched:
    """Rumi's end of the pipe to the watcher, which is started before the first container is created."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._pipe: int | None = None
        self._pid = 0
        self.owner: Final = f"{os.getpid()}-{secrets.token_hex(8)}"
        """The label of this engine's containers."""

    def begin(self, name: str) -> None:
        """Report to the watcher that a container with this name may exist from now on.

        Raises:
            SandboxError: The watcher cannot be started.
        """
        if self._pipe is None:
            try:
                self._start()
            except OSError as error:
                why = os_error(error)
                raise SandboxError("The sandbox's watcher cannot be started: {why}.", why=why) from error
        self._say(f"+{name}\n")

    def answered(self, name: str) -> None:
        """Report that the daemon has answered the create: now the label finds the container, if any."""
        self._say(f"-{name}\n")

    async def aclose(self) -> None:
        """End the watcher without removing containers, which the caller does."""
        self._say(".\n")
        if self._pipe is None:
            return
        os.close(self._pipe)
        self._pipe = None
        with trio.move_on_after(END_S), opened(os.pidfd_open(self._pid)) as ended:
            await trio.lowlevel.wait_readable(ended)
            os.waitpid(self._pid, os.WNOHANG)  # noqa: ASYNC222 - it does not wait

    def _start(self) -> None:
        """Start the watcher. Blocks for about a millisecond."""
        theirs, ours = os.pipe()
        with opened(theirs):
            words = [self._address, str(os.getpid()), self.owner]
            stdout = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
            stderr = (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)
            try:
                self._pid = os.posix_spawn(
                    sys.executable,
                    [sys.executable, "-I", "-S", str(watcher.__file__), *words],
                    {},
                    file_actions=[(os.POSIX_SPAWN_DUP2, theirs, 0), stdout, stderr],
                )
            except OSError:
                os.close(ours)
                raise
        os.set_blocking(ours, False)
        self._pipe = ours

    def _say(self, line: str) -> None:
        """Write a line to the watcher. If the watcher has been killed, the next `begin` starts a new one."""
        if self._pipe is None:
            return
        try:
            os.write(self._pipe, line.encode())
        except OSError:
            os.close(self._pipe)
            self._pipe = None
