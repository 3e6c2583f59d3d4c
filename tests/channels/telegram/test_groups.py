"""Groups on Telegram: who is listened to, comments on what follows them, and quiet hours."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rumi.channels.telegram.address import Moves
from rumi.channels.telegram.api.bot import Me
from rumi.channels.telegram.channel import Telegram
from rumi.channels.telegram.receiving.comments import Comments
from rumi.channels.telegram.receiving.reading import Stranger, Who, read_batch
from rumi.models.model import Emit, ModelRequest, Reply
from rumi.platform.config.groups import Groups
from rumi.platform.config.schema import GroupSection
from rumi.store.journal.records import Incoming
from rumi.store.journal.schedules import set_zone
from tests.channels.telegram.house import ANA, BEN, EVE, TelegramHouse, telegram_house
from tests.fakes.bot_api import BotApi
from tests.fakes.bot_api_world import Chat, Json, Message, Person

TO = "@rumi_test_bot"
OTHER = Person(12345, "Dice", "dice_bot", is_bot=True)
BY_EVE = {"type": "hidden_user", "sender_user_name": "Eve", "date": 1}


class Room:
    """A group with people, and what of it is for the bot. Ben is a member who may not talk to it."""

    def __init__(self, listen: str | None, *, forum: bool = False) -> None:
        self.at = 0.0
        self.api = BotApi(lambda: self.at)
        self.ana, self.ben = self.api.user(ANA), self.api.user(BEN)
        self.group = self.api.group(-100777, forum=forum, members=[self.ana, self.ben])
        sections = {} if listen is None else {"-100777": GroupSection.model_validate({"listen": listen})}
        self.who = Who(frozenset({ANA}), groups=Groups(sections))
        self.comments = Comments()
        self.moves = Moves()
        self._read = 0

    def read(self) -> list[str]:
        """Return the texts, or the sources, of new messages for the bot; `?` for a stranger's."""
        return ["?" if isinstance(one, Stranger) else _said(one) for one in self._found()]

    def incoming(self) -> list[Incoming]:
        return [one for one in self._found() if isinstance(one, Incoming)]

    def _found(self) -> list[Incoming | Stranger]:
        updates: list[Json] = [update for _, update in self.api.updates.pending][self._read :]
        self._read += len(updates)
        self.comments.now = self.at
        me = Me(self.api.bot.id, self.api.bot.username)
        found = read_batch(updates, me, self.who, self.moves, hears=True, comments=self.comments)
        return [one for one in found if _counts(one)]

    def of_bot(self, bot: Person | None = None) -> Message:
        return self.api.write(self.group, bot or self.api.bot, "I am here")


def _counts(one: Incoming | Stranger) -> bool:
    return isinstance(one, Stranger) or bool(one.chat)


def _said(one: Incoming) -> str:
    return one.text or ",".join(part.text or part.name for part in one.attachments)


# Who is listened to

SAID: dict[str, Callable[[Room], object]] = {
    "a mention": lambda room: room.api.say(room.ana, f"{TO} hi", room.group),
    "a mention in capitals": lambda room: room.api.say(room.ana, f"{TO.upper()} hi", room.group),
    "a mention at the end": lambda room: room.api.say(room.ana, f"hi {TO}", room.group),
    "a command": lambda room: room.api.say(room.ana, "/status", room.group),
    "a command with the name": lambda room: room.api.say(room.ana, f"/status{TO.upper()}", room.group),
    "a reply": lambda room: room.api.say(room.ana, "hi", room.group, reply_to=room.of_bot()),
    "a reply with a mention": lambda room: room.api.say(
        room.ana, f"{TO} hi", room.group, reply_to=room.of_bot()
    ),
    "talk": lambda room: room.api.say(room.ana, "hi", room.group),
    "a forward": lambda room: room.api.forward(room.ana, BY_EVE, room.group, text="hi"),
    "a reply to a person": lambda room: room.api.say(
        room.ana, "hi", room.group, reply_to=room.api.say(room.ben, "who", room.group)
    ),
    "a reply to another bot": lambda room: room.api.say(
        room.ana, "hi", room.group, reply_to=room.of_bot(OTHER)
    ),
    "another bot's name": lambda room: room.api.say(room.ana, "@dice_bot roll", room.group),
    "another bot's command": lambda room: room.api.say(room.ana, "/status@dice_bot", room.group),
    "a command that nobody knows": lambda room: room.api.say(room.ana, "/roll 2", room.group),
    "another bot": lambda room: room.api.send(OTHER, room.group, text=f"{TO} hi"),
    "a stranger's talk": lambda room: room.api.say(room.ben, "hi", room.group),
    "a stranger's mention": lambda room: room.api.say(room.ben, f"{TO} hi", room.group),
}
ALWAYS = {
    *("a mention", "a mention in capitals", "a mention at the end", "a command", "a command with the name"),
    *("a reply with a mention", "a stranger's mention"),
}
HEARD = {
    "mention": ALWAYS,
    "reply": ALWAYS | {"a reply"},
    None: ALWAYS | {"a reply"},
    "all": ALWAYS | {"a reply", "talk", "a forward", "a reply to a person"},
}


