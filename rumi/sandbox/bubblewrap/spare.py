"""A spare sandbox, prepared before its command is known, so that the command does not wait for namespaces.

In the sandbox, the first process reads the words of a single command from a pipe and then runs the command.
The words are sent after their number and before a full stop, so a partly transferred command never runs.
"""

import contextlib
import os
import select
from collections.abc import Callable, Sequence

import trio

from rumi.sandbox.engine import SandboxError, Sink
from rumi.sandbox.lease import LeaseLostError
from rumi.sandbox.pipes import file_in_memory, fill, pipe, pump
from rumi.texts import Text

LINGER_S = 2.0
LOST = (Text("The sandbox has ended."), Text("Send the request again: it gets a new sandbox."))


class Spare:
    """Rumi's pipe ends to one sandbox. Call `begin` and then `finish` once each, and always `close`."""

    def __init__(self, number: int, ask: Callable[[list[int]], None]) -> None:
        """Create the pipes and call `ask` with the sandbox's ends: words, stdin, stdout, stderr, reply.

        `number` is the keeper's number of the sandbox. If `ask` raises, all descriptors are closed and the
        exception propagates.
        """
        self.number = number
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            self._stdin = file_in_memory("stdin")
            ours.callback(os.close, self._stdin)
            words, self._words = pipe(ours, theirs, "write")
            out, self._out = pipe(ours, theirs, "read")
            err, self._err = pipe(ours, theirs, "read")
            reply, self._reply = pipe(ours, theirs, "read")
            ask([words, self._stdin, out, err, reply])
            self._open = ours.pop_all()

    @property
    def over(self) -> bool:
        """Return True if the sandbox ended before it got its command, for example for lack of memory."""
        poll = select.poll()  # not `select`, which accepts no descriptor above 1023
        poll.register(self._reply.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    async def begin(self, words: Sequence[bytes], stdin: bytes) -> None:
        """Send the command; its words must not contain NUL bytes. If cancelled, the command does not run.

        Raises:
            trio.BrokenResourceError: The sandbox ended before it got the command, which did not run.
        """
        fill(self._stdin, stdin)  # before the words, with which the command starts
        framed = [str(len(words) + 2).encode(), *words, b"."]
        await self._words.send_all(b"".join(word + b"\0" for word in framed))
        self._words.close()

    async def finish(self, stdout: Sink, stderr: Sink) -> int:
        """Stream the output to the sinks; return the exit code when no process of the command is left.

        Raises:
            LeaseLostError: The keeper has ended the command, because the lease expired.
            SandboxError: The keeper is gone, or could not start the sandbox.
        """
        said = bytearray()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pump, self._out, stdout)
            nursery.start_soon(pump, self._err, stderr)
            await pump(self._reply, said.extend)
            # The keeper has replied and no process of the command is left, or the keeper is gone.
            nursery.cancel_scope.deadline = trio.current_time() + (LINGER_S if said else 0)
        text = said.decode("utf-8", "replace")
        if not text:
            raise SandboxError(*LOST)
        if text == "lease":
            raise LeaseLostError
        if not text.isdigit():
            advice = Text("Look at `rumi doctor`.")
            raise SandboxError("The sandbox cannot run the command ({text}).", advice, text=text)
        return int(text)

    def close(self) -> None:
        """Close Rumi's pipe ends. This ends a sandbox that has no command yet, but not a running command."""
        self._open.close()
