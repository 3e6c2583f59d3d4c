"""One thought as Telegram delivers it: several updates are one turn with one answer."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import trio
from trio.testing import MockClock

from rumi.models.model import Emit, ModelRequest, Reply
from rumi.platform.config.schema import ChatSection
from rumi.store.journal.records import Attachment
from tests.channels.telegram.house import ANA, BEN, telegram_house
from tests.fakes.bot_api import BotApi
from tests.fakes.bot_api_world import Person

Say: TypeAlias = Callable[[BotApi, Person], Any]


@pytest.fixture
def api(autojump_clock: MockClock) -> BotApi:
    api = BotApi(trio.current_time)
    api.user(ANA)
    api.user(BEN)
    return api


async def bring(chat: str, attachment: Attachment) -> str:
    await trio.lowlevel.checkpoint()
    return f"[{attachment.name}]"


def text(words: str) -> Say:
    return lambda api, me: api.say(me, words)


def forward(words: str) -> Say:
    return lambda api, me: api.forward(me, api.origin_of("Zoe"), text=words)


def document(name: str, caption: str = "") -> Say:
    return lambda api, me: api.send_document(me, name, name.encode(), caption=caption)


def album(*names: str) -> Say:
    return lambda api, me: api.send_album(me, [(name, name.encode()) for name in names])


PASTE = ("0123456789" * 500)[:4096]
THOUGHTS: dict[str, tuple[tuple[Say, ...], tuple[str, ...]]] = {
    "a comment and what is forwarded": (
        (text("sum up this"), forward("Ferry at nine.")),
        ("Ferry at nine.", "sum up this"),
    ),
    "a comment and a document": (
        (text("is the attached one signed?"), document("lease.txt")),
        ("lease.txt", "is the attached one signed?"),
    ),
    "three forwards": (
        (forward("One."), forward("Two."), forward("Three.")),
        ("One.", "Two.", "Three."),
    ),
    "two documents": ((document("a.txt"), document("b.txt")), ("a.txt", "b.txt")),
    "an album and its question": (
        (album("x.txt", "y.txt"), text("which one is newer?")),
        ("x.txt", "y.txt", "which one is newer?"),
    ),
    "a question and its album": (
        (text("which of these is newer?"), album("x.txt", "y.txt")),
        ("x.txt", "y.txt", "which of these is newer?"),
    ),
    "a cut paste": ((text(PASTE), text("the end")), (f"{PASTE}the end",)),
    "a document and a caption of the next": (
        (document("a.txt"), document("b.txt", "merge them")),
        ("a.txt", "b.txt", "merge them"),
    ),
}


async def send(api: BotApi, says: Sequence[Say], gap_s: float) -> None:
    for index, say in enumerate(says):
        await trio.sleep(gap_s if index else 0)
        say(api, api.people[ANA])


@pytest.mark.parametrize("gap_s", [0.0, 0.06, 0.4])
@pytest.mark.parametrize("name", THOUGHTS)
async def test_a_thought_in_several_updates_is_one_turn(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock, name: str, gap_s: float
) -> None:
    requests: list[ModelRequest] = []

    async def model(request: ModelRequest, emit: Emit) -> Reply:
        requests.append(request)
        await trio.sleep(takes_s)
        return Reply("understood")

    # The parts of an album are awaited, so that one that comes late meets a turn that has begun.
    takes_s = 1.0 if name == "a question and its album" else 0.0
    says, parts = THOUGHTS[name]
    async with telegram_house(tmp_path, api, answer=model, chat_section=ChatSection(), bring=bring) as house:
        await trio.sleep(1)
        await send(api, says, gap_s)
        await house.until(lambda: api.chats[ANA].texts)
        await house.idle()
    assert api.chats[ANA].texts == ["understood"]
    *begun, request = requests
    assert not begun or takes_s
    told = "\n".join(message.content for message in request.messages if message.role == "user")
    at = [told.index(part) for part in parts]
    assert at == sorted(at)  # what others wrote stands before the user's own words


async def test_a_file_that_is_too_large_is_refused_and_the_rest_goes_on(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async def model(request: ModelRequest, emit: Emit) -> Reply:
        await trio.sleep(1)
        return Reply("understood")

    async with telegram_house(tmp_path, api, answer=model, chat_section=ChatSection(), bring=bring) as house:
        me = api.people[ANA]
        api.say(me, "compare these")
        api.send_document(me, "huge.bin", b"", size=90_000_000)
        api.send_document(me, "small.txt", b"small")
        await house.until(lambda: "understood" in api.chats[ANA].texts)
        await house.idle()
    refused, answer = api.chats[ANA].texts
    assert answer == "understood"
    assert "MB" in refused


async def test_in_a_group_the_answer_replies_to_the_part_with_the_question(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async def model(request: ModelRequest, emit: Emit) -> Reply:
        await trio.sleep(3)
        return Reply("understood")

    async with telegram_house(tmp_path, api, answer=model, chat_section=ChatSection(), bring=bring) as house:
        group = api.group(-100777, members=list(api.people.values()))
        name = f"@{api.bot.username}"
        api.send_document(api.people[ANA], "a.txt", b"a", group, caption=name)
        asked = api.say(api.people[ANA], f"{name} what is in it?", group)
        api.say(api.people[BEN], f"{name} and who are you?", group)
        await house.until(lambda: group.texts.count("understood") == 2)
        await house.idle()
    answers = [message for message in group.said if message.text == "understood"]
    assert answers[0].reply_to == asked