@pytest.mark.parametrize("what", SAID)
@pytest.mark.parametrize("listen", HEARD)
def test_a_group_is_listened_to_as_its_settings_say(listen: str | None, what: str) -> None:
    room = Room(listen)
    SAID[what](room)
    assert bool(room.read()) == (what in HEARD[listen])


@pytest.mark.parametrize("topic", [False, True], ids=["general", "topic"])
def test_topics_are_listened_to_as_their_group_is_unless_they_have_a_section(topic: bool) -> None:
    room = Room("all", forum=True)
    room.of_bot()  # the number 1 is that of the topic General
    number = room.api.topic(room.group, room.ana)
    where = number if topic else None
    room.api.say(room.ana, "hi", room.group, topic=where)
    assert room.read() == ["hi"]
    sections = {**room.who.groups.sections, f"tg-100777_{number}": GroupSection(listen="mention")}
    room.who = Who(frozenset({ANA}), groups=Groups(sections))
    room.api.say(room.ana, "again", room.group, topic=where)
    assert room.read() == ([] if topic else ["again"])


@pytest.mark.parametrize("name", ["-5", "tg-5", "-100777", "tg-100777"])
def test_a_group_that_has_moved_keeps_its_settings(name: str) -> None:
    room = Room(None)
    room.who = Who(frozenset({ANA}), groups=Groups({name: GroupSection(listen="all")}))
    room.moves.note_move(-5, -100777)
    room.api.say(room.ana, "hi", room.group)
    assert room.read() == ["hi"]


def test_a_private_chat_has_no_settings_of_a_group() -> None:
    room = Room("mention")
    room.api.say(room.ana, "hi")
    assert room.read() == ["hi"]


# Comments on what follows them


def forward(room: Room, text: str = "news", person: Person | None = None) -> None:
    room.api.forward(person or room.ana, BY_EVE, room.group, text=text)


@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("after_s", [0.0, 0.06, 0.4, 1.9])
def test_what_a_comment_is_about_is_for_the_bot_as_the_comment_is(after_s: float, batches: int) -> None:
    room = Room(None)
    room.api.say(room.ana, f"{TO} sum up this", room.group)
    first = room.read() if batches == 2 else []
    room.at += after_s
    forward(room)
    assert first + room.read() == ["sum up this", "news"]


FOLLOWS: dict[str, tuple[Callable[[Room], object], int]] = {
    "three forwards": (lambda room: [forward(room, str(number)) for number in range(3)], 3),
    "a file": (lambda room: room.api.send_document(room.ana, "a.pdf", b"1", room.group), 1),
    "two files": (
        lambda room: [room.api.send_document(room.ana, f"{name}.pdf", b"1", room.group) for name in "ab"],
        2,
    ),
    "an album": (lambda room: room.api.send_album(room.ana, [("a", b"1"), ("b", b"2")], room.group), 1),
    "talk": (lambda room: room.api.say(room.ana, "never mind", room.group), 0),
    "talk, then a forward": (
        lambda room: (room.api.say(room.ana, "never mind", room.group), forward(room)),
        0,
    ),
    "somebody else's forward": (lambda room: forward(room, person=room.ben), 0),
    "a forward after somebody else's talk": (
        lambda room: (room.api.say(room.ben, "hello", room.group), forward(room)),
        1,
    ),
}


