"""The daemon: the process that has locked the home and serves attached clients. Commands start it here.

A command locks the home, forks, and lets the fork keep the lock; this way modules are imported only once.
Until the fork accepts clients, it reports over a socket pair, one JSON object per line: any number of `step`,
then `ready` or the error. A command cannot fork safely if its event loop or threads are running; it starts a
small program that forks instead.
"""

import json
import os
import socket
import sys
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, closing, suppress
from pathlib import Path
from subprocess import DEVNULL

import trio

from rumi.errors import RumiError, answer_of, error_of, single
from rumi.platform.config.cascade import Loaded, load_settings
from rumi.platform.config.files import home_from
from rumi.platform.home import Home, HomeLocked
from rumi.platform.texts.language import detect_language
from rumi.texts import Language, json_of, text_of

PURPOSE = "rumi chat"

LINE_BYTES = 65_536
"""Maximum length of one report, in bytes."""

FORK = "import sys; from rumi.app.daemon import fork; fork(*sys.argv[1:])"

Flags = Mapping[str, str | None]


class StartingDaemon:
    """A daemon that was started and does not accept clients yet. Close this when a client is attached."""

    def __init__(self, report_socket: socket.socket) -> None:
        self._report_socket = report_socket

    async def ready(self, step: Callable[[str], None]) -> None:
        """Wait until the daemon accepts clients; call `step` with a line for each long step of its startup.

        Raises:
            RumiError: The daemon did not start. The error says what to do.
            OSError: A file could not be written.
            HomeLocked: Another process has locked the home first.
        """
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(self._report_socket.dup()))
        async with aclosing(_lines(stream)) as lines:
            async for line in lines:
                match json.loads(line):
                    case {"step": text}:
                        step(text_of(text))
                    case {"ready": _}:
                        return
                    case {"held": by, "advice": advice}:
                        raise HomeLocked(text_of(by), text_of(advice))
                    case {"number": int(number), "strerror": str(why), "file": file}:
                        raise OSError(number, why, file)
                    case {"error": str(_)} as answer:
                        raise error_of(answer)
                    case {"crash": str(what), "trace": str(trace)}:
                        raise RuntimeError(what) from RuntimeError(trace)
        raise RumiError("The process that serves the chats ended at its start.", "Look at: rumi debug logs")

    def close(self) -> None:
        """Close the connection to the daemon. If no client is attached then, the daemon ends."""
        self._report_socket.close()


async def _lines(stream: trio.SocketStream) -> AsyncGenerator[bytes, None]:
    got = b""
    async with stream:
        with suppress(trio.BrokenResourceError):
            async for chunk in stream:
                *lines, got = (got + chunk).split(b"\n")
                for line in lines:
                    yield line
                if len(got) > LINE_BYTES:
                    return


def fork_daemon(home: Home, loaded: Loaded, language: Language) -> StartingDaemon:
    """Fork the daemon. No other thread and no event loop may run in this process.

    Raises:
        HomeLocked: Another process has locked the home.
        UsageError: The home cannot be used.
    """
    ours, theirs = socket.socketpair()
    try:
        with closing(theirs), home.lock(PURPOSE) as write_lock_owner:
            _fork(lambda: _run_daemon(home, loaded, language, theirs, write_lock_owner))
    except BaseException:
        ours.close()
        raise
    return StartingDaemon(ours)


@asynccontextmanager
async def spawn_daemon(flags: Flags) -> AsyncIterator[StartingDaemon]:
    """Start the daemon from a command whose event loop is running."""
    ours, theirs = socket.socketpair()
    with closing(ours):
        with closing(theirs):
            words = [str(theirs.fileno()), json.dumps(dict(flags))]
            await trio.run_process(
                [sys.executable, "-P", "-c", FORK, *words],  # import nothing from the current folder
                stdout=DEVNULL, stderr=DEVNULL, pass_fds=(theirs.fileno(),),
                start_new_session=True, check=False,
            )  # fmt: skip
        yield StartingDaemon(ours)


def fork(number: str, flags: str) -> None:
    """Fork the daemon, which reports the progress of its startup over the file descriptor `number`."""
    with socket.socket(fileno=int(number)) as theirs:
        try:
            home = Home(home_from(os.environ)).make()
            loaded = load_settings(home.root, os.environ, json.loads(flags))
            language = detect_language(loaded.settings.language, os.environ)
            with home.lock(PURPOSE) as write_lock_owner:
                _fork(lambda: _run_daemon(home, loaded, language, theirs, write_lock_owner))
        except Exception as error:  # noqa: BLE001  # the window shows it
            _report(theirs, _error_report(error))


