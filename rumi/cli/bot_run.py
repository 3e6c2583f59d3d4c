"""`rumi bot run`: runs a bot in the daemon, shows its steps, and sends typed lines to it."""

import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from rumi.cli.daemon import Launch, attached_to_daemon, say
from rumi.cli.research import connected_to
from rumi.cli.tasks import run_printed, say_step
from rumi.errors import RumiError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rumi.channels.attach.connection import ControlClient
    from rumi.platform.home import Home


@dataclass(frozen=True, slots=True)
class BotRun:
    """A request to run a bot: its name, the options of the session (`asked`), and options for the output."""

    name: str
    asked: dict[str, Any]
    background: bool = False
    as_json: bool = False


def run_bot(run: BotRun) -> None:
    """Run a bot, print its report, and exit with a code for the session's outcome."""
    from rumi.platform.texts import bots as bot_texts

    def resumable(begun: Launch, task: "Mapping[str, Any]") -> None:
        say(bot_texts.bot_resume(begun.language, run.name, task["id"]))

    work = partial(_do, run)
    run_printed(work, background=run.background, as_json=run.as_json, unfinished=resumable)


async def _do(run: BotRun, begun: Launch) -> dict[str, Any]:
    """Run the session in the daemon, or only start it if `background` is set; return the session."""
    from rumi.platform.caller import TERMINAL
    from rumi.platform.texts import bots as bot_texts

    fields = {**run.asked, "name": run.name, "language": begun.language}
    async with attached_to_daemon(begun, partial(connected_to, TERMINAL)) as client:
        assert client is not None, "nobody leaves while it waits"
        if run.background:
            do = "resume" if "session" in run.asked else "begin"
            task: dict[str, Any] = await client.call("bots", do=do, **fields)
            return task
        started: list[int] = []
        try:
            return await _attached(client, begun.home, run, fields, started)
        except BaseException:
            if started:  # on Ctrl-C too: the finished iterations are stored, so the session can be resumed
                say(bot_texts.bot_resume(begun.language, run.name, started[0]))
            raise


async def _attached(
    client: "ControlClient", home: "Home", run: BotRun, fields: dict[str, Any], started: list[int]
) -> dict[str, Any]:
    """Run the session and wait for its end; typed lines wake the bot."""
    import trio

    from rumi.channels.attach.client import run_task

    done: list[dict[str, Any]] = []
    async with trio.open_nursery() as nursery:
        if sys.stdin.isatty():
            nursery.start_soon(_listen, home, run.name)
        request = {"do": "bot", **fields}
        done.append(await run_task(client, request, say_step, started.append))
        nursery.cancel_scope.cancel()
    return done[0]


async def _listen(home: "Home", name: str) -> None:
    """Send each typed line to the bot and wake it; an empty line only wakes it.

    Each line uses its own connection, because the session's connection is busy with its stream.
    """
    import trio

    from rumi.platform.caller import TERMINAL

    while True:
        await trio.lowlevel.wait_readable(sys.stdin)
        line = sys.stdin.readline()
        if not line:
            return
        try:
            async with connected_to(TERMINAL, home) as client:
                await client.call("bots", do="wake", name=name, text=line.strip())
        except RumiError as error:
            say(str(error))
