"""`rumi telegram`, as it meets a user who has blocked the bot and comes back."""

from pathlib import Path

import pytest

from tests.cli.telegram_bot import ADMIN, Talk, running
from tests.cli.telegram_world import World

pytestmark = [pytest.mark.bubblewrap, pytest.mark.long]


def test_reminders_to_a_user_who_blocked_the_bot_pause_and_wait_for_the_user(tmp_path: Path) -> None:
    with World() as world, running(tmp_path, world) as bot:
        api, do = world.api, world.do
        talk = Talk(world)
        boss = do(api.user, ADMIN)
        chat = f"tg{talk.person.id}"
        run = bot.program.run
        for text in ("water the plants", "tea"):
            run("schedule", "add", "every day 09:00", text, "--chat", chat, "--zone", "UTC")
        do(api.block, talk.person)
        run("schedule", "run", "1")
        world.until(lambda: api.chats[boss.id].texts)
        (told,) = api.chats[boss.id].texts
        why = "Telegram refuses: Forbidden: bot was blocked by the user"
        assert told.startswith(f"⏸ Nothing can be delivered to the chat {chat} ({why}): 2 schedules")
        listed = run("schedule", "list").stdout
        assert listed.count(f"paused, nothing could be delivered: {why}") == 2
        shown = run("schedule", "show", "2", "--json").stdout
        assert f'"reason": "{why}"' in shown
        do(api.unblock, talk.person)
        heard = talk.ask("hello")
        again = world.until(lambda: [text for text in api.chats[talk.person.id].texts if "⏸" in text])
        assert heard
        assert again[0].startswith("⏸ 2 schedules were paused, because I could not reach you here:")
        assert talk.ask("/schedules resume all").count("▶") == 2
        assert len(api.chats[boss.id].texts) == 1
