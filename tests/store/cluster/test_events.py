"""Events of triggers at any worker: real processes on a real database."""

import signal
import time
from pathlib import Path

import httpx
import pytest

from tests.channels.triggers.bodies import SECRET, github
from tests.postgres import Server, free_port
from tests.store.cluster.homes import Database, Worker

pytestmark = pytest.mark.long

CHATS = 12
PUSH = github("push", "", ref="refs/heads/main", commits=[{"id": "1", "message": "a fix"}])


def test_any_worker_takes_an_event_and_the_chats_worker_runs_it_once(
    postgres: Server, tmp_path: Path
) -> None:
    url, ports = postgres.new_database(), [free_port(), free_port()]
    workers = [Worker(tmp_path / f"home{number}", url) for number in range(2)]
    for worker, port in zip(workers, ports, strict=True):
        sections = [
            f'[triggers.t{n}]\nchat = "t-{n}"\nsecret = "$HOOK"\nform = "github"' for n in range(CHATS)
        ]
        listen = f'[telegram]\nlisten = "127.0.0.1:{port}"'
        with (worker.home / "config.toml").open("a") as config:
            config.write("\n".join(["", listen, *sections]))
        worker.environment["HOOK"] = SECRET
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.until_listening()
        database = Database(url)
        database.until_shared(2)
        n = next(n for n in range(CHATS) if database.address_of(f"t-{n}") == workers[1].address)

        def post(port: int) -> tuple[int, str]:
            headers = {**PUSH.headers, **PUSH.proofs()}
            address = f"http://127.0.0.1:{port}/triggers/t{n}"
            answer = httpx.post(address, content=PUSH.body, headers=headers, trust_env=False, timeout=30)
            return answer.status_code, answer.json()["status"]

        assert post(ports[0]) == (202, "accepted"), "the chat is the other worker's"
        assert post(ports[1]) == (200, "repeated")
        until = time.monotonic() + 30
        while database.rows("SELECT 1 FROM messages WHERE reply IS NULL"):
            assert time.monotonic() < until, workers[1].log.read_text()
            time.sleep(0.05)
        assert database.rows("SELECT chat, event_of FROM messages") == [(f"t-{n}", f"t{n}")]
        # A command at the worker that does not serve the chat waits for the reply of the one that does.
        done = workers[0].run("trigger", f"t{n}", "by hand", "--wait", "--id", "once")
        assert "by hand" in done.stdout, done.stderr
        again = workers[1].run("trigger", f"t{n}", "by hand", "--id", "once")
        assert "was taken earlier" in again.stdout, again.stderr
        assert database.rows("SELECT count(*) FROM outbox") == [(2,)]
        database.close()
    finally:
        for worker in workers:
            worker.end(signal.SIGKILL)
