"""Requests that a command sends to the daemon, or executes on the home's files if no daemon runs."""

import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rumi.cli import run_async
from rumi.cli.speaking import reader

if TYPE_CHECKING:
    from rumi.platform.home import Home

Work: TypeAlias = "Callable[[Home, Mapping[str, object]], Awaitable[object]]"

BUSY_S: Final = 10.0

LOOKS: Final = frozenset(
    {"recall", "list", "show", "diff", "history", "memory", "skills", "sessions", "export"}
)
"""Read-only requests. They can safely be sent again if the daemon ended before it answered."""


def ask(call: str, do: str, here: "Work | None" = None, **fields: object) -> Any:
    """Send a request to the daemon, or execute it on the home's files; return its answer.

    If no process has locked the home, `here` executes the request, by default `answer_at_rest`.

    Raises:
        RumiError: The request failed, or the process that has locked the home does not answer.
    """
    from rumi.platform.config.files import home_from
    from rumi.platform.home import Home

    home = Home(home_from(os.environ)).make()
    request = {"do": do, "language": reader(), **fields}
    return run_async(when_free, home, call, here or partial(_at_rest, call), request)


async def _at_rest(call: str, home: "Home", request: Mapping[str, object]) -> object:
    from rumi.cli.at_rest import answer_at_rest  # late: asking the daemon needs none of it

    return await answer_at_rest(home, call, request)


async def when_free(home: "Home", call: str, here: Work, request: Mapping[str, object]) -> object:
    """Send a `call` to the daemon; if no process has locked the home, execute it here with `here`.

    If the process that has locked the home is starting or ending, wait up to `BUSY_S` seconds for it.

    Raises:
        RumiError: The request failed, or the process that has locked the home does not answer.
    """
    import trio

    from rumi.channels.attach.connection import NotRunning, WentAway, connect
    from rumi.cli.control import control_path
    from rumi.platform.caller import TERMINAL
    from rumi.platform.home import HomeLocked, socket_path

    deadline = trio.current_time() + BUSY_S
    while True:
        try:
            if not home.lock_holder():
                return await here(home, request)
            path = socket_path(home.run, home.installation())
            if path.exists():
                async with connect(path, TERMINAL) as client:
                    return await client.call(call, **request)
            if trio.current_time() > deadline:
                control_path()  # raises the exact error
        except (HomeLocked, NotRunning, WentAway) as error:
            # After `WentAway` the old process may have carried out the request: repeat only a read.
            again = not isinstance(error, WentAway) or request.get("do") in LOOKS
            if not again or trio.current_time() > deadline:
                raise
        await trio.sleep(0.05)
