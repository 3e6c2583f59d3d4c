"""Whatever goes wrong between sender and Telegram, every reply arrives whole, and nothing overwrites it."""

from pathlib import Path
from random import Random

import pytest
import trio
from trio.testing import MockClock

from tests.channels.telegram.sending import PostOffice, post_office
from tests.fakes.bot_api import BotApi
from tests.fakes.bot_api_faults import Broken, Error, Fault, Flood, Late, Reset, Silent, Slow

HONEST: tuple[Fault, ...] = (Flood(3), Flood(20), Broken(502), Broken(500), Slow(3), Error(401))
"""What leaves no doubt about whether a request was done."""

DISHONEST: tuple[Fault, ...] = (
    Reset(),
    Reset(after=True),
    Silent(),
    Silent(after=True),
    Late(12),
    Late(25),
    Late(40),
)

CHATS = ("tg1", "tg2", "tg3", "tg-100", "tg-100_1")


class Talk:
    """What is said in a chat: each reply is made of words that occur nowhere else, in their order."""

    def __init__(self, office: PostOffice, chat: str, random: Random) -> None:
        self.office = office
        self.chat = chat
        self.random = random
        self.replies: list[list[str]] = []

    def reply(self) -> str:
        """The next reply."""
        number = len(self.replies)
        length = self.random.choice((1, 5, 50, 1200))
        words = [f"{self.chat}.{number}.{word}" for word in range(length)]
        self.replies.append(words)
        return " ".join(words)

    async def run(self, turns: int) -> None:
        """Some turns, with replies to other messages in between."""
        for _ in range(turns):
            turn = await self.office.begin(self.chat)
            for _ in range(self.random.randint(0, 12)):
                await trio.sleep(self.random.uniform(0, 2))
                match self.random.randint(0, 6):
                    case 0:
                        await self.office.reply(self.chat, self.reply())
                    case 1:
                        turn.tool(command="sleep 600")()
                    case _:
                        turn.says("growing ")
            await turn.ends(self.reply())


@pytest.mark.parametrize("drafts", [True, False])
@pytest.mark.parametrize("honest", [True, False])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
async def test_every_reply_arrives_whole(
    tmp_path: Path, autojump_clock: MockClock, seed: int, honest: bool, drafts: bool
) -> None:
    random = Random(seed)
    api = BotApi(trio.current_time, drafts=drafts, seed=seed, keep_calls=1000)
    for number in (1, 2, 3):
        api.user(number)
    group = api.group(-100, forum=True, members=[api.people[1]])
    faults = HONEST if honest else HONEST + DISHONEST
    for fault in faults:
        api.faults.often(0.3 / len(faults), fault)
    async with post_office(tmp_path, api, random=random) as office:
        talks = [Talk(office, chat, Random(f"{seed}{chat}")) for chat in CHATS]

        async def crash() -> None:
            raise ValueError("on purpose")

        async with trio.open_nursery() as nursery:
            for talk in talks:
                nursery.start_soon(talk.run, 8)
            for _ in range(0 if honest else 3):
                await trio.sleep(random.uniform(5, 40))
                office.actor.start_soon(crash)
        api.faults.clear()
        await office.all_sent(7200)
        await trio.sleep(60)
        api.catch_up()
        assert len(office.incarnations) == (1 if honest else 4)
        assert office.actor.activity() == ""
    assert group
    for talk in talks:
        number = int(talk.chat.removeprefix("tg").partition("_")[0])
        there = [text.split() for text in api.chats[number].texts]
        said = [word for text in there for word in text if word.startswith(f"{talk.chat}.")]
        wanted = [word for words in talk.replies for word in words]
        assert set(said) == set(wanted)
        if honest:
            assert len(said) == len(wanted)
        for words in talk.replies:
            mine = set(words)
            assert [word for word in dict.fromkeys(said) if word in mine] == words
