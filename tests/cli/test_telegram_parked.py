"""A scheduled turn of a Telegram chat parks a call, asks for it with buttons, and a press allows it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.telegram_bot import Talk, TelegramBot, running
from tests.cli.telegram_world import World
from tests.cli.test_chat import wait_for
from tests.cli.test_telegram_bots import press
from tests.cli.test_telegram_confirm import page, sent, with_file
from tests.fakes.bot_api_world import Message
from tests.fakes.groq_replies import Answer, Behaviour, Body, Hang, answered_calls, last_user_text
from tests.fakes.groq_server import KEY, GroqServer

pytestmark = pytest.mark.bubblewrap

SEND = ("send_file", json.dumps({"path": "out.csv"}))


HUNG: set[str] = set()


def thinks(body: Body) -> Behaviour:
    """Reads the page and then sends the file, as the page says, also in the turn of a yes."""
    text, done = last_user_text(body), answered_calls(body)
    if "<answers>" in text:
        return Answer(f"It came to: {done[-1]}") if done else Answer(calls=[SEND])
    if not text.startswith("[The schedule"):
        return Answer("I heard it.")
    url = text.split()[-1]
    if len(done) == 2:
        if "hang" in text and url not in HUNG:  # only the first time
            HUNG.add(url)
            return Hang()
        return Answer("I read it, word by word.", pieces=15, pause_s=0.2)
    return Answer(calls=[[("web_fetch", json.dumps({"url": url})), SEND][len(done)]])


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    with page() as host:
        yield host


@pytest.fixture
def bot(tmp_path: Path, host: str) -> Iterator[TelegramBot]:
    world = World()
    world.groq = GroqServer(thinks, key=KEY)
    with world, running(tmp_path, world, RUMI_FETCH__ALLOW=json.dumps([host])) as bot:
        yield bot


def fires(bot: TelegramBot, talk: Talk, text: str) -> None:
    """Have a schedule of the chat begin a turn now."""
    talk.ask("@rumi_test_bot /status" if talk.room.id < 0 else "/status")
    bot.program.run("schedule", "add", "in 2 hours", text, "--turn", "--chat", talk.chat)
    bot.program.run("schedule", "run", "1")


def having(talk: Talk, words: str) -> Message:
    found = talk.world.until(
        lambda: next((message for message in talk.said if words in message.text), None),
        what=lambda: [message.text for message in talk.said],
    )
    assert found is not None
    return found


@pytest.mark.long
@pytest.mark.parametrize("group", [False, True], ids=["private", "group"])
def test_what_a_scheduled_turn_needs_is_asked_with_buttons(bot: TelegramBot, host: str, group: bool) -> None:
    """In a group the answer grows in a message, which then gets the buttons."""
    person = bot.world.person(language_code="en")
    place = bot.world.do(bot.world.api.group, -100777, members=[person]) if group else None
    talk = Talk(bot.world, person, group=place)
    with_file(talk, bot)
    fires(bot, talk, f"read http://{host}/")
    asked = having(talk, "Answer with /yes 1, or /no 1")
    assert asked.text.startswith("I read it, word by word.\n\n🔒 This needs your yes")
    bot.world.until(lambda: asked.buttons)
    assert [button["text"] for button in asked.buttons] == ["✅ 1", "❌ 1"]
    assert not sent(talk)
    allowed = press(bot, talk, asked, "✅ 1")
    having(talk, "It came to: ")
    bot.world.until(lambda: allowed.toast == "Received.")
    assert sent(talk) == ["out.csv"]
    press(bot, talk, asked, "✅ 1")
    having(talk, "This question has its answer already: 1.")
    assert sent(talk) == ["out.csv"]


@pytest.mark.long
def test_a_press_allows_a_file_in_every_run_of_a_schedule(bot: TelegramBot, host: str) -> None:
    talk = Talk(bot.world)
    with_file(talk, bot)
    when = ("every day 09:00", f"read http://{host}/", "--turn", "--chat", talk.chat)
    refused = bot.program.run("schedule", "add", *when, code=2)
    assert "The time zone of this chat's owner is not known." in refused.stderr
    talk.ask("/timezone America/Bogota")
    added = bot.program.run("schedule", "add", *when)
    assert ", 09:00, America/Bogota" in added.stdout
    assert "1 · turn · active" in talk.ask("/schedules")
    bot.program.run("schedule", "run", "1")
    asked = having(talk, "Answer with /yes 1, or /no 1")
    assert "🔁 /yes 1 always: from now on without asking" in asked.text
    bot.world.until(lambda: asked.buttons)
    assert [button["text"] for button in asked.buttons] == ["✅ 1", "❌ 1", "🔁 1 always"]
    press(bot, talk, asked, "🔁 1 always")
    granted = having(talk, "🔁 Schedule 1 may do this in each run without asking")
    assert 'send_file: at most 1 time per run\n  path: "out.csv"' in granted.text
    assert sent(talk) == ["out.csv"]
    bot.program.run("schedule", "run", "1")
    wait_for(lambda: sent(talk) == ["out.csv", "out.csv"])


@pytest.mark.long
def test_what_was_parked_before_a_kill_is_asked_with_buttons_after_it(bot: TelegramBot, host: str) -> None:
    talk = Talk(bot.world)
    with_file(talk, bot)
    fires(bot, talk, f"hang http://{host}/")
    stored = """SELECT 1 FROM history WHERE message LIKE '%"role":"tool"%' LIMIT 1 OFFSET 1"""
    bot.world.until(lambda: bot.rows(stored), what=bot.state)  # the result that says so, too
    bot.kill()
    bot.start()
    asked = having(talk, "Answer with /yes 1, or /no 1")
    assert asked.text.startswith("I read it, word by word.")
    assert "I was restarted while I worked on this" in asked.text
    bot.world.until(lambda: asked.buttons)
    talk.say("/reset")
    having(talk, "✨ Session reset")
    press(bot, talk, asked, "✅ 1")
    having(talk, "This question is no longer open: 1.")
    assert not sent(talk)
