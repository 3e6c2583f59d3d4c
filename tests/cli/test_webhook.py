"""`rumi serve` with a webhook, with health and with metrics, in a process of its own."""

import json
import os
import signal
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from rumi.channels.telegram.receiving.webhook import SECRET_HEADER, secret_of
from tests.cli.program import BOUND_S, Program
from tests.cli.telegram_bot import Talk, TelegramBot, wait_for
from tests.cli.telegram_world import World
from tests.cli.test_serve import ended, until_it_serves
from tests.openmetrics import openmetrics

pytestmark = pytest.mark.bubblewrap


def free_port() -> int:
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        yield world


def test_an_update_whose_delivery_a_kill_has_cut_off_is_one_message(tmp_path: Path, world: World) -> None:
    """The process is killed when the update is stored; no answer is read, so it is delivered again."""
    port, secret = free_port(), {SECRET_HEADER: secret_of(world.api.token)}
    bot = TelegramBot(Program(tmp_path / "home"), world)
    words = ("--webhook", f"http://127.0.0.1:{port}", "--listen", f"127.0.0.1:{port}")
    try:
        bot.start(*words, command="serve")
        world.until(lambda: world.api.account.webhook)
        talk = Talk(world)
        assert "hello" in talk.ask("say hello")
        figures = openmetrics(httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False))
        assert figures['rumi_turns_total{reason="complete"}'] == 1
        assert figures["rumi_telegram_updates_stored_total"] == 1
        assert figures["rumi_telegram_sent_total"] >= 1
        assert figures["rumi_model_calls_total"] >= 1
        assert figures["rumi_messages_pending"] == 0
        assert figures["process_resident_memory_bytes"] > 1_000_000
        # Nothing in them tells of a chat.
        text = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
        assert str(talk.person.id) not in text
        assert world.api.token not in text + bot.state()
        assert secret[SECRET_HEADER] not in text + bot.state()

        world.do(setattr, world.api.account, "webhook", "")  # the test is Telegram from here on
        talk.say("say once")
        update = json.dumps(world.do(lambda: world.api.updates.pending[-1][1])).encode()
        with closing(sqlite3.connect(bot.program.home / "state.db", isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            with socket.create_connection(("127.0.0.1", port), BOUND_S) as telegram:
                head = f"POST /telegram HTTP/1.1\r\nHost: x\r\n{SECRET_HEADER}: {secret[SECRET_HEADER]}\r\n"
                telegram.sendall(f"{head}Content-Length: {len(update)}\r\n\r\n".encode() + update)
                db.execute("COMMIT")
                wait_for(lambda: bot.stored == 2, bot.state)
                bot.kill()
        bot.start(*words, command="serve")
        wait_for(lambda: httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False).is_success, bot.state)
        again = httpx.post(
            f"http://127.0.0.1:{port}/telegram", content=update, headers=secret, trust_env=False
        )
        assert again.status_code == 200
        assert bot.stored == 2
        world.do(lambda: world.api.updates.pending.clear())
        bot.idle()
        assert bot.rows("SELECT count(*) FROM messages WHERE text = 'say once'") == [(1,)]
    finally:
        bot.cut_short()
        bot.kill()


def test_health_and_metrics_without_telegram(bubblewrap: Program) -> None:
    process = bubblewrap.start("serve", "--listen", f"127.0.0.1:{(port := free_port())}")
    try:
        until_it_serves(bubblewrap, process)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            assert client.get("/healthz").text == "ok\n"
            assert client.get("/readyz").text == "ready\n"
            assert client.post("/telegram").status_code == 404
            figures = openmetrics(client.get("/metrics"))
            assert figures['rumi_actors{state="running"}'] > 10
            assert figures["rumi_turns_running"] == 0
            os.kill(process.pid, signal.SIGSTOP)  # a process that hangs does not say that it is well
            with pytest.raises(httpx.TimeoutException):
                client.get("/healthz", timeout=0.5)
            os.kill(process.pid, signal.SIGCONT)
            assert client.get("/healthz").text == "ok\n"
    finally:
        said = ended(process)
    assert f"Health and metrics: http://127.0.0.1:{port}/healthz" in said
    assert "Serving terminals" in said


def test_a_place_that_is_taken_and_a_webhook_without_a_token_are_told(bubblewrap: Program) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        said = bubblewrap.run("serve", "--listen", where, code=2).stderr
        assert "Something else listens at" in said
        assert "--listen" in said
    bubblewrap.env["RUMI_MODEL__DEFAULT"] = "offline"
    assert "TELEGRAM_TOKEN" in bubblewrap.run("serve", "--webhook", "https://a.test", code=2).stderr
    assert "telegram.webhook" in bubblewrap.run("serve", "--webhook", "nonsense", code=2).stderr
    assert "telegram.listen" in bubblewrap.run("serve", "--listen", "nowhere", code=2).stderr
