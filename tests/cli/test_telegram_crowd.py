"""`rumi telegram` with many chats at once: all are answered, none waits for another or sees its files."""

import re
from collections.abc import Iterator

import pytest

from tests.cli.telegram_bot import Gate, Talk, TelegramBot, running, wait_for
from tests.cli.telegram_world import World
from tests.cli.test_chat import processes
from tests.fakes.bot_api_faults import Flood

pytestmark = pytest.mark.bubblewrap

CHATS = 100
MESSAGES = 5
SEEN = 10
"""So many chats are looked at on Telegram, which takes 30 messages a second. The others' replies wait."""

AT_ONCE = 10
"""So many of their model calls are seen running at one moment."""

BUSY = "⏳ Already working on something. Wait for it, or send /stop."


@pytest.fixture(scope="module")
def bot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TelegramBot]:
    # Each message counts for itself, so that every message has one reply.
    apart = {"RUMI_CHAT__TOGETHER_S": "0", "RUMI_CHAT__WHEN_BUSY": "reject"}
    with World() as world, running(tmp_path_factory.mktemp("crowd"), world, **apart) as bot:
        yield bot


@pytest.fixture(scope="module")
def talks(bot: TelegramBot) -> list[Talk]:
    return [Talk(bot.world) for _ in range(CHATS)]


def running_calls(bot: TelegramBot) -> int:
    """How many calls of the model run, as `rumi status` says."""
    found = re.match(r"(\d+) running", bot.status()["/rumi/models"]["doing"])
    assert found is not None
    return int(found[1])


def test_a_hundred_chats_at_once_get_one_reply_to_each_of_their_messages(
    bot: TelegramBot, talks: list[Talk]
) -> None:
    world = bot.world

    def all_write() -> None:
        for talk in talks[SEEN:]:
            world.api.faults.often(1.0, Flood(3600), "sendMessage", talk.person.id)
        for number in range(MESSAGES):
            for talk in talks:
                world.api.say(talk.person, f"say {number}" if number else f"mark {talk.chat}")

    at_once = [0]

    def all_replied() -> bool:
        if max(at_once) < AT_ONCE:
            at_once.append(running_calls(bot))
        return bot.stored == CHATS * MESSAGES and bot.open == 0

    world.do(all_write)
    wait_for(all_replied, bot.state, 600)
    assert max(at_once) >= AT_ONCE, "the chats waited for each other"
    for talk in talks:
        replies = bot.rows(
            "SELECT reply, outbox.text, reason FROM messages JOIN outbox ON reply = outbox.id"
            " WHERE messages.chat = ? ORDER BY messages.id",
            talk.chat,
        )
        assert len({reply for reply, _, _ in replies}) == MESSAGES
        assert replies[0][1:] == (f"marked {talk.chat}", "complete")
        for number, (_, text, _) in enumerate(replies[1:], 1):
            assert text in (BUSY, str(number))
    for talk in talks:
        (file,) = bot.workspace(talk.chat).iterdir()
        assert (file.name, file.read_text()) == ("mark.txt", talk.chat)


def test_stop_ends_its_own_chats_turn_at_once_and_no_other(bot: TelegramBot) -> None:
    others = [Talk(bot.world) for _ in range(3)]
    gates = [Gate(bot, other) for other in others]
    talk = Talk(bot.world)
    talk.say("sh sleep 8001")
    bot.world.until(lambda: processes("sleep 8001"))
    assert talk.ask("/stop") == "⏹ Stopped."
    assert not processes("sleep 8001")
    for other, gate in zip(others, gates, strict=True):
        assert gate.open() in other.hear(2)[1]
    assert talk.ask("say again") == "again"
    assert len(talk.texts) == 2  # the message and its /stop share a reply


def test_an_operator_stops_and_resets_a_chat_and_sees_the_tree(bot: TelegramBot) -> None:
    talk = Talk(bot.world)
    talk.say("sh sleep 8002")
    bot.world.until(lambda: processes("sleep 8002"))
    tree = bot.program.run("status").stdout.splitlines()
    for actor, does in (
        (talk.chat, "bash sleep 8002"),
        (f"sandbox:{talk.chat}", "running sleep"),
        ("poller", "polling"),
        ("sender", "running"),
    ):
        (line,) = [line for line in tree if f" {actor} " in line]
        assert does in line
    assert bot.program.run("stop", talk.chat).stdout == "⏹ Stopped.\n"
    assert not processes("sleep 8002")
    assert talk.hear(1) == ["⏹ Stopped."]
    assert bot.program.run("stop", talk.chat).stdout == "Nothing is running.\n"
    assert talk.ask("history") == "sh sleep 8002"
    assert bot.program.run("reset", talk.chat).stdout == "✨ Session reset: container and history cleared.\n"
    assert talk.ask("history") == "nothing before"
    assert len(talk.texts) == 3  # what the operator was told is not this chat's


def test_what_was_sent_is_what_was_stored_and_a_chat_that_telegram_holds_up_holds_up_no_other(
    bot: TelegramBot, talks: list[Talk]
) -> None:
    for talk in talks[:SEEN]:
        stored = bot.rows("SELECT text FROM outbox WHERE chat = ? ORDER BY id", talk.chat)
        assert talk.hear(MESSAGES) == [text for (text,) in stored]
    assert all(talk.texts == [] for talk in talks[SEEN:])
    assert "Telegram's limit" in bot.status()["/rumi/sender"]["doing"]
    assert bot.world.api.rates.refused == []