def _fork(run: Callable[[], object]) -> None:
    """Call `run` in a forked process with its own session; no process waits for the forked process."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if not os.fork():
            run()
    finally:
        os._exit(0)  # what is above on the stack is the command's


def _run_daemon(
    home: Home,
    loaded: Loaded,
    language: Language,
    report_socket: socket.socket,
    write_lock_owner: Callable[[], None],
) -> None:
    """Run the daemon until it ends; report an error to the command that started it."""
    try:
        write_lock_owner()
        _detach_from_terminal(home, report_socket)
        trio.run(
            _serve_clients,
            home,
            loaded,
            language,
            report_socket,
            restrict_keyboard_interrupt_to_checkpoints=True,
        )
    except BaseException as error:  # noqa: BLE001  # nothing is above
        _report(report_socket, _error_report(error))
        if not isinstance(error, RumiError):
            traceback.print_exception(error)
            sys.stderr.flush()


def _detach_from_terminal(home: Home, report_socket: socket.socket) -> None:
    """Close the descriptors inherited from the command, except the home's lock and `report_socket`.

    If the daemon kept a terminal or pipe open, the reader at its other end would wait forever.
    """
    log = os.open(home.logs / "holder.log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    null = os.open(os.devnull, os.O_RDWR)
    for number, file in enumerate((null, null, log)):
        os.dup2(file, number)
    kept_descriptors = {0, 1, 2, report_socket.fileno(), *_lock_descriptors(home)}
    for number in map(int, os.listdir("/proc/self/fd")):
        if number not in kept_descriptors:
            with suppress(OSError):
                os.close(number)
    os.chdir(home.root)
    _set_process_title(f"rumi: serves the windows of {home.root}")


def _lock_descriptors(home: Home) -> list[int]:
    """Return the file descriptors of the home's lock file."""
    lock = (home.run / "lock").stat()
    found = []
    for number in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):
            if os.path.samestat(os.fstat(number), lock):
                found.append(number)
    return found


def _set_process_title(name: str) -> None:
    """Set the process title that `ps` shows, because the inherited title contains the user's request."""
    with suppress(OSError, ValueError):
        fields = Path("/proc/self/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        begin, end = int(fields[45]), int(fields[46])
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(begin)
            memory.write(os.fsencode(name)[: end - begin - 1].ljust(end - begin, b"\0"))


async def _serve_clients(
    home: Home, loaded: Loaded, language: Language, report_socket: socket.socket
) -> None:
    """Serve attached clients until none has been attached for a while, or a signal ends the process."""
    from rumi.app.app import open_app
    from rumi.app.disk_check import require_writable_disk
    from rumi.app.engine import ready_engine
    from rumi.app.settings import cluster_of, require_chosen_model
    from rumi.app.shutdown import stop_signals
    from rumi.store.cluster.building import leases_of

    require_chosen_model(loaded)
    full = require_writable_disk(home, language)
    cluster = cluster_of(loaded)
    report = lambda step: _report(report_socket, {"step": json_of(step)})  # noqa: E731
    engine = await ready_engine(home, loaded, report, leases=leases_of(cluster))
    async with (
        stop_signals() as stop,
        open_app(home, loaded, engine, full=full, cluster=cluster) as app,
    ):
        app.attach_server.open()
        _report(report_socket, {"ready": True})
        linger_s = loaded.settings.session.linger_s
        async with trio.open_nursery() as nursery:

            async def until(wait: Callable[[], Awaitable[object]]) -> None:
                await wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(until, stop.end.wait)
            nursery.start_soon(
                until,
                lambda: app.attach_server.wait_until_unused(linger_s, lambda: _launcher_gone(report_socket)),
            )
        await app.attach_server.finish()


async def _launcher_gone(report_socket: socket.socket) -> None:
    """Return when the command that started this process has attached, or has ended."""
    with suppress(OSError):
        async with trio.SocketStream(trio.socket.from_stdlib_socket(report_socket.dup())) as stream:
            await stream.receive_some()


def _error_report(error: BaseException) -> Mapping[str, object]:
    """Return an error as a report to the command that waits for this process."""
    only = single(error)
    if isinstance(only, HomeLocked):
        return {"held": json_of(only.message), "advice": json_of(only.advice)}
    if isinstance(only, RumiError):
        return answer_of(only)
    if isinstance(only, OSError) and only.errno is not None:
        return {"number": only.errno, "strerror": only.strerror, "file": only.filename}
    trace = "".join(traceback.format_exception(error))[-LINE_BYTES // 4 :]
    return {"crash": f"{type(only).__name__}: {only}"[:1000], "trace": trace}


def _report(report_socket: socket.socket, message: Mapping[str, object]) -> None:
    with suppress(OSError):  # the command has ended
        report_socket.sendall(json.dumps(message, default=str).encode() + b"\n")
