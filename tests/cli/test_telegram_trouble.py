"""`rumi telegram` while Telegram or the model is in trouble: it says so, and goes on by itself."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.cli.telegram_bot import Talk, TelegramBot, running, wait_for
from tests.cli.telegram_world import World
from tests.fakes.bot_api_faults import Broken, Fault, Flood, Reset, Truncated

pytestmark = pytest.mark.bubblewrap

NOTHING = "Nothing is running."
"""What `/stop` is answered: a reply that needs no model."""


@pytest.fixture(scope="module")
def bot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TelegramBot]:
    no_others = {"RUMI_MODEL__FALLBACKS": "[]"}
    with World() as world, running(tmp_path_factory.mktemp("trouble"), world, **no_others) as bot:
        yield bot


@dataclass
class Waiting:
    """People whose turns wait for a model that is away."""

    english: Talk
    spanish: Talk


@pytest.fixture(scope="module")
def waiting(bot: TelegramBot) -> Waiting:
    """It is tried for some seconds before that is told."""
    waiting = Waiting(Talk(bot.world), Talk(bot.world, language="es"))
    bot.world.leave(bot.world.groq)
    waiting.english.say("say finally")
    waiting.spanish.say("say por fin")
    return waiting


def poller(bot: TelegramBot) -> str:
    return str(bot.status()["/rumi/poller"]["doing"])


@pytest.mark.usefixtures("waiting")  # begins here
def test_a_flooded_chat_waits_as_long_as_telegram_says_and_no_other_does(bot: TelegramBot) -> None:
    world, talk, other = bot.world, Talk(bot.world), Talk(bot.world)
    world.do(world.api.faults.next, Flood(3), "sendMessage", talk.person.id)
    talk.say("/stop")
    world.until(lambda: any(one.chat == talk.person.id for one in world.api.faults.injected))
    assert f"{talk.chat} waits" in bot.status()["/rumi/sender"]["doing"]
    assert other.ask("/stop") == NOTHING
    assert talk.texts == []
    assert talk.hear(1) == [NOTHING]
    assert world.api.rates.refused == []


@pytest.mark.parametrize("fault", [Broken(502), Reset(), Truncated()])
def test_a_server_that_fails_is_asked_again(bot: TelegramBot, fault: Fault) -> None:
    world, talk = bot.world, Talk(bot.world)
    world.do(world.api.faults.next, fault, "sendMessage", talk.person.id)
    world.do(world.api.faults.next, fault, "getUpdates")
    talk.say("/stop")
    talk.hear(1)
    world.until(lambda: not world.api.pending, what=bot.tell)
    wait_for(lambda: bot.unsent == 0, bot.tell)
    # Of an answer that is cut in half nobody knows what was done: so it may be said twice, but not never.
    assert talk.texts == [NOTHING] * (2 if fault == Truncated() else 1)


def test_another_program_with_the_same_token_is_told_and_nothing_is_lost(bot: TelegramBot) -> None:
    world, talk = bot.world, Talk(bot.world)
    world.do(world.api.handle, "getUpdates", {"timeout": 0})
    wait_for(lambda: "another program polls with this bot's token" in poller(bot), bot.tell)
    assert talk.ask("/stop") == NOTHING


def test_a_model_that_is_away_is_told_and_retry_goes_on_when_it_is_back(
    bot: TelegramBot, waiting: Waiting
) -> None:
    (told,) = waiting.english.hear(1)
    assert told.startswith("❌ The model did not answer: ")
    assert told.endswith(". Send /retry to try again.")
    assert waiting.spanish.hear(1)[0].startswith("❌ El modelo no responde: ")
    bot.world.come(bot.world.groq)
    assert waiting.english.ask("/retry") == "finally"
    assert waiting.english.ask("/retry") == "There is nothing to retry."


def test_what_was_worked_on_while_telegram_was_away_arrives_when_it_is_back(bot: TelegramBot) -> None:
    world, talk = bot.world, Talk(bot.world)
    talk.say("drip 1 patience")  # takes a second or two
    world.until(lambda: talk.place.actions)
    world.leave(world.telegram)
    wait_for(lambda: "Telegram cannot be reached" in poller(bot), bot.tell)
    wait_for(lambda: bot.unsent == 1, bot.tell)
    assert bot.status()["/rumi/sender"]["doing"].startswith("1 reply waits in 1 chat")
    talk.say("say and this")
    world.come(world.telegram)
    assert talk.hear(2) == ["patience", "and this"]
    wait_for(lambda: "polling" in poller(bot), bot.tell)


def test_a_reply_for_somebody_who_blocked_the_bot_is_given_up_and_they_may_come_back(
    bot: TelegramBot,
) -> None:
    world, talk, other = bot.world, Talk(bot.world), Talk(bot.world)
    talk.say("sh sleep 8201")
    world.until(lambda: talk.place.actions)
    world.do(world.api.block, talk.person)
    assert other.ask("say hello") == "hello"
    bot.program.run("stop", talk.chat)
    wait_for(lambda: bot.unsent == 0, bot.tell)
    ((why,),) = bot.rows("SELECT failure FROM outbox WHERE chat = ?", talk.chat)
    assert "bot was blocked by the user" in why
    world.do(world.api.unblock, talk.person)
    assert talk.ask("say again") == "again"
