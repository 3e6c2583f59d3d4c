"""Where people talk with the bot, and what has to come of what they say.

Every text carries the mark of its place (`ann#12`): whatever is found in another place has got lost there.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from rumi.agent.permissions.rights import ADMIN, MEMBER, Rights
from rumi.channels.telegram.address import TelegramAddress
from rumi.channels.telegram.receiving.reading import Who
from rumi.chats.people.people import People, Principal
from rumi.platform.chat_ids import BUILT_IN
from tests.fakes.bot_api import BotApi
from tests.fakes.bot_api_world import Chat, Message, Person

ANN, BOB, CYN = 1001, 1002, 1003
STRANGERS = (6661, 6662)
GROUP, FORUM = -100777, -100888
BASIC_GROUP = -777
"""The group's number before it becomes a supergroup, in histories about that."""

WHO = Who(allowed=frozenset({BOB, CYN}), admins=frozenset({ANN}))

GUEST = Rights("guest", tools=("read", "do", "*_file", "delegate", "research"))
"""The role of Cyn in some histories: no commands run for it."""

PEOPLE = People(
    BUILT_IN,
    {
        ANN: Principal("ann", ADMIN, (ANN,)),
        BOB: Principal("bob", MEMBER, (BOB,)),
        CYN: Principal("cyn", GUEST, (CYN,)),
    },
)

WHOLE_STATUS = "this is how the whole house is"
ADMIN = "ann"
"""The mark of the only place where that may be shown."""

MARKS = ("ann", "bob", "cyn", "den", "eve", "fay", "xav")
STRANGE = "xav"
"""The mark of what strangers write, wherever they do."""

_MARK = re.compile(rf"\b({'|'.join(MARKS)})#")
_CHAT = re.compile(r"(?<![\w-])tg(-?\d+(?:_\d+)?)(?!\w)")


@dataclass(eq=False)
class SimChat:
    """A chat, or a topic of one. `people` may talk there, `stranger` may not and does.

    `rooms` are what Telegram has of it: a group that gets another number becomes another one, the last.
    """

    mark: str
    telegram_chats: list[Chat]
    people: tuple[Person, ...]
    topic: int | None = None
    stranger: Person | None = None
    gone: list[tuple[float, float]] = field(default_factory=list)
    """When nobody could be reached here."""
    begun: list[Message] = field(default_factory=list)
    """With which turns have begun."""
    wiped: list[Message] = field(default_factory=list)
    """What people took away of what the bot had said."""
    meddled: bool = False
    """Somebody gave it a command from outside, of which nobody here knows."""
    files: int = 0
    things: int = 0
    """How many the model has thought of here."""

    @property
    def chat(self) -> str:
        """Its id in the house, which its first number gives for ever."""
        return TelegramAddress(self.telegram_chats[0].id, self.topic).chat

    @property
    def telegram_chat(self) -> Chat:
        """Where people write now."""
        return self.telegram_chats[-1]

    @property
    def moved(self) -> bool:
        """Whether it got another number."""
        return len(self.telegram_chats) > 1

    @property
    def messages(self) -> list[Message]:
        """All that was ever written there, in order; another topic's messages too."""
        if not self.moved:
            return self.telegram_chat.messages
        return [message for room in self.telegram_chats for message in room.messages]

    @property
    def private(self) -> bool:
        return self.telegram_chat.person is not None

    @property
    def has_admin(self) -> bool:
        """Whether an admin may talk here."""
        return any(person.id == ANN for person in self.people)

    def holds(self, message: Message) -> bool:
        """Whether a message of the room stands here."""
        return not self.telegram_chat.forum or message.topic == self.topic

    def has(self, number: int | None) -> bool:
        """Whether this is or was one of its numbers."""
        return any(room.id == number for room in self.telegram_chats)

    def sender_of(self, number: int, text: str, *, retry: bool) -> Person:
        """Who wrote the message of that number, with which a turn about `text` began.

        In a group that moved there may be two: then it is the one that says so, unless a turn has begun with
        it before. `retry`: it is a /retry, which does not say what its turn is about.
        """
        both = [room.by_id[number] for room in self.telegram_chats if number in room.by_id]
        if not both:  # its number was the old group's, and counts no more
            both = [message for message in self.messages if message.text and message.text in text]
        if retry:
            both = [message for message in both if message.text.startswith("/retry")] or both
        found = [message for message in both if message not in self.begun] or both
        said = [message for message in found if text and (text in message.text or message.text in text)]
        theirs = [message for message in found if not message.from_bot and message.update_id]
        self.begun.append((said or theirs)[-1])
        return self.begun[-1].sender


@dataclass(eq=False)
class Said:
    """Something that somebody sent. `text` is what the house may store of it, None where it may not.

    `polite`: the sender had waited until nothing ran. `lost`: Telegram itself may not have handed it out.
    `album` is what belongs to it besides. `edits` are the texts that the sender gave it later. `behind`: it
    may count as meant for the bot, because it came behind something of the same person that was. `made` is
    then its text: what the house makes of what is no text.
    """

    sim_chat: SimChat
    message: Message
    text: str | None
    polite: bool = False
    lost: bool = False
    album: list[Message] = field(default_factory=list)
    edits: list[str] = field(default_factory=list)
    behind: bool = False
    made: str = ""


def make_sim_chats(api: BotApi, *, basic: bool) -> list[SimChat]:
    """All the places that there are. `basic`: the group has still to become a supergroup."""
    ann = api.user(ANN, language_code="es", first_name="Ann")
    bob = api.user(BOB, language_code="en", first_name="Bob")
    cyn = api.user(CYN, language_code=None, first_name="Cyn")
    xav, yak = (api.user(number, first_name=f"Stranger{number}") for number in STRANGERS)
    group = api.group(BASIC_GROUP if basic else GROUP, basic=basic, members=(ann, bob, xav))
    forum = api.group(FORUM, forum=True, members=(bob, cyn))
    topic = api.topic(forum, bob)
    gone: list[tuple[float, float]] = []
    return [
        SimChat("ann", [api.chats[ANN]], (ann,)),
        SimChat("bob", [api.chats[BOB]], (bob,)),
        SimChat("cyn", [api.chats[CYN]], (cyn,)),
        SimChat("den", [group], (ann, bob), stranger=xav),
        SimChat("eve", [forum], (bob, cyn), topic=topic, gone=gone),
        SimChat("fay", [forum], (bob, cyn), gone=gone),
        SimChat(STRANGE, [api.chats[xav.id]], (), stranger=xav),
        SimChat(STRANGE, [api.chats[yak.id]], (), stranger=yak),
    ]


def by_chat(sim_chats: Sequence[SimChat]) -> dict[str, SimChat]:
    """The places by their ids, and a group that may move also by the id that its new number could give."""
    found = {sim_chat.chat: sim_chat for sim_chat in sim_chats}
    return found | {
        chat_of_moved(): sim_chat for sim_chat in sim_chats if sim_chat.telegram_chats[0].id == BASIC_GROUP
    }


def chat_of_moved() -> str:
    """What no chat is called in histories in which a group moves."""
    return TelegramAddress(GROUP).chat


def strays(text: str, sim_chat: SimChat) -> list[str]:
    """What stands in the text and belongs to another place."""
    found = [mark for mark in _MARK.findall(text) if mark != sim_chat.mark]
    return found + [f"tg{chat}" for chat in _CHAT.findall(text) if f"tg{chat}" != sim_chat.chat]
