"""A real PostgreSQL server of Debian's package, for tests: started once, ended with the tests."""

import contextlib
import os
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path

import psycopg
from psycopg.sql import SQL, Identifier

FAST = ("fsync=off", "full_page_writes=off", "synchronous_commit=off")
"""For tests that end no server in the middle of its work."""

_numbers = count(1)


@cache
def programs() -> Path | None:
    """Return the folder of the newest installed server's programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    return found[-1].parent if found else None


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Server:
    """A server with its files in a folder of its own, on a port of the loopback."""

    def __init__(self, *settings: str, port: int | None = None) -> None:
        folder = programs()
        assert folder is not None
        self.folder = Path(tempfile.mkdtemp(prefix="rumi-postgres-"))
        self.data = self.folder / "data"
        self.port = port or free_port()
        self.settings = settings
        self._programs = folder
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(self.folder, self._user)
        self._run(
            "initdb", "--auth=trust", "--username=rumi", "--encoding=UTF8", "--no-locale", "--no-sync", "-D"
        )
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments, str(self.data)]
        done = subprocess.run(command, user=self._user, cwd="/", capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = [
            *(f"port={self.port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={self.folder}"),
            *("max_connections=300", "shared_buffers=64MB", *self.settings),
        ]
        command = [str(self._programs / "postgres"), "-D", str(self.data)]
        for setting in settings:
            command += ["-c", setting]
        # Not a child of this process: tests look for children that are left.
        log = shlex.quote(str(self.folder / "log"))
        script = f"{shlex.join(command)} >>{log} 2>&1 & echo $!"
        begun = subprocess.run(
            ["/bin/sh", "-c", script],
            user=self._user,
            cwd="/",
            capture_output=True,
            text=True,
            check=True,
            start_new_session=True,
        )
        self.pid = int(begun.stdout)
        until = time.monotonic() + 30
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                assert self.runs, (self.folder / "log").read_text()
                assert time.monotonic() < until, "PostgreSQL does not answer"
                time.sleep(0.05)

    def stop(self, signal: str = "INT") -> None:
        """End it: INT ends all connections first, QUIT is as if it had crashed."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, {"INT": 2, "QUIT": 3}[signal])
        until = time.monotonic() + 20
        while self.runs and time.monotonic() < until:
            time.sleep(0.02)
        if self.runs:
            os.kill(self.pid, 9)

    @property
    def runs(self) -> bool:
        """Return True if the server has not ended."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False

    def url(self, database: str, port: int | None = None) -> str:
        return f"postgresql://rumi@127.0.0.1:{port or self.port}/{database}"

    def new_database(self) -> str:
        """Return the URL of a new, empty database."""
        name = f"rumi_{os.getpid()}_{next(_numbers)}"
        self.execute(f'CREATE DATABASE "{name}"')
        return self.url(name)

    def copy_of(self, url: str) -> str:
        """Return the URL of a new database with what is in another one, to which nobody is connected."""
        name = f"rumi_{os.getpid()}_{next(_numbers)}"
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{url.rpartition("/")[2]}"')
        return self.url(name)

    def drop(self, url: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as db:
            db.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(url.rpartition("/")[2])))

    def give(self, folder: Path) -> None:
        """Let the server use a folder, and reach it."""
        if self._user:
            shutil.chown(folder, self._user)
            for parent in folder.parents:
                if parent.stat().st_mode & 0o011 != 0o011 and parent.owner() != self._user:
                    parent.chmod(parent.stat().st_mode | 0o011)

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as db:
            db.execute(statement.encode())

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def server(*settings: str) -> Iterator[Server]:
    """Run a server in the block."""
    running = Server(*settings)
    try:
        yield running
    finally:
        running.close()
