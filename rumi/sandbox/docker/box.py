"""One chat's container while it runs: commands in it, and the end of everything in it."""

from contextlib import AsyncExitStack
from pathlib import Path

import trio

from rumi.sandbox.docker.api import ApiError, Duplex, EngineApi
from rumi.sandbox.docker.frames import Demultiplexer
from rumi.sandbox.docker.kernel_view import is_filtered, lives, tasks_file
from rumi.sandbox.types import BoxGoneError, Command, SandboxError, Sink

START_S = 5.0
"""How long the daemon may take to say that it begins to start a program. Not cancellable meanwhile."""
END_S = 5.0
"""How long it may take, after a program's output has ended, until it knows the exit code."""
KILL_S = 2.0
RESTART_S = 15.0

FREE_BYTES = 16 * 1024 * 1024
PACE_BYTES_PER_S = 64 * 1024 * 1024
"""Output beyond the first is read at this pace: a command that only writes must not take a processor from
everybody else. It waits at its pipe meanwhile."""

# `kill -1` spares only the first process and the one that calls it, and takes a moment that no fork can get
# into. What remains is to see that they are gone: without another program, since there may be no process
# left to be had, and with zombies, which only /proc shows.
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


class DockerBox:
    """A running container. One command at a time; `kill_all` may come while one runs."""

    def __init__(self, api: EngineApi, container_id: str) -> None:
        self._api = api
        self._id = container_id
        self._pid = 0
        self._unfinished: set[str] = set()
        self._tasks_file: Path | None = None

    @property
    def container_id(self) -> str:
        """Docker's id, in full."""
        return self._id

    async def entered(self) -> None:
        """Learn about the container's first process, after each start.

        Raises:
            SandboxError: it did not start, or ended at once.
        """
        state = (await self._api.call("GET", f"/containers/{self._id}/json"))["State"]
        if not state["Running"]:
            raise SandboxError(
                f"The container ended at once (exit code {state['ExitCode']}). {state['Error']}",
                "Make the image anew with: rumi sandbox build",
            )
        self._pid = state["Pid"]
        self._unfinished.clear()
        self._tasks_file = tasks_file(self._pid, self._id)

    async def execute(self, command: Command, stdout: Sink, stderr: Sink) -> int:
        """Run a command to its end, hand on its streams as they come, return its exit code.

        A program that cannot be started is 126 or 127 with a line on `stderr`, as in a shell. Cancelled, it
        only stops listening: the process goes on until `kill_all`.

        Raises:
            BoxGoneError: the container is gone, and the command was not begun.
            SandboxError: the container went during the command, or the engine does not answer.
        """
        body = {
            "AttachStdin": bool(command.stdin),
            "AttachStdout": True,
            "AttachStderr": True,
            "Tty": False,
            "Cmd": list(command.argv),
        }
        try:
            exec_id = (await self._api.call("POST", f"/containers/{self._id}/exec", body=body))["Id"]
        except ApiError as error:
            if error.status in (404, 409):  # removed, or not running
                raise BoxGoneError("The sandbox's container is gone.") from error
            raise
        streams = Demultiplexer(stdout, stderr)
        async with AsyncExitStack() as stack:
            connection = await self._start(stack, exec_id)
            await _listen(connection, command.stdin, streams)
        code, started = await self._exit_code(exec_id)
        words = streams.finish(started)
        if words:
            code, line = _not_started(command.argv[0], code, words)
            stderr(line.encode())
        return code

    async def kill_all(self) -> None:
        """End every process but the first, and return only when that is proved.

        The proof is the count of the container's tasks as the kernel keeps it where this machine shows it
        (it counts zombies too), otherwise a look at /proc inside; and that every command begun is known to
        have ended, since one may be on its way to start. What two seconds cannot end, a restart of the
        container does.

        Raises:
            SandboxError: it could not be proved; the box must not be used again.
        """
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
        """The pids on this machine of the commands in the container; empty with a daemon elsewhere.

        Neither its first process nor a program of the engine that is about to become a command: a signal to
        that one would hold up the daemon.
        """
        if self._tasks_file is None:
            return []
        try:
            listed = self._tasks_file.with_name("cgroup.procs").read_text("ascii").split()
        except OSError:
            return []
        return [pid for line in listed if (pid := int(line)) != self._pid and is_filtered(pid)]

    async def _start(self, stack: AsyncExitStack, exec_id: str) -> Duplex:
        """Have the daemon start it. Shielded: if this were broken off, nobody could say whether it will."""
        self._unfinished.add(exec_id)
        with trio.CancelScope(shield=True), trio.move_on_after(START_S):
            return await stack.enter_async_context(
                self._api.upgraded(f"/exec/{exec_id}/start", {"Detach": False, "Tty": False})
            )
        raise SandboxError(
            "The Docker daemon does not start the command.",
            "Restart the Docker daemon (systemctl restart docker) if this lasts.",
        )

    async def _exit_code(self, exec_id: str) -> tuple[int, bool]:
        """The exit code, and whether there was a process at all. Its output has ended before."""
        pause = 0.002
        with trio.move_on_after(END_S):
            while True:
                state = await self._api.call("GET", f"/exec/{exec_id}/json")
                if not state["Running"] and state["ExitCode"] is not None:
                    self._unfinished.discard(exec_id)
                    code = int(state["ExitCode"])
                    if code > 128:
                        await self._still_the_same()
                    return code, bool(state["Pid"]) or code not in (126, 127)
                await trio.sleep(pause)
                pause = min(pause * 2, 0.1)
        await self._still_the_same()
        raise SandboxError("The command's output ended, and Docker does not say how the command did.")

    async def _still_the_same(self) -> None:
        """A command that was killed may have been killed with its container.

        Raises:
            SandboxError: it was.
        """
        gone = SandboxError("The sandbox's container ended during the command.")
        if self._tasks_file is not None and not lives(self._pid):
            raise gone
        # The daemon learns of it later than the command's end, and on this machine we knew before it.
        state = (await self._api.call("GET", f"/containers/{self._id}/json"))["State"]
        if not state["Running"] or state["Pid"] != self._pid:
            raise gone

    async def _kill(self) -> bool:
        """Kill from inside; True if only the first process was left."""

        def ignore(_: bytes) -> None:
            pass

        body = {"AttachStdout": True, "AttachStderr": True, "Cmd": ["bash", "-c", _KILL]}
        try:
            exec_id = (await self._api.call("POST", f"/containers/{self._id}/exec", body=body))["Id"]
            async with self._api.upgraded(
                f"/exec/{exec_id}/start", {"Detach": False, "Tty": False}
            ) as connection:
                await _listen(connection, b"", Demultiplexer(ignore, ignore))
            while True:
                state = await self._api.call("GET", f"/exec/{exec_id}/json")
                if not state["Running"]:
                    return bool(state["ExitCode"] == 0)
                await trio.sleep(0.005)
        except ApiError:
            return False  # no process to be had, or the container is not running: the restart settles both

    async def _all_ended(self) -> bool:
        """Whether every command that was begun is known to have ended."""
        for exec_id in tuple(self._unfinished):
            try:
                state = await self._api.call("GET", f"/exec/{exec_id}/json")
            except ApiError as error:
                if error.status != 404:
                    raise
            else:
                if state["Running"] or state["ExitCode"] is None:
                    return False
            self._unfinished.discard(exec_id)
        return True

    async def _restart(self) -> None:
        """Kill the first process, with which the kernel ends all others, and start afresh."""
        with trio.move_on_after(RESTART_S):
            try:
                await self._api.call("POST", f"/containers/{self._id}/kill")
            except ApiError as error:
                if error.status != 409:  # 409: it is not running, which is what was wanted
                    raise
            await self._api.call("POST", f"/containers/{self._id}/wait", params={"condition": "not-running"})
            await self._api.call("POST", f"/containers/{self._id}/start")
            await self.entered()
            return
        raise SandboxError(
            "The sandbox's processes could not be ended in time.",
            "Restart the Docker daemon (systemctl restart docker) if this lasts.",
        )

    def _tasks(self) -> int | None:
        """How many tasks the container has by the kernel's count, None where this machine does not show it.

        A read of kernel memory, so it is done in place.
        """
        if self._tasks_file is None:
            return None
        try:
            return int(self._tasks_file.read_text("ascii"))
        except (OSError, ValueError):
            return None


async def _listen(connection: Duplex, stdin: bytes, streams: Demultiplexer) -> None:
    """Send the input, if any, while the output is read to its end."""
    async with trio.open_nursery() as nursery:
        if stdin:
            nursery.start_soon(connection.write, stdin)
        while data := await connection.read():
            streams.feed(data)
            if streams.total_bytes > FREE_BYTES:
                await trio.sleep(len(data) / PACE_BYTES_PER_S)
        nursery.cancel_scope.cancel()


def _not_started(program: str, code: int, words: str) -> tuple[int, str]:
    """The exit code and the line that a shell would give for the daemon's words."""
    if "not found" in words or "no such file" in words:
        return 127, f"{program}: not found in the sandbox\n"
    if "permission denied" in words:
        return 126, f"{program}: cannot be executed\n"
    if "is a directory" in words:
        return 126, f"{program}: is a directory\n"
    if "resource temporarily unavailable" in words:
        return 126, f"{program}: the sandbox has no room for another process\n"
    return code, f"{program}: could not be started: {words}\n"
