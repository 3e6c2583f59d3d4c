"""One chat's container in the embedded engine: its keeper process, and the requests to the keeper."""

import contextlib
import itertools
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
from functools import partial

import trio

from rumi.platform.openat import opened
from rumi.sandbox.bubblewrap import keeper
from rumi.sandbox.bubblewrap.plan import ContainerPlan, Inherited
from rumi.sandbox.bubblewrap.spare import LOST, Spare
from rumi.sandbox.cgroups import Cgroup, Cgroups
from rumi.sandbox.engine import Command, ContainerGoneError, SandboxError, Sink
from rumi.sandbox.lease import Lease, heartbeat, is_lost, require
from rumi.sandbox.pipes import pump
from rumi.sandbox.processes import descendants, descendants_at_a_glance, processes_holding

START_S = 10.0
KILL_S = 2.0
MAX_WORD_BYTES, MAX_WORDS_BYTES = 131_072, 1_500_000
"""Maximum bytes of one argument (the kernel's limit), and of all together (less than the kernel's limit,
because bubblewrap adds its own arguments)."""
CANNOT_EXECUTE = 126
"""A shell's exit code for a program that exists but cannot be started."""


class BubblewrapContainer:
    """One chat's running container: a keeper process, which starts each command in its own bubblewrap.

    When a command ends, the kernel ends its pid namespace, so none of its processes survives. A command
    cannot access the keeper, other commands or other containers. /tmp lasts as long as the keeper.
    """

    concurrent = True

    def __init__(self, plan: ContainerPlan, cgroups: Cgroups) -> None:
        self._plan = plan
        self._cgroups = cgroups
        self._cgroup: Cgroup | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None
        self._life: int | None = None
        self._id = ""
        self._keeper = 0
        self._spare: Spare | None = None
        self._numbers = itertools.count(1)
        self._running: dict[int, int] = {}
        """The numbers of the commands that may still have processes, by `id` of the command."""

    @property
    def plan(self) -> ContainerPlan:
        """Return the plan: the configuration with which the container is started."""
        return self._plan

    @property
    def container_id(self) -> str:
        """Return the id, which changes at each start so that the audit log shows when /tmp was lost."""
        return self._id

    @property
    def keeper(self) -> int:
        """Return the keeper's pid on this machine, 0 before it is ready. Commands are its descendants."""
        return self._keeper

    @property
    def alive(self) -> bool:
        """Return True if the keeper runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def lease(self) -> Lease | None:
        """Return the lease whose expiry ends the container."""
        return self._plan.lease

    async def beat(self) -> None:
        """Send the keeper a heartbeat; do nothing if the lease is lost or the keeper is gone."""
        await trio.lowlevel.checkpoint()
        if self.lease is not None and self._requests is not None and not is_lost(self.lease):
            with contextlib.suppress(OSError):  # a keeper that does not read is ending the sandbox
                self._requests.send(heartbeat(self.lease))

    async def start(self) -> None:
        """Start the keeper and run a test command. After an error or a cancellation, call `stop`.

        Raises:
            LeaseLostError: There is a lease, and it has expired.
            SandboxError: This machine does not allow sandboxes; the error names the failed step.
        """
        if threading.current_thread() is not threading.main_thread():
            # The keeper ends with the thread that starts it, and worker threads come and go.
            raise SandboxError("A sandbox must be started from the main thread.")
        require(self.lease)
        self._id = f"bwrap-{secrets.token_hex(6)}"
        self._spawn()
        self._join()
        with trio.move_on_after(START_S):
            said, _, number = (await self._hear_keeper()).partition(" ")
            if said != "ready":
                raise SandboxError(
                    "The sandbox cannot be made here ({said} {number}).",
                    "Look at `rumi doctor`.",
                    said=said,
                    number=number,
                )
            self._keeper = int(number)
            complaint = bytearray()
            code = await self.execute(Command(("true",)), complaint.extend, complaint.extend)
            if code != 0:
                text = complaint.decode("utf-8", "replace").strip() or f"exit code {code}"
                raise SandboxError(
                    "The sandbox does not run commands here ({text}).", "Look at `rumi doctor`.", text=text
                )
            return
        raise SandboxError("The sandbox did not start in time.", "Look at `rumi doctor`.")

    async def execute(self, command: Command, stdout: Sink, stderr: Sink) -> int:
        """Run a command to its end, stream its output to the sinks, and return its exit code.

        No process of the command is left when this returns. If cancelled, this call stops reading the output,
        and the processes continue until `kill_all`.

        Raises:
            ContainerGoneError: The container ended before the command was started.
            LeaseLostError: The container has ended, because its lease expired.
            SandboxError: The container ended during the command, or too many commands run in it.
            ValueError: A word of the command contains a NUL byte.
        """
        words = [os.fsencode(word) for word in command.argv]
        if any(b"\0" in word for word in words):
            raise ValueError("a command's words cannot contain NUL bytes")
        if sum(map(len, words)) > MAX_WORDS_BYTES or max(map(len, words)) >= MAX_WORD_BYTES:
            stderr(words[0] + b": Argument list too long\n")
            return CANNOT_EXECUTE
        running = await self._begin(command, words)
        try:
            code = await running.finish(stdout, stderr)
        finally:
            running.close()
        # Not in `finally`: after a cancellation the command may still run, until `end` or `kill_all`.
        self._running.pop(id(command), None)
        self._prepare()
        return code

    async def end(self, command: Command) -> bool:
        """End one command; return True if the keeper reports within `KILL_S` that nothing of it is left."""
        number = self._running.get(id(command))
        if number is None:
            await trio.lowlevel.checkpoint()
            return True
        if not await self._told(b"end %d" % number):
            return False
        self._running.pop(id(command), None)
        return True

    def processes(self) -> list[int]:
        """Return most pids of the container on this machine; a live one may be missing. Blocks briefly."""
        return descendants_at_a_glance(self._keeper) if self._keeper else []

    async def kill_all(self) -> None:
        """End every process of the container; return when the kernel has proved that none is left.

        If that takes longer than two seconds, the container is restarted, and the content of /tmp is lost.

        Raises:
            SandboxError: The restart failed too; the container must not be used again.
        """
        if not self._running and self.alive:
            # The keeper has reported of each command that no process of it is left.
            await trio.lowlevel.checkpoint()
            return
        if await self._kill():
            self._prepare()
            return
        await self.stop()
        await self.start()

    async def stop(self) -> None:
        """End the container; return when none of its processes is left, in some seconds at most. Idempotent.

        Raises:
            SandboxError: A process still runs. Call `stop` again.
        """
        self._drop_spare()
        if self._process is not None:
            self._close_requests()
            if not await self._gone():
                self._kill_hard()
                if not await self._gone():
                    raise SandboxError(
                        "Processes of the container {name} cannot be ended.",
                        "Try again later.",
                        name=self._plan.name,
                    )
            self._forget_process()
            self._running.clear()
        if self._cgroup is not None:
            await self._cgroup.remove()
            self._cgroup = None

    def _spawn(self) -> None:
        """Start the keeper. Blocks for about two milliseconds; must run in the main thread: see `start`."""
        plan = self._plan
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        life, held = os.pipe()
        with contextlib.ExitStack() as passed:
            passed.callback(theirs.close)
            held = passed.enter_context(opened(held))
            filters = passed.enter_context(opened(_file(plan.seccomp))) if plan.seccomp else None
            fds = Inherited(theirs.fileno(), held, filters)
            group = self._cgroups.group(self._group)
            words = plan.words(fds, self._cgroups.bounded, group.folders if group else ())
            program = [sys.executable, "-I", "-S", str(keeper.__file__), *words]
            try:
                self._process = subprocess.Popen(
                    [*self._cgroups.scope(self._group, plan.limits), *program],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=fds.all(),
                    start_new_session=True,
                    # For systemd-run; the keeper gets nothing else of Rumi's environment.
                    env={key: os.environ[key] for key in ("PATH", "XDG_RUNTIME_DIR") if key in os.environ},
                    cwd="/",
                )
            except OSError as error:
                os.close(life)
                ours.close()
                raise SandboxError("The sandbox's keeper cannot be started: {error}.", error=error) from error
        ours.setblocking(False)
        self._requests, self._life = ours, life

    def _join(self) -> None:
        """Create the control group and let the keeper's commands join it.

        Call this only after the keeper has started: the keeper removes the group even if Rumi is killed.
        """
        self._cgroup = self._cgroups.create(self._group, self._plan.limits)
        if self._cgroup is not None:
            with contextlib.ExitStack() as members:
                fds = [members.enter_context(opened(fd)) for fd in self._cgroup.open_members()]
                self._ask(b"join", fds)

    @property
    def _group(self) -> str:
        """Return the control group's name.

        The name changes at each start, because an earlier keeper may still be removing its own group.
        """
        return f"{self._plan.chat_id}-{self._id}"

    async def _hear_keeper(self) -> str:
        assert self._requests is not None
        await trio.lowlevel.wait_readable(self._requests)
        # A keeper that fails before it reads `join` resets the connection; its message follows that error.
        with contextlib.suppress(ConnectionResetError):
            return self._requests.recv(4096).decode("utf-8", "replace") or "its keeper ended"
        return self._requests.recv(4096).decode("utf-8", "replace") or "its keeper ended"

    def _ask(self, what: bytes, fds: list[int]) -> None:
        try:
            if self._requests is None:
                raise BrokenPipeError
            socket.send_fds(self._requests, [what], fds)
        except OSError as error:
            raise ContainerGoneError(*LOST) from error

    async def _begin(self, command: Command, words: list[bytes]) -> Spare:
        for _ in range(2):
            running, self._spare = self._spare, None
            if running is not None and running.over:
                running.close()
                running = None
            running = running or self._new()
            # Before the words are sent: after a cancellation in between, the command may run.
            self._running[id(command)] = running.number
            try:
                await running.begin(words, command.stdin)
                return running
            except trio.BrokenResourceError:  # it has just ended: try again in a new one
                running.close()
                await self._told(b"end %d" % running.number)
            except BaseException:
                running.close()
                raise
        raise ContainerGoneError(*LOST)

    def _new(self) -> Spare:
        number = next(self._numbers)
        return Spare(number, partial(self._ask, b"run %d" % number))

    def _prepare(self) -> None:
        """Prepare the spare sandbox for the next command. If this fails, the command will report it."""
        if self._spare is not None:
            return  # both a command and the kill that ended it call this
        with contextlib.suppress(ContainerGoneError):
            self._spare = self._new()

    async def _kill(self) -> bool:
        """Kill all processes; return True if the keeper reports within `KILL_S` that none is left."""
        self._drop_spare()
        doomed = set(self._running)
        if not await self._told(b"kill"):
            return False
        for key in doomed:
            self._running.pop(key, None)
        return True

    async def _told(self, what: bytes) -> bool:
        """Send the keeper a request that ends processes; return True if it reports the end in `KILL_S`."""
        said = bytearray()
        ours, theirs = os.pipe()
        async with trio.lowlevel.FdStream(ours) as stream:
            with opened(theirs) as end:
                try:
                    self._ask(what, [end])
                except SandboxError:
                    return False
            with trio.move_on_after(KILL_S):
                await pump(stream, said.extend)
        return said == b"clean"

    def _drop_spare(self) -> None:
        if self._spare is not None:
            self._spare.close()
            self._spare = None

    def _close_requests(self) -> None:
        if self._requests is not None:
            self._requests.close()  # the keeper then ends
            self._requests = None

    async def _gone(self) -> bool:
        """Wait until neither keeper nor commands hold their inherited pipe; return False after 2 seconds."""
        assert self._life is not None
        assert self._process is not None
        with trio.move_on_after(KILL_S):
            await trio.lowlevel.wait_readable(self._life)
            if self._process.poll() is None:
                with opened(os.pidfd_open(self._process.pid)) as ended:
                    await trio.lowlevel.wait_readable(ended)
                self._process.wait()  # does not block: the process has ended
            return True
        return False

    def _kill_hard(self) -> None:
        """Kill both processes of the keeper directly; the kernel then ends all others."""
        assert self._process is not None
        assert self._life is not None
        doomed = {*descendants(self._process.pid), *processes_holding(self._life), self._process.pid}
        for pid in doomed - {os.getpid()}:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def _forget_process(self) -> None:
        assert self._life is not None
        os.close(self._life)
        self._life = self._process = None
        self._keeper = 0


def _file(content: bytes) -> int:
    """Return the descriptor of an in-memory file with this content, positioned at its start."""
    fd = os.memfd_create("seccomp", os.MFD_CLOEXEC)
    os.pwrite(fd, content, 0)
    return fd
