"""The Matrix channel with a real homeserver."""

from pathlib import Path

from tests.channels.matrix.serving import serving
from tests.matrix_server import Homeserver


async def test_a_person_who_invites_rumi_gets_an_answer(tmp_path: Path, server: Homeserver) -> None:
    async with serving(tmp_path, server) as here:
        room = await here.room()
        await here.says(room, "hello there")
        (answer,) = await here.settled(room, 1)
        assert answer.startswith("Hello!")
        assert here.messages() == ["hello there"]
