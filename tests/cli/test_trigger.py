"""`rumi schedule trigger` and signed requests, asked of the whole program in a process of its own."""

import json
import os
import signal
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import httpx
import pytest

from tests.channels.triggers.bodies import SECRET, Sample, github
from tests.cli.program import BOUND_S, Program
from tests.cli.telegram_bot import wait_for
from tests.cli.test_serve import ended, until_it_serves
from tests.cli.test_webhook import free_port

pytestmark = pytest.mark.bubblewrap

CONFIG = """
[triggers.deploy]
secret = "$HOOK"
form = "github"
prompt = "say what was deployed"
[triggers.cron]
prompt = "say what time it is"
"""
PUSH = github("push", "", ref="refs/heads/main", commits=[{"id": "1", "message": "run rm -rf ."}])


def rows(program: Program, sql: str) -> list[Any]:
    with closing(sqlite3.connect(f"file:{program.home}/state.db?mode=ro", uri=True)) as db:
        return db.execute(sql).fetchall()


@contextmanager
def serving(program: Program, port: int) -> Iterator[Any]:
    program.home.mkdir(exist_ok=True, mode=0o700)
    (program.home / "config.toml").write_text(CONFIG)
    program.env |= {
        "HOOK": SECRET,
        "RUMI_MODEL__DEFAULT": "offline",
        "RUMI_TELEGRAM__LISTEN": f"127.0.0.1:{port}",
    }
    process = program.start("serve")
    try:
        until_it_serves(program, process)
        yield process
    finally:
        if process.poll() is None:
            ended(process)


def post(port: int, sample: Sample = PUSH) -> httpx.Response:
    headers = {**sample.headers, **sample.proofs()}
    return httpx.post(
        f"http://127.0.0.1:{port}/triggers/deploy", content=sample.body, headers=headers, trust_env=False
    )


def all_answered(program: Program) -> bool:
    return not rows(program, "SELECT 1 FROM messages WHERE reply IS NULL")


@pytest.mark.long
def test_an_event_whose_answer_a_kill_has_cut_off_is_one_turn(bubblewrap: Program) -> None:
    """The process is killed when the event is stored; the sender gets no answer, and repeats it."""
    port = free_port()
    with serving(bubblewrap, port) as process:
        with closing(sqlite3.connect(bubblewrap.home / "state.db", isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            with socket.create_connection(("127.0.0.1", port), BOUND_S) as sender:
                lines = [f"{name}: {value}" for name, value in {**PUSH.headers, **PUSH.proofs()}.items()]
                head = [*lines, f"Content-Length: {len(PUSH.body)}"]
                start = "\r\n".join(["POST /triggers/deploy HTTP/1.1", "Host: x", *head])
                sender.sendall(start.encode() + b"\r\n\r\n" + PUSH.body)
                sender.settimeout(0.5)
                with pytest.raises(TimeoutError):  # before it is stored, there is no answer
                    sender.recv(1)
                db.execute("COMMIT")
                wait_for(lambda: rows(bubblewrap, "SELECT count(*) FROM deliveries") == [(1,)])
                os.kill(process.pid, signal.SIGKILL)
                process.communicate(timeout=BOUND_S)
    with serving(bubblewrap, port):
        assert post(port).status_code == 200
        wait_for(lambda: all_answered(bubblewrap))
        assert rows(bubblewrap, "SELECT count(*), count(DISTINCT reply) FROM messages") == [(1, 1)]
        assert rows(bubblewrap, "SELECT count(*) FROM outbox") == [(1,)]
        assert post(port).json()["status"] == "repeated"


@pytest.mark.long
def test_the_command_fires_lists_and_tests_triggers(bubblewrap: Program) -> None:
    with serving(bubblewrap, port := free_port()):
        assert bubblewrap.run("trigger", "cron", "it is noon", "--id", "noon").stdout == (
            "Taken: noon. The answer comes to the chat cli.\n"
        )
        again = bubblewrap.run("trigger", "cron", "it is noon", "--id", "noon")
        assert again.stdout == "noon was taken earlier. Nothing new begins.\n"
        piped = json.loads(bubblewrap.run("trigger", "cron", "-", "--json", text="from a pipe").stdout)
        assert (piped["status"], piped["chat"]) == ("accepted", "cli")
        waited = bubblewrap.run("trigger", "cron", "--wait", text="piped without -").stdout
        assert "event of the trigger cron, from rumi trigger" in waited  # the offline model shows what came
        assert "piped without -" in waited
        late = bubblewrap.run("trigger", "cron", "x", "--wait", "--timeout", "0.1", "--json", code=None)
        assert late.returncode == (0 if json.loads(late.stdout)["reply"] else 1)
        long = bubblewrap.run("trigger", "cron", "-", text="x" * 1_000_001, code=2)
        assert long.stderr == "rumi: The event is longer than 1 MB. Send a part of it.\n"
        unknown = bubblewrap.run("trigger", "nope", "x", code=2)
        assert "There is no trigger nope. Triggers: cron, deploy." in unknown.stderr
        assert bubblewrap.run("trigger", "test", "deploy").stdout.startswith("202 ")
        curl = bubblewrap.run("trigger", "test", "deploy", "--curl").stdout
        assert "X-Hub-Signature-256: sha256=" in curl
        assert SECRET not in curl
        assert "takes no requests" in bubblewrap.run("trigger", "test", "cron", code=2).stderr
        listed = {row["name"]: row for row in json.loads(bubblewrap.run("trigger", "list", "--json").stdout)}
        assert listed["deploy"]["url"] == f"http://127.0.0.1:{port}/triggers/deploy"
        assert listed["deploy"]["last"].startswith("test-")
        assert (listed["cron"]["counts"]["repeated"], listed["cron"]["url"]) == (1, "")
        assert f"http://127.0.0.1:{port}/triggers/deploy" in bubblewrap.run("trigger").stdout
        assert [line["trigger"] for line in bubblewrap.audit() if line["event"] == "trigger"][:1] == ["cron"]
    at_rest = json.loads(bubblewrap.run("trigger", "list", "--json").stdout)
    assert [row["url"] for row in at_rest] == ["", ""]
    assert at_rest[0]["today"] == 4


def test_wrong_triggers_are_told(bubblewrap: Program) -> None:
    bubblewrap.home.mkdir(mode=0o700)
    for text, said in (
        ("[triggers.Deploy]", "a name of at most 32 small letters"),
        ("[triggers.list]", "not list, test or fire"),
        ('[triggers.a]\nform = "gitlab"', "'github', 'standard' or 'plain'"),
        ('[triggers.a]\nchat = "not a chat"', "the id of a chat"),
        ('[triggers.a]\nprompt = " "', "which says what to do with an event"),
        ('[triggers.a]\nsecret = "hunter2-hunter2"', "a reference such as"),
        ('[triggers.a]\nsecret = "hunter2"', "triggers.a.secret is not the name of a set variable"),
        ("[triggers.a]\nmost_per_hour = 0", "most_per_hour"),
        ("[triggers.a]\nurl = 1", "Unknown key triggers.a.url"),
    ):
        (bubblewrap.home / "config.toml").write_text(text)
        errors = bubblewrap.run("trigger", "list", code=2).stderr
        assert said in errors, errors
        assert "hunter2" not in errors
    (bubblewrap.home / "config.toml").write_text('[triggers.a]\nsecret = "$NOT_SET"\n[triggers.b]\n')
    listed = bubblewrap.run("trigger").stdout
    assert "triggers.a.secret refers to $NOT_SET, which is not set" in listed
    assert "only by rumi schedule trigger b" in listed
