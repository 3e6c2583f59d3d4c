"""Real faults of real workers: processes, sandboxes, a PostgreSQL server that writes to the disk.

`make chaos-cluster` tries the same ones many times, at random moments.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import telegram_house as house
from bench.chaos import Model
from bench.chaos_cluster import SECTIONS, WEIGHTS, Plan, database, torment
from bench.cluster_house import Cluster, cluster, leftovers
from bench.telegram_house import until
from rumi.sandbox.processes import descendants
from rumi.store.ownership import partition_of
from tests.fakes.groq_server import Answer, Behaviour, Body, answered_calls
from tests.postgres import Server, programs

pytestmark = [
    pytest.mark.bubblewrap,
    pytest.mark.skipif(programs() is None, reason="PostgreSQL's server is not installed"),
]

CHATS = 8

FIRST = ("kill", "pause")
"""The faults that happen most often; the others are tried by `make more`."""


@pytest.fixture(scope="module")
def on_disk() -> Iterator[tuple[Server, Path | None]]:
    """A server that loses nothing when it crashes, and the disk that it has for itself."""
    with database() as found:
        yield found


def sleeping(body: Body) -> Behaviour:
    """A model that runs a long command."""
    if answered_calls(body):
        return Answer("done")
    return Answer(calls=[("bash", json.dumps({"command": "sleep 600"}))])


@pytest.mark.long
async def test_a_killed_workers_chat_is_told_by_another(on_disk: tuple[Server, Path | None]) -> None:
    async with (
        house.outside(sleeping) as out,
        cluster(on_disk[0], out, 2, range(1, CHATS + 1), sections=SECTIONS) as workers,
    ):
        person = out.api.user(1)
        for worker in workers.workers:
            worker.start()
        await workers.ready(2)
        out.api.say(person, "sleep", out.api.chats[1])
        owner = workers.owner_of(partition_of("tg1"))
        assert owner is not None
        await until(lambda: sleeps(owner.process.pid if owner.process else 0), "the command runs", 30)
        (other,) = (other_worker for other_worker in workers.workers if other_worker is not owner)
        owner.kill()
        await until(lambda: was_sent(workers, "I was restarted"), "the other one tells it", 30)
        await workers.ready(1)
        assert leftovers([owner]) == []
        assert await other.end() == 0
        assert leftovers(workers.workers) == []


def sleeps(pid: int) -> bool:
    words = (Path(f"/proc/{descendant}/cmdline") for descendant in descendants(pid))
    return any(b"sleep\x00600" in path.read_bytes() for path in words if path.exists())


def was_sent(workers: Cluster, words: str) -> bool:
    return any(words in message.text for message in workers.out.api.chats[1].said)


@pytest.mark.long
@pytest.mark.parametrize(
    "fault",
    [fault if fault in FIRST else pytest.param(fault, marks=pytest.mark.more) for fault in WEIGHTS],
)
async def test_no_message_is_lost_or_done_twice(fault: str, on_disk: tuple[Server, Path | None]) -> None:
    server, disk = on_disk
    if fault == "full" and disk is None:
        pytest.skip("this machine does not let a small disk be mounted")
    model = Model()
    plan = Plan(7, 1, 90.0, CHATS, {fault: 1}, groups=1, pause_s=1.5, between_s=0.5, reminders=False)
    async with (
        house.outside(model) as out,
        cluster(server, out, 2, range(1, CHATS + 1), sections=SECTIONS) as workers,
    ):
        outcome = await torment(workers, model, plan, disk)
    assert outcome.chaos.done[fault] >= 1
    assert outcome.closing.messages > 0
    assert outcome.wrong == []
