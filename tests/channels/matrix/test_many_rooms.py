"""Fifty rooms at a real homeserver with limits, while `rumi serve` is killed again and again."""

import re
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest

from rumi.platform.home import Home
from tests.channels.matrix.serving import configure
from tests.cli.program import Program
from tests.matrix_server import User, homeserver, missing

ROOMS = 50
MESSAGES = 2
KILLS = 3
WITHIN_S = 120.0


def wait_until(there: Callable[[], bool], within_s: float = WITHIN_S) -> None:
    until = time.monotonic() + within_s
    while not there():
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.2)


@pytest.mark.more
@pytest.mark.long
def test_fifty_rooms_get_each_answer_once_though_the_program_is_killed(bubblewrap: Program) -> None:
    if why := missing():
        pytest.skip(why)
    with homeserver(per_second=12, burst=30) as server:
        rumi = server.user()
        people = [server.user() for _ in range(10)]
        configure(Home(bubblewrap.home).make(), server, rumi, [person.id for person in people])
        bubblewrap.env["MATRIX_TOKEN"] = rumi.token
        process = bubblewrap.start("serve")
        whose = [people[number % len(people)] for number in range(ROOMS)]
        rooms = [(person, person.room(rumi.id, direct=True)) for person in whose]
        written = dict[str, list[str]]()

        def write(person: User) -> None:
            for number in range(MESSAGES):
                for owner, room in rooms:
                    if owner is person:
                        text = f"what is {number + 1} + {len(written.get(room, ())) * 100 + 7}"
                        person.send(room, text)
                        written.setdefault(room, []).append(text)
                time.sleep(1.0)

        def present() -> bool:
            return all(person.members(room).get(rumi.id) == "join" for person, room in rooms)

        try:
            wait_until(present)
            writers = [threading.Thread(target=write, args=(person,)) for person in people]
            for writer in writers:
                writer.start()
            for _ in range(KILLS):
                time.sleep(1.0)
                process.kill()
                process.communicate()
                process = bubblewrap.start("serve")
                time.sleep(1.5)
            for writer in writers:
                writer.join()
            wait_until(
                lambda: all(
                    len(person.shown(room, rumi.id, notices=False)) >= MESSAGES for person, room in rooms
                )
            )
            time.sleep(2)
            for person, room in rooms:
                sums = [sum(map(int, re.findall(r"[0-9]+", text))) for text in written[room]]
                shown = person.shown(room, rumi.id, notices=False)
                found = [int(re.findall(r"[0-9]+", text)[-1]) for text in shown]
                assert Counter(found) == Counter(sums), (written[room], shown)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
