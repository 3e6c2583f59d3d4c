"""One chat's running Docker container: execution of commands, and the end of all processes in it."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import trio

from rumi.sandbox.docker.api import HUNG, ApiError, Duplex, EngineApi, Json
from rumi.sandbox.docker.frames import Demultiplexer, listen, not_started
from rumi.sandbox.docker.init import Init
from rumi.sandbox.engine import Command, ContainerGoneError, SandboxError, Sink
from rumi.sandbox.lease import Lease

START_S = 5.0
"""Maximum time for the daemon to start a program. This wait cannot be cancelled."""
END_S = 5.0
"""Maximum time from the end of a program's output until the daemon knows the exit code."""
KILL_S = 2.0
RESTART_S = 15.0

PF_EXITING = 0x4  # among the flags in /proc/PID/stat; see proc(5)

# `kill -1` spares only the first process and the caller, and no fork can happen during it. The loop then
# checks that the processes are gone: without another program, because the process limit may be reached, and
# including zombies, which only /proc shows.
_KILL = """
kill -KILL -1 2>/dev/null
for ((i = 0; i < 200; i++)); do
  left=0
  for p in /proc/[0-9]*; do
    [[ $p == /proc/1 || $p == /proc/$$ || ! -d $p ]] || left=1
  done
  ((left)) || exit 0
done
exit 75
"""


class EndedAtOnceError(SandboxError):
    """The container was started, but its first process has ended already."""