@pytest.mark.parametrize("what", FOLLOWS)
def test_only_what_is_handed_on_by_the_same_person_right_after_follows_a_comment(what: str) -> None:
    room, (follows, count) = Room(None), FOLLOWS[what]
    room.who = Who(frozenset({ANA, BEN}))
    room.api.say(room.ana, f"{TO} look", room.group)
    follows(room)
    assert len(room.read()) == 1 + count


@pytest.mark.parametrize("first", ["/stop", f"/status{TO}", "hello all", f"/research{TO} whales"])
def test_what_follows_a_command_or_talk_is_for_nobody(first: str) -> None:
    room = Room(None)
    room.api.say(room.ana, first, room.group)
    forward(room)
    assert "news" not in room.read()


def test_what_comes_later_or_elsewhere_is_for_nobody() -> None:
    room = Room(None, forum=True)
    topic = room.api.topic(room.group, room.ana)
    room.api.say(room.ana, f"{TO} look", room.group, topic=topic)
    room.api.forward(room.ana, BY_EVE, room.group, text="general")
    assert room.read() == ["look"]
    room.api.say(room.ana, f"{TO} look", room.group)
    room.at += 3.5
    forward(room)
    assert room.read() == ["look"]


def test_a_batch_of_hours_does_not_bring_together_what_was_apart() -> None:
    room = Room(None)
    room.api.say(room.ana, f"{TO} look", room.group)
    room.at += 3600
    forward(room)
    assert room.read() == ["look"]


def test_what_could_not_be_stored_at_first_belongs_to_its_comment_also_later() -> None:
    room = Room(None)
    room.api.say(room.ana, f"{TO} look", room.group)
    room.read()
    forward(room)
    assert room.read() == ["news"]
    room._read -= 1
    room.at += 60
    assert room.read() == ["news"]


# What comes before the message to the bot

LONG = "word " * 815

BEFORE: dict[str, tuple[Callable[[Room], object], str]] = {
    "a forward": (forward, "news"),
    "two forwards": (lambda room: (forward(room, "a"), forward(room, "b")), "a,b"),
    "a file": (lambda room: room.api.send_document(room.ana, "a.pdf", b"1", room.group), "a.pdf"),
    "a photo with a caption": (
        lambda room: room.api.send_photo(room.ana, b"1", room.group, caption="pier 4"),
        "photo-1.jpg",
    ),
    "an album": (lambda room: room.api.send_album(room.ana, [("a", b"1"), ("b", b"2")], room.group), "a,b"),
    "a recording": (lambda room: room.api.send_voice(room.ana, b"1", room.group), "voice-1.ogg"),
    "a film that is too large": (
        lambda room: room.api.send_document(room.ana, "a.mkv", b"", room.group, size=30_000_000),
        "The file a.mkv is too large: I can take up to 20 MB.",
    ),
}


@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("what", BEFORE)
def test_what_is_handed_to_a_group_right_before_a_question_belongs_to_the_question(
    what: str, batches: int
) -> None:
    room, (hand, said) = Room(None), BEFORE[what]
    hand(room)
    if batches == 2:
        assert room.read() == []
    room.at += 0.4
    room.api.say(room.ana, f"{TO} is it true?", room.group)
    (asked,) = room.incoming()
    assert ",".join(part.text or part.name for part in asked.attachments) == said
    assert asked.text.endswith("is it true?")
    room.api.say(room.ana, f"{TO} and now?", room.group)
    assert [one.attachments for one in room.incoming()] == [()], "it is told once"


@pytest.mark.parametrize(
    "then",
    [
        lambda room: room.api.say(room.ana, "hello all", room.group),
        lambda room: setattr(room, "at", 60.0),
        lambda room: room.api.say(room.ana, f"{TO} yes", room.group),
        lambda room: room.api.say(room.ana, "/status", room.group),
    ],
    ids=["talk", "a minute", "a yes", "a command"],
)
def test_what_was_handed_to_a_group_earlier_belongs_to_no_question(then: Callable[[Room], object]) -> None:
    room = Room(None)
    forward(room)
    then(room)
    room.incoming()
    room.at += 3
    room.api.say(room.ana, f"{TO} is it true?", room.group)
    assert [one.attachments for one in room.incoming()] == [()]
    room.at += 3
    forward(room)
    room.api.say(room.ana, f"{TO} yes", room.group)
    assert [one.attachments for one in room.incoming()] == [()], "a yes stays a yes"


