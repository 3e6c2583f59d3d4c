"""Real worker processes on one PostgreSQL database, each with a home of its own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from rumi.store.ownership import partition_of
from tests.postgres import free_port

TOKEN = "a secret of the workers, for tests"
RUMI = [sys.executable, "-m", "rumi"]
ROOT = Path(__file__).parents[3]


class Worker:
    """A `rumi serve` on a database. With `reached` other workers reach it."""

    def __init__(self, home: Path, url: str, *, reached: bool = True, timeout_s: int = 30) -> None:
        self.home = home
        home.mkdir(mode=0o700, parents=True)
        self.address = f"127.0.0.1:{free_port()}" if reached else ""
        self.log = home / "serve.log"
        config = (
            'language = "en"',
            "[store]",
            f'url = "{url}"',
            f'address = "{self.address}"',
            "lease_s = 3",
            "drain_s = 5",
            "[model]",
            'default = "offline"',
            "[sandbox]",
            'backend = "bubblewrap"',
            f"timeout_s = {timeout_s}",
        )
        (home / "config.toml").write_text("\n".join(config))
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.endswith(("_KEY", "_TOKEN"))},
            "RUMI_HOME": str(home),
            "DOCKER_HOST": "unix:///nonexistent",
            "STORE_TOKEN": TOKEN,
            "LANG": "C.UTF-8",
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Worker":
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*RUMI, "serve"],
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=ROOT,
            )
        return self

    def until_listening(self) -> "Worker":
        until = time.monotonic() + 60
        while not (self.home / "run" / "control.sock").exists():
            assert self.process is not None
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < until, self.log.read_text()
            time.sleep(0.05)
        return self

    def run(self, *arguments: str, timeout_s: float = 60.0, **more: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*RUMI, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            cwd=ROOT,
            **more,
        )

    def begin(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*RUMI, *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def status(self) -> Any:
        return json.loads(self.run("status", "--json").stdout)

    def end(self, number: int = signal.SIGTERM) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Database:
    """What the workers share, as a test looks at it."""

    def __init__(self, url: str) -> None:
        self._db = psycopg.connect(url, autocommit=True)

    def rows(self, sql: str) -> list[Any]:
        return self._db.execute(sql.encode()).fetchall()

    def address_of(self, chat: str) -> str:
        """The address of the worker that serves a chat, empty without one."""
        found = self.rows(
            "SELECT address FROM workers JOIN partitions ON worker = name"
            f" WHERE number = {partition_of(chat)} AND until > extract(epoch FROM clock_timestamp())"
        )
        return str(found[0][0]) if found else ""

    def until_shared(self, workers: int) -> None:
        """Wait until so many workers serve all partitions, each its share."""
        until = time.monotonic() + 60
        while True:
            counts = [
                count
                for (count,) in self.rows(
                    "SELECT count(*) FROM partitions WHERE worker IS NOT NULL GROUP BY worker"
                )
            ]
            if len(counts) == workers and sum(counts) == 256 and max(counts) - min(counts) <= 1:
                return
            assert time.monotonic() < until, counts
            time.sleep(0.1)

    def chat_of(self, worker: Worker, name: str = "chat") -> str:
        """A chat that this worker serves."""
        return next(
            chat for number in range(2000) if self.address_of(chat := f"{name}-{number}") == worker.address
        )

    def close(self) -> None:
        self._db.close()


@contextlib.contextmanager
def workers(
    folder: Path, url: str, count: int, unreached: int = 0, timeout_s: int = 30
) -> Iterator[tuple[list[Worker], Database]]:
    """Run so many workers in the block; other workers do not reach the last of them."""
    found = [
        Worker(folder / f"home{number}", url, reached=number < count - unreached, timeout_s=timeout_s)
        for number in range(count)
    ]
    try:
        for home in found:
            home.start()
        for home in found:
            home.until_listening()
        database = Database(url)
        try:
            database.until_shared(count)
            yield found, database
        finally:
            database.close()
    finally:
        for home in found:
            if home.process is not None and home.process.poll() is None:
                home.process.send_signal(signal.SIGINT)
                home.process.send_signal(signal.SIGINT)
        for home in found:
            home.end()
