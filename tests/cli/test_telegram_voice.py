"""`rumi telegram` with servers of the user's own: whisper.cpp's hears, Piper's and another one speak."""

from pathlib import Path

import pytest

from tests.cli.telegram_bot import Talk, running
from tests.cli.telegram_world import World
from tests.fakes.media_servers import OPUS, WAV, OpenAiSpeech, Piper, WhisperCpp

pytestmark = [pytest.mark.bubblewrap, pytest.mark.long]


def test_voice_is_heard_and_answered_without_a_cloud(tmp_path: Path) -> None:
    hears, speaks = WhisperCpp(" say what was", " heard"), OpenAiSpeech("opus")
    with World(said="Groq was asked") as world:
        world.come(hears)
        world.come(speaks)
        own = {
            "RUMI_VOICE__SERVER": f"{hears.root}/inference",
            "RUMI_VOICE__SPEECH_SERVER": f"{speaks.root}/v1",
        }
        with running(tmp_path, world, **own) as bot:
            talk = Talk(world)
            world.do(world.api.send_voice, talk.person, OPUS)
            assert talk.hear(1)[0] == "what was heard"
            world.until(lambda: any("voice" in message.content for message in talk.said))
            assert [message.document.content for message in talk.said if message.document] == [OPUS]
            assert speaks.spoken == ["what was heard."]
            assert talk.ask("/voice off").startswith("🔇")
            world.do(world.api.send_voice, talk.person, OPUS)
            world.until(lambda: len(hears.requests) == 2)
            bot.idle()
            assert len(speaks.spoken) == 1
        assert not any("transcriptions" in request.path for request in world.groq.requests)
        assert all(request.form["file"] == OPUS for request in hears.requests)


def test_piper_speaks_as_a_file_and_a_deaf_whisper_is_told_with_its_fix(tmp_path: Path) -> None:
    hears, speaks = WhisperCpp(convert=False), Piper("1.3")
    with World() as world:
        world.come(hears)
        world.come(speaks)
        own = {
            "RUMI_VOICE__SERVER": f"{hears.root}/inference",
            "RUMI_VOICE__SPEECH_SERVER": speaks.root,
            "RUMI_VOICE__SPEECH_API": "piper",
            "RUMI_VOICE__ANSWER": "always",
        }
        with running(tmp_path, world, **own):
            talk = Talk(world)
            world.do(world.api.send_voice, talk.person, OPUS)
            (told,) = talk.hear(1)
            assert told.startswith("❌ I could not get what you sent: ")
            assert "failed to read audio data" in told
            assert "--convert" in told
            talk.say("say buen día")
            world.until(lambda: any(message.document for message in talk.said))
            (document,) = [message.document for message in talk.said if message.document]
            assert (document.name, document.content) == ("answer.wav", WAV)
            assert speaks.spoken == ["buen día."]