def test_what_another_person_handed_to_a_group_belongs_to_no_question() -> None:
    room = Room(None)
    room.who = Who(frozenset({ANA, BEN}))
    forward(room, person=room.ben)
    room.api.say(room.ana, f"{TO} is it true?", room.group)
    assert [one.attachments for one in room.incoming()] == [()]


def test_a_question_that_could_not_be_stored_at_first_has_what_came_before_it_also_later() -> None:
    room = Room(None)
    forward(room)
    room.api.say(room.ana, f"{TO} is it true?", room.group)
    (asked,) = room.incoming()
    room._read -= 1
    room.at += 60
    assert room.incoming() == [asked]


def test_a_long_text_that_the_client_cut_is_for_the_bot_wherever_it_mentions_it() -> None:
    room = Room(None)
    room.api.say(room.ana, f"{TO} {LONG}", room.group)
    room.api.say(room.ana, LONG, room.group)
    room.api.say(room.ana, "the end", room.group)
    assert [text.strip() for text in room.read()] == [LONG.strip(), LONG.strip(), "the end"]
    room.at += 60
    room.api.say(room.ana, LONG, room.group)
    assert room.read() == []
    room.api.say(room.ana, f"the end {TO}", room.group)
    (text,) = room.read()
    assert text.startswith(LONG.strip())
    assert text.endswith("\nthe end")


# Quiet hours

QUIET = Groups({"-100777": GroupSection(quiet="22:00-22:20", listen="all")})
EVENING = datetime(2026, 11, 24, 21, 59, 50, tzinfo=UTC)
"""Ten seconds before the quiet hours, if the group's zone is UTC."""


def in_the_evening() -> Telegram:
    return Telegram(now=lambda: EVENING.timestamp() + trio.current_time())


@pytest.fixture
def api(autojump_clock: MockClock) -> BotApi:
    api = BotApi(trio.current_time)
    for person in (ANA, BEN, EVE):
        api.user(person)
    return api


@pytest.fixture
def group(api: BotApi) -> Chat:
    return api.group(-100777, members=list(api.people.values()))


@asynccontextmanager
async def quiet_house(
    path: Path, api: BotApi, groups: Groups = QUIET, zone: str = "UTC"
) -> AsyncIterator[TelegramHouse]:
    async with telegram_house(path, api, telegram=in_the_evening(), groups=groups) as house:
        await house.journal.ask(set_zone("tg-100777", zone))
        yield house


async def comes(house: TelegramHouse, text: str, chat: str = "tg-100777", *, task: int = 0) -> None:
    """The result of a task, or a reminder, comes to the chat."""
    message = Incoming(chat=chat, text=text, language="en", task=task)
    if not task:
        message = replace(message, schedule=1, notice=True)
    assert await house.inbox.accept_all([message]) == [True]


async def test_what_rumi_sends_by_itself_waits_for_the_end_of_quiet_hours_and_comes_once_in_order(
    tmp_path: Path, api: BotApi, group: Chat, autojump_clock: MockClock
) -> None:
    async with quiet_house(tmp_path, api) as house:
        await comes(house, "before the night")
        await house.until(lambda: group.texts == ["before the night"])
        await trio.sleep(20)
        for number, text in enumerate(("one", "two", "three", "four"), 1):
            await comes(house, text, task=number if number % 2 else 0)
            await trio.sleep(60)
        await trio.sleep(900)
        assert group.texts == ["before the night"]
        await trio.sleep(120)
        assert [text.split("\n")[0] for text in group.texts[1:]] == ["one", "two", "three", "four"]
        assert not any(message.options.get("disable_notification") for message in group.said)
        await trio.sleep(600)
        assert len(group.texts) == 5


async def test_an_answer_in_quiet_hours_comes_at_once_and_silently_before_what_waits(
    tmp_path: Path, api: BotApi, group: Chat, autojump_clock: MockClock
) -> None:
    async with quiet_house(tmp_path, api) as house:
        await trio.sleep(30)
        await comes(house, "a reminder")
        api.say(api.people[ANA], "hello", group)
        await house.until(lambda: "you said hello" in group.texts)
        assert "a reminder" not in group.texts
        assert all(message.options["disable_notification"] is True for message in group.said)
        await trio.sleep(1300)
        assert group.texts[-1] == "a reminder"
        api.say(api.people[ANA], "good morning", group)
        await house.until(lambda: "you said good morning" in group.texts)
        assert not group.said[-1].options.get("disable_notification")


