"""Answers by voice on Telegram: the text first, its speech behind it, at most once."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rumi.errors import RumiError
from rumi.models.model import Emit, ModelRequest, Reply
from rumi.models.speech import Speech, SpeechFormat
from rumi.store.journal.records import Attachment
from tests.channels.telegram.house import ANA, telegram_house
from tests.channels.telegram.test_groups import QUIET, in_the_evening
from tests.fakes.bot_api import BotApi
from tests.fakes.bot_api_faults import Flood, Reset
from tests.fakes.bot_api_world import Message
from tests.fakes.media_servers import MP3, OPUS, WAV


@dataclass
class FakeSpeaker:
    content: bytes = OPUS
    format: SpeechFormat = "ogg"
    wait_s: float = 1.0
    trouble: RumiError | None = None
    spoken: list[str] = field(default_factory=list)
    cancelled: int = 0

    async def speak(self, text: str) -> Speech:
        self.spoken.append(text)
        try:
            await trio.sleep(self.wait_s)
        except trio.Cancelled:
            self.cancelled += 1
            raise
        if self.trouble is not None:
            raise self.trouble
        return Speech(self.content, self.format)


class FakeFiles:
    """Hears the same words in every recording."""

    async def bring(self, chat: str, attachment: Attachment) -> str:
        await trio.lowlevel.checkpoint()
        return "what is the time?"


async def answers(request: ModelRequest, emit: Emit) -> Reply:
    await trio.lowlevel.checkpoint()
    return Reply("It is **ten**. See https://example.com/clock")


SPOKEN = "It is ten. See. There is more in the text."


@pytest.fixture
def api() -> BotApi:
    api = BotApi(trio.current_time)
    api.user(ANA)
    return api


def said(api: BotApi) -> list[str]:
    """What the bot has said, with `voice` and `file` for sounds."""

    def shown(message: Message) -> str:
        kind = "voice" if "voice" in message.content else "file"
        return message.text if message.document is None else kind

    return [shown(message) for message in api.chats[ANA].said]


TEXT = "It is ten. See https://example.com/clock"


async def test_an_answer_to_a_voice_message_is_also_spoken(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    speaker, ana = FakeSpeaker(), api.people[ANA]
    async with telegram_house(tmp_path, api, answer=answers, speaker=speaker, files=FakeFiles()) as house:
        api.send_voice(ana, b"OggS")
        await house.until(lambda: len(said(api)) == 2)
        assert said(api) == [TEXT, "voice"]
        assert speaker.spoken == [SPOKEN]
        document = api.chats[ANA].said[1].document
        assert document is not None
        assert (document.name, document.content) == ("answer.ogg", OPUS)
        api.say(ana, "and now in writing")
        await house.until(lambda: len(said(api)) == 3)
        api.send_voice(ana, b"OggS", forward_origin=api.origin_of("Eve"))  # not the voice of who asks
        await house.idle()
        await trio.sleep(10)
        assert said(api) == [TEXT, "voice", TEXT, TEXT]


async def test_a_chat_chooses_what_is_spoken(tmp_path: Path, api: BotApi, autojump_clock: MockClock) -> None:
    ana = api.people[ANA]

    async def done(number: int) -> None:
        await house.until(lambda: len(said(api)) >= number)
        await trio.sleep(10)
        assert len(said(api)) == number

    speaker = FakeSpeaker()
    async with telegram_house(tmp_path, api, answer=answers, speaker=speaker, files=FakeFiles()) as house:
        api.say(ana, "/voice always")
        await done(1)
        assert said(api)[0].startswith("🔊 I also speak every answer")
        api.say(ana, "hello")
        await done(3)
        api.say(ana, "/voice off")
        await done(4)
        api.send_voice(ana, b"OggS")
        await done(5)
        api.say(ana, "/voice perhaps")
        await done(6)
        assert said(api)[5].startswith("Send /voice on")
    async with telegram_house(tmp_path, api, answer=answers, speaker=speaker, files=FakeFiles()) as house:
        api.say(ana, "/voice")  # the choice outlives the process
        await done(7)
        assert said(api)[6].startswith("🔇 I answer in writing only")
    assert len(speaker.spoken) == 1


async def test_without_a_server_for_speech_the_command_says_so(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api, answer=answers, files=FakeFiles()) as house:
        api.say(api.people[ANA], "/voice on")
        await house.until(lambda: said(api))
        assert "[voice] speech_server" in said(api)[0]
        api.send_voice(api.people[ANA], b"OggS")
        await house.until(lambda: len(said(api)) == 2)
        assert said(api)[1] == TEXT


async def test_a_stop_ends_the_speaking_and_not_the_text(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    speaker = FakeSpeaker(wait_s=100)
    async with telegram_house(tmp_path, api, answer=answers, speaker=speaker, files=FakeFiles()) as house:
        api.send_voice(api.people[ANA], b"OggS")
        await house.until(lambda: speaker.spoken)
        assert said(api) == [TEXT]
        api.say(api.people[ANA], "/stop")
        await house.until(lambda: len(said(api)) == 2)
        await trio.sleep(200)
        assert speaker.cancelled == 1
        assert len(said(api)) == 2
        assert "⏹" in said(api)[1] or "top" in said(api)[1]
        api.say(api.people[ANA], "/stop")
        await house.until(lambda: len(said(api)) == 3)
        assert said(api)[2] != said(api)[1]


async def test_a_failure_of_speech_costs_no_text_and_is_told_once(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    speaker = FakeSpeaker(trouble=RumiError("The server is deaf.", "Check voice.speech_server."))
    async with telegram_house(tmp_path, api, answer=answers, speaker=speaker, files=FakeFiles()) as house:
        for number in range(2):
            api.send_voice(api.people[ANA], b"OggS")
            await house.until(lambda number=number: said(api).count(TEXT) == number + 1)  # type: ignore[misc]
            await trio.sleep(10)
        assert said(api) == [
            TEXT,
            "🔇 The answer was not spoken. The server is deaf. Check voice.speech_server.",
            TEXT,
        ]


@pytest.mark.parametrize(
    ("content", "format", "forbidden", "shown"),
    [
        (OPUS, "ogg", False, "voice"),
        (MP3, "mp3", False, "voice"),
        (WAV, "wav", False, "file"),
        (OPUS, "ogg", True, "file"),
    ],
)
async def test_what_telegram_cannot_play_as_a_voice_message_goes_as_a_file(
    tmp_path: Path,
    api: BotApi,
    autojump_clock: MockClock,
    content: bytes,
    format: SpeechFormat,
    forbidden: bool,
    shown: str,
) -> None:
    if forbidden:
        api.messages.without_voice.add(ANA)
    speaker = FakeSpeaker(content, format)
    async with telegram_house(tmp_path, api, answer=answers, speaker=speaker, files=FakeFiles()) as house:
        api.send_voice(api.people[ANA], b"OggS")
        await house.until(lambda: len(said(api)) == 2)
        await trio.sleep(10)
        assert said(api) == [TEXT, shown]


async def test_speech_waits_for_a_rate_limit_and_is_never_sent_twice(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with telegram_house(
        tmp_path, api, answer=answers, speaker=FakeSpeaker(), files=FakeFiles()
    ) as house:
        api.faults.next(Flood(20), "sendVoice")
        api.send_voice(api.people[ANA], b"OggS")
        await house.until(lambda: len(said(api)) == 2, 60)
        assert said(api) == [TEXT, "voice"]
        api.faults.next(Reset(after=True), "sendVoice")  # Telegram has taken it, and nobody is told
        api.send_voice(api.people[ANA], b"OggS")
        await house.until(lambda: said(api).count(TEXT) == 2, 60)
        await trio.sleep(60)
        assert said(api).count("voice") == 2


async def test_the_text_comes_before_its_speech_even_if_it_is_late(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with telegram_house(
        tmp_path, api, answer=answers, speaker=FakeSpeaker(wait_s=0.0), files=FakeFiles()
    ) as house:
        api.faults.next(Flood(15), "sendMessage")
        api.send_voice(api.people[ANA], b"OggS")
        await house.until(lambda: len(said(api)) == 2, 60)
        assert said(api) == [TEXT, "voice"]


async def test_a_stopped_turn_is_not_spoken(tmp_path: Path, api: BotApi, autojump_clock: MockClock) -> None:
    async def slow(request: ModelRequest, emit: Emit) -> Reply:
        await trio.sleep(100)
        return Reply("late")

    speaker = FakeSpeaker()
    async with telegram_house(tmp_path, api, answer=slow, speaker=speaker, files=FakeFiles()) as house:
        api.send_voice(api.people[ANA], b"OggS")
        await trio.sleep(5)
        api.say(api.people[ANA], "/stop")
        await house.until(lambda: said(api))
        await trio.sleep(30)
    assert speaker.spoken == []


async def test_an_answer_that_is_spoken_in_a_groups_quiet_hours_makes_no_sound(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    group = api.group(-100777, members=[api.people[ANA]])
    async with telegram_house(
        tmp_path,
        api,
        answer=answers,
        telegram=in_the_evening(),
        groups=QUIET,
        speaker=FakeSpeaker(),
        files=FakeFiles(),
        spoken="always",
    ) as house:
        await trio.sleep(30)
        api.say(api.people[ANA], "hello", group)
        await house.until(lambda: any("voice" in message.content for message in group.said))
        assert all(message.options["disable_notification"] is True for message in group.said)
