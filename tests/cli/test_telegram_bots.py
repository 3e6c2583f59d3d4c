"""A bot of a Telegram chat asks, parks a call, and is answered by buttons."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.telegram_bot import Talk, TelegramBot, running
from tests.cli.telegram_world import World
from tests.cli.test_telegram_confirm import page
from tests.fakes.bot_api_world import Message, Query
from tests.fakes.groq_replies import Answer, Behaviour, Body, answered_calls
from tests.fakes.groq_server import KEY, GroqServer

pytestmark = pytest.mark.bubblewrap

CONFIG = "+++\nsleep_secs = 3600\nstop_phrase = 'GARDEN DONE'\n+++\nYou keep the garden."


@pytest.fixture
def host() -> Iterator[str]:
    with page() as host:
        yield host


def users(body: Body) -> list[str]:
    return [message["content"] for message in body["messages"] if message["role"] == "user"]


def press(bot: TelegramBot, talk: Talk, message: Message, label: str) -> Query:
    """Press the button with this label."""
    (data,) = (button["callback_data"] for button in message.buttons if button["text"] == label)
    return bot.world.do(bot.world.api.press, talk.person, message, data)


def sleeps_after(bot: TelegramBot, iterations: int) -> bool:
    """Return True if the bot's session has done so many iterations, and sleeps."""
    session = json.loads(bot.program.run("bot", "history", "garden", "--json").stdout)[0]
    return bool(session["state"] == "sleeping" and len(session["iterations"]) == iterations)


@pytest.mark.long
def test_a_bot_asks_and_parks_and_is_answered_by_buttons(tmp_path: Path, host: str) -> None:
    boss = json.dumps({"key": "boss", "value": "Ada"})

    def think(body: Body) -> Behaviour:
        done, system = answered_calls(body), body["messages"][0]["content"]
        if "This is iteration 1 " in system:
            asks = json.dumps({"question": "What to sow?", "options": ["Peas", "Beans"]})
            steps = [("web_fetch", json.dumps({"url": f"http://{host}/"})), ("remember", boss)]
            steps += [("ask_user", asks)]
            if len(done) < len(steps):
                return Answer(calls=[steps[len(done)]])
            return Answer("I asked.")
        if "This is iteration 2 " in system:
            assert users(body)[0] == "yes 1"
            assert "said yes to these calls" in system
            return Answer("I remember it.") if done else Answer(calls=[("remember", boss)])
        assert users(body)[0] == "Beans"
        return Answer("Beans it is.\nGARDEN DONE")

    world = World()
    world.groq = GroqServer(think, key=KEY)
    garden = tmp_path / "home" / "bots" / "garden"
    garden.mkdir(parents=True)
    (tmp_path / "home").chmod(0o700)
    (garden / "config.md").write_text(CONFIG)
    with world, running(tmp_path, world, RUMI_FETCH__ALLOW=json.dumps([host])) as bot:
        talk = Talk(world)
        assert "has begun session 1" in talk.ask(f"/bot garden Look at http://{host}/ and sow.")

        def having(words: str) -> Message:
            return world.until(
                lambda: next((message for message in talk.said if words in message.text), None),
                what=lambda: [message.text for message in talk.said],
            )

        asked = having("What to sow?")
        assert "needs your yes" in asked.text
        assert [button["text"] for button in asked.buttons] == ["Peas", "Beans", "✅ 1", "❌ 1"]
        allowed = press(bot, talk, asked, "✅ 1")
        world.until(lambda: allowed.toast == "Received.")
        having("The bot garden reads it in its next iteration.")
        stranger = world.do(world.api.user, 999)
        (peas,) = (button["callback_data"] for button in asked.buttons if button["text"] == "Peas")
        assert "garden" not in peas
        refused = world.do(world.api.press, stranger, asked, peas)
        world.until(lambda: refused.toast)
        world.until(lambda: sleeps_after(bot, 2))
        bot.process.send_signal(signal.SIGKILL)
        bot.process.wait()
        bot.start()
        beans = press(bot, talk, asked, "Beans")
        world.until(lambda: beans.toast == "Received.")
        forged = world.do(world.api.press, talk.person, asked, "0123456789abcdef")
        world.until(lambda: forged.toast == "Received.")
        having("This question is no longer open.")
        assert "Beans it is." in having("session 1 (succeeded)").text
        assert "999" in (refused.toast or "")
        remembered = bot.program.run("bot", "memory", "garden", "show").stdout
        assert remembered == "boss: Ada\n"
