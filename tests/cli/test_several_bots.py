"""Several bots of one Rumi, in a process of its own: each has its token, users, chats and limits."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rumi.channels.telegram.receiving.webhook import SECRET_HEADER, secret_of
from tests.cli.program import Program
from tests.cli.telegram_bot import Talk, TelegramBot, wait_for
from tests.cli.telegram_world import World
from tests.cli.test_webhook import free_port
from tests.fakes.bot_api import BotApi
from tests.openmetrics import openmetrics

pytestmark = pytest.mark.bubblewrap

TOKEN = "222222:the-second-bots-token"  # of no bot


@pytest.fixture
def second() -> BotApi:
    return BotApi(time.monotonic, token=TOKEN)


@pytest.fixture
def world(second: BotApi) -> Iterator[World]:
    with World(second) as world:
        yield world


@pytest.fixture
def bot(tmp_path: Path, world: World) -> Iterator[TelegramBot]:
    bot = TelegramBot(Program(tmp_path / "home"), world)
    bot.program.home.mkdir()
    bot.program.home.joinpath("config.toml").write_text("[telegram.work]\n")
    bot.program.env["TELEGRAM_TOKEN_WORK"] = TOKEN
    try:
        yield bot
    finally:
        bot.cut_short()
        bot.kill()


class Second:
    """A person's talk with the second bot."""

    def __init__(self, world: World, api: BotApi, id: int) -> None:
        self.world, self.api = world, api
        self.person = world.do(api.user, id, language_code="en")
        self.room = api.chats[id]

    @property
    def texts(self) -> list[str]:
        return self.world.do(lambda: [message.text for message in self.room.said])

    def say(self, text: str) -> None:
        self.world.do(self.api.say, self.person, text, self.room)

    def hear(self, number: int, bot: TelegramBot) -> str:
        self.world.until(lambda: len(self.room.said) >= number, what=bot.state)
        return self.texts[number - 1]

    def ask(self, text: str, bot: TelegramBot) -> str:
        number = len(self.texts) + 1
        self.say(text)
        return self.hear(number, bot)


def chats(bot: TelegramBot) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for chat, text in bot.rows("SELECT chat, text FROM messages ORDER BY id"):
        found.setdefault(chat, []).append(text)
    return found


def test_one_person_has_a_chat_with_each_bot(bot: TelegramBot, world: World, second: BotApi) -> None:
    """Both bots number their updates alike, and the person has the same number at both."""
    bot.start(command="serve")
    wait_for(lambda: bot.output.count("Serving @") == 2, bot.state)
    one = Talk(world)
    other = Second(world, second, one.person.id)
    assert "hello" in one.ask("say hello")
    assert "again" in other.ask("say again", bot)
    assert chats(bot) == {f"tg{one.person.id}": ["say hello"], f"tgwork-{one.person.id}": ["say again"]}
    assert len(one.texts) == len(other.texts) == 1
    status = json.loads(bot.program.run("status", "--json").stdout)
    actors = [node["id"] for node in status["tree"]["children"]]
    assert {"sender", "sender-work", "poller", "poller-work"} <= set(actors)

    # What a killed process had not sent is sent by the same bot, and by no other.
    one.say("say first")
    other.say("say second")
    wait_for(lambda: bot.stored == 4, bot.state)
    bot.kill()
    bot.start(command="serve")
    for talk, word in ((one, "first"), (other, "second")):
        world.until(
            lambda of=talk, said=word: any(said in message.text for message in of.room.said), what=bot.state
        )
    assert not any("second" in text for text in one.texts)
    assert not any("first" in text for text in other.texts)


def test_each_bot_has_its_users(bot: TelegramBot, world: World, second: BotApi) -> None:
    bot.program.home.joinpath("config.toml").write_text("[telegram.work]\nallowed_users = [777]\n")
    bot.start(command="serve")
    wait_for(lambda: bot.output.count("Serving @") == 2, bot.state)
    one = Talk(world)
    assert "hello" in one.ask("say hello")
    refused = Second(world, second, one.person.id).ask("say hello", bot)
    assert str(one.person.id) in refused
    assert "hello" not in refused
    assert "mine" in Second(world, second, 777).ask("say mine", bot)
    assert chats(bot) == {f"tg{one.person.id}": ["say hello"], "tgwork-777": ["say mine"]}


def test_each_bot_has_its_webhook(bot: TelegramBot, world: World, second: BotApi) -> None:
    port = free_port()
    words = ("--webhook", f"http://127.0.0.1:{port}", "--listen", f"127.0.0.1:{port}")
    bot.start(*words, command="serve")
    hooks = world.until(
        lambda: (
            world.api.account.webhook
            and second.account.webhook
            and (world.api.account.webhook, second.account.webhook)
        ),
        what=bot.state,
    )
    assert hooks == (f"http://127.0.0.1:{port}/telegram", f"http://127.0.0.1:{port}/telegram/work")
    one = Talk(world)
    other = Second(world, second, one.person.id)
    assert "hello" in one.ask("say hello")
    assert "again" in other.ask("say again", bot)
    first, theirs = secret_of(world.api.token), secret_of(TOKEN)
    assert first != theirs

    def post(path: str, secret: str) -> int:
        update: dict[str, Any] = {"update_id": 1}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            return client.post(path, json=update, headers={SECRET_HEADER: secret}).status_code

    assert (post("/telegram", theirs), post("/telegram/work", first)) == (403, 403)
    assert (post("/telegram", first), post("/telegram/work", theirs)) == (200, 200)
    figures = openmetrics(httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False))
    assert figures["rumi_telegram_updates_stored_total"] == 2
    assert figures['rumi_telegram_updates_stored_total{bot="work"}'] == 2
    assert figures['rumi_telegram_sent_total{bot="work"}'] >= 1


def test_a_token_that_is_missing_or_refused_is_named(bot: TelegramBot) -> None:
    bot.program.env["TELEGRAM_TOKEN_WORK"] = ""
    said = bot.program.run("serve", code=2).stderr
    assert "TELEGRAM_TOKEN_WORK is missing" in said
    bot.program.env["TELEGRAM_TOKEN_WORK"] = "nonsense"
    assert "TELEGRAM_TOKEN_WORK is not a Telegram bot's token" in bot.program.run("serve", code=2).stderr
    bot.program.env["TELEGRAM_TOKEN_WORK"] = "333:of-nobody"
    said = bot.program.run("serve", code=2).stderr
    assert "Telegram does not accept TELEGRAM_TOKEN_WORK" in said
    assert "333:of-nobody" not in said
