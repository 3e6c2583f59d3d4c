"""A sandbox that is prepared before its command is known, so that the command need not wait for namespaces.

Inside, a shell waits on a pipe for the words of its one command, and becomes it. They are framed (their
number first, a full stop last), so a partly transferred command does not run.
"""

import contextlib
import os
import select
from collections.abc import Callable, Sequence

import trio

from rumi.sandbox.engine import SandboxError, Sink
from rumi.sandbox.lease import LeaseLostError
from rumi.sandbox.pipes import file_in_memory, fill, pipe, pump

LINGER_S = 2.0
LOST = ("The sandbox has ended.", "Send the request again: it gets a new sandbox.")


class Spare:
    """Our ends of the pipes to one sandbox. Use `begin`, then `finish`, once; close it in any case."""

    def __init__(self, ask: Callable[[list[int]], None]) -> None:
        """Make the pipes and hand their other ends to `ask`: words, input, output, errors, reply.

        An exception of `ask` passes through, with no descriptor left open.
        """
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
        """True if it ended while it waited, for example because the machine is short of memory."""
        poll = select.poll()  # `select` accepts no descriptor above 1023
        poll.register(self._reply.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    async def begin(self, words: Sequence[bytes], stdin: bytes) -> None:
        """Hand over the command: none of its words contains a NUL byte. Cancelled, the command does not run.

        Raises:
            trio.BrokenResourceError: The sandbox ended while it waited; no command ran.
        """
        fill(self._stdin, stdin)
        framed = [str(len(words) + 2).encode(), *words, b"."]
        await self._words.send_all(b"".join(word + b"\0" for word in framed))
        self._words.close()

    async def finish(self, stdout: Sink, stderr: Sink) -> int:
        """Pass on the streams as they come, and return the exit code when no process of the command is left.

        Raises:
            LeaseLostError: The keeper has ended it with its lease.
            SandboxError: The keeper is gone, or could not start the sandbox.
        """
        said = bytearray()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pump, self._out, stdout)
            nursery.start_soon(pump, self._err, stderr)
            await pump(self._reply, said.extend)
            # No process of the command is left, or the keeper, which would end them, is gone.
            nursery.cancel_scope.deadline = trio.current_time() + (LINGER_S if said else 0)
        text = said.decode("utf-8", "replace")
        if not text:
            raise SandboxError(*LOST)
        if text == "lease":
            raise LeaseLostError
        if not text.isdigit():
            advice = "Look at `rumi doctor`."
            raise SandboxError(f"The sandbox cannot run the command ({text}).", advice)
        return int(text)

    def close(self) -> None:
        """Close our ends. A sandbox that still waits ends then; a running command does not."""
        self._open.close()
