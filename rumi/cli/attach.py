"""Reaching the process that holds the home, for the commands that ask it."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rumi.cli import run_async
from rumi.config import home_from
from rumi.control.paths import socket_path
from rumi.errors import RumiError
from rumi.home import Home

if TYPE_CHECKING:
    from rumi.control import ControlClient

HELD_S = 5.0
"""How long a process that holds the home and does not listen is waited for: it starts, ends, or is short."""

AGAIN_S = 0.1

ANSWER_S = 65.0
"""Longer than the running Rumi waits for a chat: what it has to say about that is better than our guess."""


def control_path() -> Path:
    """Where the running Rumi of this home is asked.

    Raises:
        RumiError: there is none.
    """
    home = Home(home_from(os.environ))
    holder = home.holder()
    if not holder:
        raise RumiError(f"No Rumi is running on {home.root}.", "Start one with: rumi chat")
    path = socket_path(home.run, home.installation())
    if not path.exists():
        raise RumiError(f"{holder} does not answer: it is starting or ending.", "Try again in a moment.")
    return path


def status_of_holder() -> str:
    """The dump of the running Rumi, as JSON.

    Raises:
        RumiError: there is none, or it does not answer.
    """
    import json

    from rumi.control.quick import ask

    try:
        answer = json.loads(ask(control_path(), b'{"call":"status"}'))
    except (OSError, ValueError):
        answer = {}
    if "result" not in answer:
        raise RumiError("The running Rumi did not answer.", "Try again, or look at its log.")
    return json.dumps(answer["result"], ensure_ascii=False)


@asynccontextmanager
async def connected() -> AsyncIterator["ControlClient"]:
    """A connection to the running Rumi of this home.

    Raises:
        RumiError: there is none.
    """
    from rumi.control import connect

    async with connect(control_path()) as client:
        yield client


def say(chat: str, call: Literal["stop", "reset"]) -> None:
    """Have a chat stopped or reset, by the running Rumi or, where there is none, here; print the answer."""
    import click

    click.echo(_asked(call, chat))


def _asked(call: Literal["stop", "reset"], chat: str) -> str:
    import time

    from rumi.home import HomeHeld

    home = Home(home_from(os.environ)).make()
    until = time.monotonic() + HELD_S
    while True:  # who holds the home may end just now, or not listen yet
        try:
            return _ask(home, call, chat) if home.holder() else _do(home, call, chat)
        except (NotListening, HomeHeld):
            if time.monotonic() > until:
                raise
        time.sleep(AGAIN_S)


class NotListening(RumiError):
    """The process that holds the home does not listen yet, or no more."""


def _ask(home: Home, call: str, chat: str) -> str:
    import json

    from rumi.cli.speaking import reader
    from rumi.control.quick import ask
    from rumi.errors import error_of

    try:
        request = json.dumps({"call": call, "chat": chat, "language": reader()}).encode()
        line = ask(socket_path(home.run, home.installation()), request, ANSWER_S)
    except TimeoutError:
        raise RumiError("The running Rumi did not answer.", "Try again, or look at its log.") from None
    except OSError:
        line = b""
    if not line:
        raise NotListening(
            f"{home.holder()} does not answer: it is starting or ending.", "Try again in a moment."
        )
    answer = json.loads(line)
    if not answer["ok"]:
        raise error_of(answer)
    return str(answer["result"])


def _do(home: Home, call: str, chat: str) -> str:
    """Work on the files of a home that nobody holds. Nothing runs there, so there is nothing to stop."""

    from rumi import texts
    from rumi.chats import check_chat_id
    from rumi.config import load_settings

    check_chat_id(chat)
    loaded = load_settings(home.root, os.environ, {})
    if call == "stop":
        return texts.nothing_running(texts.detect_language(loaded.settings.language, os.environ))

    async def command() -> str:
        from rumi.app import open_app
        from rumi.building import find_engine

        with home.hold(f"rumi {call}"):
            engine = await find_engine(home, loaded)
            async with open_app(home, loaded, engine) as app:
                return await app.inbox.reset(chat)

    return run_async(command)
