"""Skill sources of `rumi bot skills NAME search` and `install`: a folder, a file, or a git URL."""

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rumi.cli import run_async
from rumi.cli.daemon import Launch, attached_to_daemon, launch_daemon, say
from rumi.cli.research import connected_to
from rumi.platform.chat_ids import DEFAULT_CHAT
from rumi.platform.printable import flat

if TYPE_CHECKING:
    from rumi.tasks.bots.files import BotSkill


def skills_of(source: str) -> "list[BotSkill]":
    """Return the skills of a folder, a file or a URL, and print the skills that cannot be read.

    Raises:
        RumiError: The source is not allowed, or cannot be fetched.
    """
    from rumi.platform.config.files import home_from
    from rumi.platform.home import Home
    from rumi.tasks.bots.fetching import checked_source, is_remote
    from rumi.tasks.bots.files import BotFiles, BotSkill

    if is_remote(source):
        checked_source(source)  # before a daemon is started for it
        found = run_async(_fetched, launch_daemon(DEFAULT_CHAT, {}), source)
        skills = [BotSkill(**fields, path=Path()) for fields in found["skills"]]
        problems = found["problems"]
    else:
        files = BotFiles(Home(home_from(os.environ)).make().root)
        skills, problems = files.skills_in(Path(source))
    for problem in problems:
        say(flat(problem))
    return skills


async def _fetched(begun: Launch, source: str) -> Any:
    """Fetch a repository in the daemon; return its skills, and the problems with unreadable ones."""
    from rumi.platform.caller import TERMINAL
    from rumi.tasks.bots.fetching import FETCH_S

    async with attached_to_daemon(begun, partial(connected_to, TERMINAL)) as client:
        assert client is not None, "nobody leaves while it waits"
        return await client.call("bots", FETCH_S, do="fetch_skills", source=source)
