"""Voice messages on Matrix, both ways, with a real homeserver and servers that hear and speak."""

from pathlib import Path
from typing import Any

import pytest

from tests.channels.matrix.serving import in_thread, serving, until
from tests.fakes.media_servers import WAV, Piper, WhisperCpp, serving_media
from tests.matrix_server import Homeserver

pytestmark = pytest.mark.long


def spoken(address: str) -> dict[str, Any]:
    return {
        "msgtype": "m.audio",
        "body": "Voice message.wav",
        "url": address,
        "info": {"mimetype": "audio/wav", "size": len(WAV)},
        "org.matrix.msc3245.voice": {},
    }


async def test_a_voice_message_is_heard_and_answered_with_sound(tmp_path: Path, server: Homeserver) -> None:
    async with serving_media(WhisperCpp("hello there")) as ears, serving_media(Piper()) as mouth:
        more = f'[voice]\nserver = "{ears.root}/inference"\n'
        more += f'speech_server = "{mouth.root}"\nspeech_api = "piper"\n'
        async with serving(tmp_path, server, more=more) as here:
            room = await here.room()
            address = await in_thread(lambda: here.ana.upload("voice.wav", WAV, "audio/wav"))
            await here.says(room, spoken(address))
            (answer, *_) = await here.settled(room, 1)
            assert answer.startswith("Hello!"), answer
            sent = list[dict[str, Any]]()

            def came() -> bool:
                sent[:] = [
                    event["content"]
                    for event in here.ana.events(room)
                    if event["sender"] == here.rumi.id and "url" in event["content"]
                ]
                return bool(sent)

            await until(came)
            assert sent[0]["msgtype"] in ("m.audio", "m.file")
            assert len(await in_thread(lambda: here.ana.download(sent[0]["url"]))) == sent[0]["info"]["size"]


async def test_without_a_server_that_hears_the_person_is_told(tmp_path: Path, server: Homeserver) -> None:
    async with serving(tmp_path, server) as here:
        room = await here.room()
        address = await in_thread(lambda: here.ana.upload("voice.wav", WAV, "audio/wav"))
        await here.says(room, spoken(address))
        (answer,) = await here.settled(room, 1)
        assert "voice" in answer.lower()
