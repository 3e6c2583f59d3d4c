"""One chat's running container: runs commands in it, and ends every process in it."""

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
"""How long the daemon may take to start a program. Not cancellable meanwhile."""
END_S = 5.0
"""How long it may take, after a program's output has ended, until it knows the exit code."""
KILL_S = 2.0
RESTART_S = 15.0

PF_EXITING = 0x4  # among the flags in /proc/PID/stat; see proc(5)

# `kill -1` spares only the first process and the caller, and no fork can happen during it. Then it remains to
# check that the processes are gone: without another program, because there may be no process left to create,
# and with zombies, which only /proc shows.
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
    """The container was started, and its first process has ended."""


class DockerContainer:
    """A running container. One command at a time; `kill_all` may run during a command.

    Its first process starts the commands if it is connected, and otherwise Docker's exec.
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
        """Docker's full id."""
        return self._id

    @property
    def lease(self) -> Lease | None:
        """The lease with which it ends."""
        return self.init.lease if self.init is not None else None

    async def beat(self) -> None:
        """Tell the container until when the lease is valid; nothing if it is lost or the container gone."""
        await trio.lowlevel.checkpoint()
        if self.init is not None:
            await self.init.beat()

    @property
    def local_pid(self) -> int:
        """The pid of its first process on this machine; 0 if the daemon is elsewhere."""
        return self._pid if self._tasks_file is not None else 0

    async def entered(self) -> None:
        """Read facts about the container's first process, after each start.

        Raises:
            EndedAtOnceError: It has ended.
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
                f"The container ended at once (exit code {state['ExitCode']}). {state['Error']}",
                "Rebuild the image with: rumi sandbox build",
            )
        self._pid = state["Pid"]
        self._unfinished.clear()
        self._tasks_file = _tasks_file(self._pid, self._id)

    async def execute(self, command: Command, stdout: Sink, stderr: Sink) -> int:
        """Run a command to its end, pass on its streams as they come, return its exit code.

        A program that cannot be started gives 126 or 127 with a line on `stderr`, as in a shell. Cancelled,
        it only stops listening: the process continues until `kill_all`.

        Raises:
            ContainerGoneError: The container is gone, and the command was not begun.
            LeaseLostError: The container has ended with its lease.
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
        """End every process except the first, and return only when that is proved.

        A connected first process does that; if it does not in two seconds, the container must be removed.
        Otherwise the proof has two parts. The kernel's count of the container's tasks must be one, if this
        machine shows it (it counts zombies too); if not, /proc inside is read. And every command that was
        begun must be known to have ended, because one may still be starting. If two seconds do not suffice,
        the container is restarted.

        Raises:
            SandboxError: It could not be proved; the container must not be used again.
        """
        if self.init is not None:
            with trio.move_on_after(KILL_S):
                if await self.init.kill_all():
                    return
                raise SandboxError("The sandbox's container has ended.")
            raise SandboxError("The sandbox's processes could not be ended in time.", HUNG)
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
        """Return the pids on this machine of the commands in the container; empty with a daemon elsewhere.

        Without its first process, and without a program of the engine that is about to become a command: a
        signal to that one would delay the daemon.
        """
        if self._tasks_file is None:
            return []
        try:
            listed = self._tasks_file.with_name("cgroup.procs").read_text("ascii").split()
        except OSError:
            return []
        return [pid for line in listed if (pid := int(line)) != self._pid and _is_filtered(pid)]

    async def _prepared(self, body: Mapping[str, object]) -> str:
        """Return the id of a program that the daemon is ready to start."""
        return str((await self._api.call("POST", f"/containers/{self._id}/exec", body=body))["Id"])

    async def _program(self, exec_id: str) -> Json:
        return await self._api.call("GET", f"/exec/{exec_id}/json")

    async def _state(self) -> Json:
        return (await self._api.call("GET", f"/containers/{self._id}/json"))["State"]

    async def _start(self, stack: AsyncExitStack, exec_id: str) -> Duplex:
        """Let the daemon start it. Shielded: after an interruption it would be unknown if it starts."""
        self._unfinished.add(exec_id)
        with trio.CancelScope(shield=True), trio.move_on_after(START_S):
            return await stack.enter_async_context(self._api.exec_started(exec_id))
        raise SandboxError("The Docker daemon does not start the command.", HUNG)

    async def _exit_code(self, exec_id: str) -> tuple[int, bool]:
        """Return the exit code, and True if there was a process at all. Its output has ended before."""
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
        """Check that a command that was killed was not killed with its container.

        Raises:
            SandboxError: It was.
        """
        gone = SandboxError("The sandbox's container ended during the command.")
        if self._tasks_file is not None and not _lives(self._pid):
            raise gone
        # The daemon learns of it later than of the command's end, and on this machine we know it before.
        state = await self._state()
        if not state["Running"] or state["Pid"] != self._pid:
            raise gone

    async def _kill(self) -> bool:
        """Kill from inside; return True if only the first process was left."""

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
        """Return True if every command that was begun is known to have ended."""
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
        """Kill the first process, with which the kernel ends all others, and start again."""
        with trio.move_on_after(RESTART_S):
            try:
                await self._api.call("POST", f"/containers/{self._id}/kill")
            except ApiError as error:
                if error.status != 409:  # 409: it is not running, as wanted
                    raise
            await self._api.call("POST", f"/containers/{self._id}/wait", params={"condition": "not-running"})
            await self._api.call("POST", f"/containers/{self._id}/start")
            await self.entered()
            return
        raise SandboxError("The sandbox's processes could not be ended in time.", HUNG)

    def _tasks(self) -> int | None:
        """Return the kernel's count of the container's tasks, None if this machine does not show it.

        This reads kernel memory, so it does not need a thread.
        """
        if self._tasks_file is None:
            return None
        try:
            return int(self._tasks_file.read_text("ascii"))
        except (OSError, ValueError):
            return None


# The kernel's facts about a container, if the daemon is on this machine. Reading them does not wait.


def _lives(pid: int) -> bool:
    """Return True if a process of this machine exists and is not ending.

    The first process of a container begins to end before any other does, and has ended after all of them.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] not in "ZX" and not int(fields[6]) & PF_EXITING


def _is_filtered(pid: int) -> bool:
    """Return True if a process of this machine has a system call filter, which a command gets last."""
    try:
        return "\nSeccomp:\t2\n" in Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
    except OSError:
        return False


def _tasks_file(pid: int, container_id: str) -> Path | None:
    """Return the file in which the kernel counts the container's tasks; None if the daemon is elsewhere.

    The process must be known here to belong to that very container: with a daemon on another machine, or seen
    from inside a container, the number means another process or none.
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
