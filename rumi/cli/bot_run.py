"""`rumi bot run`: runs a bot in the daemon, shows its steps, and sends typed lines to it."""

import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from rumi.cli import run_async
from rumi.cli.daemon import Launch, attached_to_daemon, launch_daemon, say
from rumi.cli.printing import echo, echo_json
from rumi.cli.research import connected_to
from rumi.cli.tasks import as_report, exit_code_of, say_step, text_of
from rumi.errors import RumiError, single
from rumi.platform.chat_ids import DEFAULT_CHAT

if TYPE_CHECKING:
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

    try:
        begun = launch_daemon(DEFAULT_CHAT, {})
        done = run_async(_do, begun, run)
    except (RumiError, BaseExceptionGroup) as raised:
        error = single(raised)
        if not run.as_json or not isinstance(error, RumiError):
            raise
        echo_json({"error": error.to_json()}, indent=2)
        raise click.exceptions.Exit(error.exit_code) from None
    if run.as_json:
        echo_json(as_report(done), indent=2)
    elif run.background:
        echo(str(done["id"]))
    else:
        echo(text_of(done), err=done["state"] == "failed")
    if not run.background:
        if done["state"] != "succeeded":
            say(bot_texts.bot_resume(begun.language, run.name, done["id"]))
        raise click.exceptions.Exit(exit_code_of(done))


async def _do(begun: Launch, run: BotRun) -> dict[str, Any]:
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