async def test_what_waits_in_quiet_hours_outlives_the_process(
    tmp_path: Path, api: BotApi, group: Chat, autojump_clock: MockClock
) -> None:
    async with quiet_house(tmp_path, api) as house:
        await trio.sleep(30)
        for text in ("one", "two"):
            await comes(house, text)
        await trio.sleep(60)
    async with quiet_house(tmp_path, api) as house:
        await comes(house, "three")
        await trio.sleep(600)
        assert group.texts == []
        await trio.sleep(700)
        assert group.texts == ["one", "two", "three"]
    async with quiet_house(tmp_path, api):
        await trio.sleep(60)
    assert len(group.texts) == 3


@pytest.mark.parametrize(
    ("zone", "quiet", "minutes"),
    [
        ("UTC", "22:00-22:20", 20),
        ("UTC", "23:00-23:20", 0),
        ("Europe/Madrid", "23:00-23:15", 15),
        ("Europe/Madrid", "22:00-22:20", 0),
        ("America/Argentina/Buenos_Aires", "18:30-19:10", 10),
        ("Asia/Kolkata", "22:00-03:40", 10),
        ("Pacific/Kiritimati", "9:00-12:05", 5),
    ],
)
async def test_quiet_hours_are_those_of_the_groups_own_zone(
    tmp_path: Path, api: BotApi, group: Chat, autojump_clock: MockClock, zone: str, quiet: str, minutes: int
) -> None:
    groups = Groups({"tg-100777": GroupSection(quiet=quiet)})
    async with quiet_house(tmp_path, api, groups, zone) as house:
        await trio.sleep(10)
        await comes(house, "a reminder")
        came = trio.current_time()
        await house.until(lambda: group.texts == ["a reminder"], within_s=1500)
        assert abs(trio.current_time() - came - minutes * 60) < 30


@pytest.mark.parametrize("chat", ["topic", "tg11", "tg-100888"])
async def test_topics_have_the_quiet_hours_of_their_group_and_other_chats_have_none(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock, chat: str
) -> None:
    forum = api.group(-100777, forum=True, members=[api.people[ANA]])
    topic = api.topic(forum, api.people[ANA])
    other = api.group(-100888, members=[api.people[ANA]])
    async with quiet_house(tmp_path, api) as house:
        api.say(api.people[ANA], "hello")
        await trio.sleep(60)
        await comes(house, "a reminder", f"tg-100777_{topic}" if chat == "topic" else chat)
        await trio.sleep(60)

        def told() -> int:
            texts = [*forum.texts, *other.texts, *api.chats[ANA].texts]
            return texts.count("a reminder")

        assert told() == (chat != "topic")
        await trio.sleep(1200)
        assert told() == 1


async def test_a_long_turn_does_not_keep_back_what_waited_for_the_morning(
    tmp_path: Path, api: BotApi, group: Chat, autojump_clock: MockClock
) -> None:
    async def slow(request: ModelRequest, emit: Emit) -> Reply:
        await trio.sleep(600)
        return Reply("at last")

    async with telegram_house(tmp_path, api, telegram=in_the_evening(), groups=QUIET, answer=slow) as house:
        await house.journal.ask(set_zone("tg-100777", "UTC"))
        await trio.sleep(30)
        await comes(house, "a reminder")
        await trio.sleep(1080)
        api.say(api.people[ANA], "hello", group)
        await trio.sleep(140)
        assert "a reminder" in group.texts
        assert "at last" not in group.texts


async def test_a_comment_and_what_follows_it_come_to_the_chat(
    tmp_path: Path, api: BotApi, group: Chat, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api, max_queued=5) as house:
        api.say(api.people[ANA], f"{TO} sum up this", group)
        await trio.sleep(0.4)
        api.forward(api.people[ANA], BY_EVE, group, text="news of the day")
        await house.until(lambda: any("news of the day" in text for text in group.texts))
