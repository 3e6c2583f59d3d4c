"""The menu of commands."""

import trio
from trio.testing import MockClock

from rumi.channels.telegram.receiving.registration import ATTEMPTS, register_commands
from rumi.platform.texts import replies as reply_texts
from tests.channels.telegram.memory import bot_of
from tests.fakes.bot_api import BotApi
from tests.fakes.bot_api_faults import Broken, Reset


def menus(api: BotApi) -> dict[str, dict[str, str]]:
    """What Telegram offers, by language."""
    return {
        language: {command["command"]: command["description"] for command in commands}
        for (scope, language), commands in api.account.commands.items()
        if scope == ("default",)
    }


async def test_everybody_gets_the_commands_in_their_language(autojump_clock: MockClock) -> None:
    api = BotApi(trio.current_time)
    assert await register_commands(bot_of(api), "auto", "es")
    found = menus(api)
    assert set(found) == {"", "es", "en", "pt"}
    assert found["en"]["stop"] == dict(reply_texts.commands("en"))["/stop"].replace("`", "")
    assert found["es"]["stop"] == dict(reply_texts.commands("es"))["/stop"].replace("`", "")
    assert found[""] == found["es"]
    assert set(found["en"]) == {name.removeprefix("/") for name, _ in reply_texts.menu("en")}
    assert not any("`" in text for menu in found.values() for text in menu.values())


async def test_with_a_language_of_the_configuration_all_get_that_one(autojump_clock: MockClock) -> None:
    api = BotApi(trio.current_time)
    assert await register_commands(bot_of(api), "en", "es")
    found = menus(api)
    assert found[""] == found["es"] == found["en"]
    assert found[""]["stop"] == dict(reply_texts.commands("en"))["/stop"].replace("`", "")


async def test_what_fails_is_tried_again_where_it_stopped(autojump_clock: MockClock) -> None:
    api = BotApi(trio.current_time)
    api.faults.next(Reset(), times=2)
    assert await register_commands(bot_of(api), "auto", "en")
    assert set(menus(api)) == {"", "es", "en", "pt"}
    assert [call.status for call in api.calls] == [200, 200, 200, 200]


async def test_a_menu_that_cannot_be_set_is_no_reason_to_end(autojump_clock: MockClock) -> None:
    api = BotApi(trio.current_time)
    api.faults.often(1.0, Broken(500))
    assert not await register_commands(bot_of(api), "auto", "en")
    assert len(api.faults.injected) == ATTEMPTS
    assert trio.current_time() > 60
