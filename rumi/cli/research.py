"""`rumi tasks research`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rumi.cli.daemon import Launch, attached_to_daemon
from rumi.cli.model_names import model_option
from rumi.cli.printing import JSON
from rumi.cli.tasks import run_printed, say_step
from rumi.platform.chat_ids import DEFAULT_CHAT

if TYPE_CHECKING:
    from rumi.channels.attach.connection import ControlClient
    from rumi.platform.caller import Caller
    from rumi.platform.home import Home

MODEL = model_option()
KEEP = click.option("--keep", "--no-cleanup", "keep", is_flag=True, help="Keep the files of its workspace.")
BACKGROUND = click.option(
    "--background", is_flag=True, help="Print its number and exit; the result comes to the chat cli."
)


@click.group()
def command() -> None:
    """Have a question researched, with sources: on the web, or in a repository."""


@command.command()
@click.argument("question")
@click.option(
    "-u", "--url", "urls", multiple=True, metavar="URL", help="A page to begin with; may be repeated."
)
@MODEL
@JSON
@KEEP
@BACKGROUND
def web(
    question: str, urls: tuple[str, ...], model: str | None, as_json: bool, keep: bool, background: bool
) -> None:
    """Research QUESTION on the web. Progress goes to standard error, the answer to standard output."""
    _research("web", question, {"urls": list(urls), "keep": keep}, model, as_json, background)


@command.command()
@click.argument("question")
@click.option(
    "-u", "--uri", required=True, metavar="URI", help="The repository: an https address, or a folder."
)
@click.option("--ref", default="", help="A branch, tag or commit; otherwise the default branch.")
@click.option("--full", is_flag=True, help="Clone the whole history and large files.")
@MODEL
@JSON
@KEEP
@BACKGROUND
def repo(
    question: str,
    uri: str,
    ref: str,
    full: bool,
    model: str | None,
    as_json: bool,
    keep: bool,
    background: bool,
) -> None:
    """Answer QUESTION from a git repository, as `rumi tasks research web` does from the web."""
    if "://" not in uri:
        uri = str(Path(uri).expanduser().resolve())
    options = {"uri": uri, "ref": ref, "full": full, "local": True, "keep": keep}
    _research("repo", question, options, model, as_json, background)


def _research(
    kind: str, question: str, options: dict[str, Any], model: str | None, as_json: bool, background: bool
) -> None:
    request = {"kind": kind, "question": question, "options": options, "model": model or ""}
    if background:
        request["chat"] = DEFAULT_CHAT
    run_printed(partial(_do, request, background), background=background, as_json=as_json)


async def _do(request: dict[str, Any], background: bool, begun: Launch) -> dict[str, Any]:
    """Run the task in the daemon, or only start it if `background` is set; return the task."""
    from rumi.channels.attach.client import run_task
    from rumi.platform.caller import TERMINAL

    fields = {**request, "language": begun.language}
    async with attached_to_daemon(begun, partial(connected_to, TERMINAL)) as client:
        assert client is not None, "nobody leaves while it waits"
        if background:
            task: dict[str, Any] = await client.call("tasks", do="begin", **fields)
            return task
        return await run_task(client, fields, say_step)


@asynccontextmanager
async def connected_to(caller: "Caller", home: "Home") -> "AsyncIterator[ControlClient]":
    """Connect the caller to the home's daemon, for as long as the block lasts.

    Raises:
        NotAccepting: No daemon runs, or it does not listen yet.
    """
    from rumi.channels.attach.client import NotAccepting
    from rumi.channels.attach.connection import NotRunning, connect
    from rumi.platform.home import socket_path

    if not home.lock_holder():
        raise NotAccepting("No process holds the home any more.")
    try:
        async with connect(socket_path(home.run, home.installation()), caller) as client:
            yield client
    except NotRunning as error:
        raise NotAccepting(error.message, error.advice) from error