class DockerContainer:
    """A running container. `kill_all` and `end` may be called during a command.

    The first process starts the commands if it is connected (`init`), several at the same time if needed.
    Otherwise Docker's exec does, one at a time: it cannot end one command and leave the others.
    """

    def __init__(self, api: EngineApi, container_id: str, user: tuple[int, int]) -> None:
        self._api = api
        self._id = container_id
        self._user = user
        self.init: Init | None = None
        self._pid = 0
        self._unfinished: set[str] = set()
        self._tasks_file: Path | None = None

    @property
    def container_id(self) -> str:
        """Return Docker's full id of the container."""
        return self._id

    @property
    def lease(self) -> Lease | None:
        """Return the lease whose expiry ends the container."""
        return self.init.lease if self.init is not None else None

    async def beat(self) -> None:
        """Send the container a heartbeat; do nothing if the lease is lost or the container is gone."""
        await trio.lowlevel.checkpoint()
        if self.init is not None:
            await self.init.beat()

    @property
    def concurrent(self) -> bool:
        """Return True if the container can run several commands at the same time."""
        return self.init is not None

    async def end(self, command: Command) -> bool:
        """End one command; return True if it is proved within `KILL_S` that nothing of it is left."""
        with trio.move_on_after(KILL_S):
            return self.init is not None and await self.init.end(command)
        return False

    @property
    def local_pid(self) -> int:
        """Return the first process's pid on this machine; 0 if the daemon runs on another machine."""
        return self._pid if self._tasks_file is not None else 0

    async def entered(self) -> None:
        """Read the state of the container's first process. Call this after each start.

        Raises:
            EndedAtOnceError: The first process has ended.
            SandboxError: The daemon does not answer.
        """
        try:
            state = await self._state()
        except ApiError as error:
            if error.status != 404:
                raise
            state = {"Running": False, "ExitCode": "unknown", "Error": ""}
        if not state["Running"]:
            raise EndedAtOnceError(
                "The container ended at once (exit code {exitcode}). {error}",
                "Rebuild the image with: rumi debug sandbox build",
                exitcode=state["ExitCode"],
                error=state["Error"],
            )
        self._pid = state["Pid"]
        self._unfinished.clear()
        self._tasks_file = _tasks_file(self._pid, self._id)

    async def execute(self, command: Command, stdout: Sink, stderr: Sink) -> int:
        """Run a command to its end, stream its output to the sinks, and return its exit code.

        A program that cannot be started gives 126 or 127 and a line on `stderr`, as in a shell. If cancelled,
        this call stops reading the output; the process continues until `kill_all`.

        Raises:
            ContainerGoneError: The container is gone, and the command was not started.
            LeaseLostError: The container has ended, because its lease expired.
            SandboxError: The container ended during the command, or the engine does not answer.
        """
        if self.init is not None:
            return await self.init.execute(command, stdout, stderr, self._user)
        body = {
            "AttachStdin": bool(command.stdin),
            "AttachStdout": True,
            "AttachStderr": True,
            "Tty": False,
            "Cmd": list(command.argv),
        }
        try:
            exec_id = await self._prepared(body)
        except ApiError as error:
            if error.status in (404, 409):  # removed, or not running
                raise ContainerGoneError("The sandbox's container is gone.") from error
            raise
        streams = Demultiplexer(stdout, stderr)
        async with AsyncExitStack() as stack:
            connection = await self._start(stack, exec_id)
            await listen(connection, command.stdin, streams)
        code, started = await self._exit_code(exec_id)
        words = streams.finish(started)
        if words:
            code, line = not_started(command.argv[0], code, words)
            stderr(line.encode())
        return code

    async def kill_all(self) -> None:
        """End every process except the first one; return only when it is proved that no other is left.

        If the first process is connected, it kills the others; if that takes more than two seconds, the
        container must be removed. With Docker's exec, the proof has two parts. First, the kernel's count of
        the container's tasks, which includes zombies, must be one; if this machine does not show the count,
        /proc in the container is read. Second, the daemon must report the end of every started command,
        because a command may still be starting. If there is no proof after two seconds, the container is
        restarted.

        Raises:
            SandboxError: There is no proof; the container must not be used again.
        """
        if self.init is not None:
            with trio.move_on_after(KILL_S):
                if await self.init.kill_all():
                    return
                raise SandboxError("The sandbox's container has ended.")
            raise SandboxError("The sandbox's processes could not be ended in time.", HUNG)
        # The cheap proof, at the end of most turns: every command has ended, and one task is left.
        if not self._unfinished and self._tasks() == 1:
            await trio.lowlevel.checkpoint()
            return
        with trio.move_on_after(KILL_S):
            while True:
                if await self._kill() and await self._all_ended():
                    return
                await trio.sleep(0.02)
        await self._restart()

    def processes(self) -> list[int]:
        """Return the pids on this machine of the commands in the container; empty if the daemon is elsewhere.

        The first process is left out, and so is a process of the daemon that is about to become a command,
        because a signal to it would delay the daemon.
        """
        if self._tasks_file is None:
            return []
        try:
            listed = self._tasks_file.with_name("cgroup.procs").read_text("ascii").split()
        except OSError:
            return []
        return [pid for line in listed if (pid := int(line)) != self._pid and _is_filtered(pid)]

    async def _prepared(self, body: Mapping[str, object]) -> str:
        """Create an exec, a program that the daemon can then start; return its id."""
        return str((await self._api.call("POST", f"/containers/{self._id}/exec", body=body))["Id"])

    async def _program(self, exec_id: str) -> Json:
        return await self._api.call("GET", f"/exec/{exec_id}/json")

    async def _state(self) -> Json:
        return (await self._api.call("GET", f"/containers/{self._id}/json"))["State"]

    async def _start(self, stack: AsyncExitStack, exec_id: str) -> Duplex:
        """Start an exec. Shielded: after a cancellation it would be unknown whether the program starts."""
        self._unfinished.add(exec_id)
        with trio.CancelScope(shield=True), trio.move_on_after(START_S):
            return await stack.enter_async_context(self._api.exec_started(exec_id))
        raise SandboxError("The Docker daemon does not start the command.", HUNG)

    async def _exit_code(self, exec_id: str) -> tuple[int, bool]:
        """Return the exit code, and True if a process was started. Call it after the end of the output."""
        pause = 0.002
        with trio.move_on_after(END_S):
            while True:
                state = await self._program(exec_id)
                if not state["Running"] and state["ExitCode"] is not None:
                    self._unfinished.discard(exec_id)
                    code = int(state["ExitCode"])
                    if code > 128:
                        await self._still_the_same()
                    return code, bool(state["Pid"]) or code not in (126, 127)
                await trio.sleep(pause)
                pause = min(pause * 2, 0.1)
        await self._still_the_same()
        raise SandboxError("The command's output ended, and Docker does not report its exit code.")

    async def _still_the_same(self) -> None:
        """After a command was killed, check that its container was not killed with it.

        Raises:
            SandboxError: The container has ended.
        """
        gone = SandboxError("The sandbox's container ended during the command.")
        if self._tasks_file is not None and not _lives(self._pid):
            raise gone
        # The daemon notices the container's end later than the command's, so the kernel's state, if visible,
        # was checked first.
        state = await self._state()
        if not state["Running"] or state["Pid"] != self._pid:
            raise gone

    async def _kill(self) -> bool:
        """Kill all processes from inside the container; return True if only the first one is left."""

        def ignore(_: bytes) -> None:
            pass

        body = {"AttachStdout": True, "AttachStderr": True, "Cmd": ["bash", "-c", _KILL]}
        try:
            exec_id = await self._prepared(body)
            async with self._api.exec_started(exec_id) as connection:
                await listen(connection, b"", Demultiplexer(ignore, ignore))
            while True:
                state = await self._program(exec_id)
                if not state["Running"]:
                    return bool(state["ExitCode"] == 0)
                await trio.sleep(0.005)
        except ApiError:
            # No process can be created, or the container is not running: the restart settles both.
            return False

    async def _all_ended(self) -> bool:
        """Return True if the daemon has reported the end of every started command."""
        for exec_id in tuple(self._unfinished):
            try:
                state = await self._program(exec_id)
            except ApiError as error:
                if error.status != 404:
                    raise
            else:
                if state["Running"] or state["ExitCode"] is None:
                    return False
            self._unfinished.discard(exec_id)
        return True

    async def _restart(self) -> None:
        """Kill the first process, with which the kernel kills all others, and start the container again."""
        with trio.move_on_after(RESTART_S):
            try:
                await self._api.call("POST", f"/containers/{self._id}/kill")
            except ApiError as error:
                if error.status != 409:  # 409: it is not running, as intended
                    raise
            await self._api.call("POST", f"/containers/{self._id}/wait", params={"condition": "not-running"})
            await self._api.call("POST", f"/containers/{self._id}/start")
            await self.entered()
            return
        raise SandboxError("The sandbox's processes could not be ended in time.", HUNG)

    def _tasks(self) -> int | None:
        """Return the kernel's count of the container's tasks, None if it is not visible on this machine.

        The read does not wait for a disk, so it does not need a thread.
        """
        if self._tasks_file is None:
            return None
        try:
            return int(self._tasks_file.read_text("ascii"))
        except (OSError, ValueError):
            return None


# The kernel's state of a container, if the daemon is on this machine. Reading it does not block.


def _lives(pid: int) -> bool:
    """Return True if a process of this machine exists and is not exiting.

    When a container ends, its first process starts to exit before all others and finishes after them.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] not in "ZX" and not int(fields[6]) & PF_EXITING


def _is_filtered(pid: int) -> bool:
    """Return True if a process on this machine has its system call filter.

    The filter is installed in the last step of the process's setup, so it shows that the setup is complete.
    """
    try:
        return "\nSeccomp:\t2\n" in Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
    except OSError:
        return False


def _tasks_file(pid: int, container_id: str) -> Path | None:
    """Return the file with the kernel's count of the container's tasks; None if the daemon is elsewhere.

    The cgroup of the process must name this very container: if the daemon is on another machine, or Rumi runs
    in a container, the pid refers to another process or to none.
    """
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text("utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if container_id not in path:
            continue
        root = {"": "/sys/fs/cgroup", "pids": "/sys/fs/cgroup/pids"}.get(controllers)
        if root is not None and (found := Path(f"{root}{path}/pids.current")).exists():
            return found
    return None
