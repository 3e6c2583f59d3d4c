"""A page that crashes, in virtual time."""

from pathlib import Path
from typing import Any

import trio
from trio.testing import MockClock

from actors import Actor, ChildSpec, Supervisor, TreeEvent
from rumi.channels.counters import Counts
from rumi.channels.page import PageChannel, open_entrance
from rumi.channels.page.transcript import Transcript
from rumi.chats.hub import Hub


class Window:
    """A view of a browser, as far as the server's crashes go."""

    transcript = Transcript()


class Neighbour(Actor[None]):
    async def receive(self, message: None) -> None:
        pass


async def test_crashes_of_the_page_never_end_the_process(autojump_clock: MockClock, tmp_path: Path) -> None:
    tell, told = trio.open_memory_channel[TreeEvent](1000)
    root = Supervisor("rumi", strategy="rest_for_one", observe=tell.send_nowait)
    root.add(ChildSpec("neighbour", Neighbour))
    absent: Any = None
    with open_entrance("127.0.0.1:0", "en", lambda line: None, tmp_path / "sessions") as entrance:
        page = PageChannel(entrance)
        page.add_view(
            root, absent, absent, Hub(), dict, Counts()
        )  # a dump without a tree: reading it crashes
        async with root.running():
            waits = []
            for _ in range(8):
                page.enter(Window())  # type: ignore[arg-type]
                began = trio.current_time()
                while (await told.receive()).kind != "restarted":
                    pass
                waits.append(trio.current_time() - began)
            neighbour, own = root.status().children
            assert (neighbour.incarnation, own.incarnation, own.restarts) == (1, 1, 0)
            assert own.children[0].restarts == 8
    assert waits[0] < 1
    assert 59 < waits[-1] < 61
