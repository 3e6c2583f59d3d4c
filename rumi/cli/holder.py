"""How a command reaches the process that holds the home, and starts it if none does."""

import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from rumi.cli.printing import echo

if TYPE_CHECKING:
    import trio

    from rumi.app.daemon import Starting
    from rumi.errors import RumiError
    from rumi.platform.config.cascade import Loaded
    from rumi.platform.home import Home
    from rumi.platform.texts import Language

T = TypeVar("T")

HELD_S = 10.0
"""How long to wait for a process that holds the home and takes no windows: it ends, or is a short command."""

START_S = 60.0
"""How long to wait for a process that will take windows: its first start builds a sandbox."""

TAKING = ("rumi chat", "rumi telegram", "rumi serve", "rumi web")

AGAIN_S = 0.1

QUIET_S = 1.0
"""The command does not mention a wait that is shorter."""


class Again(Protocol):
    """Who was attached to an earlier process, and may leave while the command waits for the next one."""

    left: "trio.Event"

    def tell(self, note: str) -> None:
        """Tell a line."""
        ...


@dataclass(slots=True)
class Begun:
    """What the command knows, and the process that it has started, before its event loop runs."""

    chat: str
    flags: dict[str, str | None]
    home: "Home"
    loaded: "Loaded"
    language: "Language"
    project: Path
    starting: "Starting | None" = None


def begin(chat_id: str, flags: dict[str, str | None]) -> Begun:
    """Read the configuration, and start the process that holds the home if none does."""
    from rumi.channels.built_in import BUILT_IN
    from rumi.cli.attach import make_way
    from rumi.platform import texts
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.files import home_from
    from rumi.platform.home import Home, HomeHeld

    BUILT_IN.check_chosen(chat_id)
    home = Home(home_from(os.environ)).make()
    loaded = load_settings(home.root, os.environ, flags)
    home = home.with_files(loaded.settings.store.workspaces)
    language = texts.detect_language(loaded.settings.language, os.environ)
    begun = Begun(chat_id, flags, home, loaded, language, Path.cwd())
    make_way(home, loaded.marks())
    if not home.holder():
        import rumi.channels.attach.remote  # noqa: F401  # both processes need it
        from rumi.app.daemon import start

        with suppress(HomeHeld):  # another command was faster: this is a window on its process
            begun.starting = start(home, loaded, language)
    return begun


@asynccontextmanager
async def on_holder(
    begun: Begun, attach: Callable[["Home"], AbstractAsyncContextManager[T]], again: "Again | None" = None
) -> AsyncIterator[T | None]:
    """Yield what `attach` yields of the process that holds the home; start that one if none does.

    `attach` raises `NotThere` for a process that does not take it yet, or no more. Yield None if `again`, who
    was attached before, has left meanwhile.
    """
    import trio

    from rumi.app.daemon import starting
    from rumi.channels.attach.remote import NotThere
    from rumi.channels.terminal import show_progress
    from rumi.platform import texts
    from rumi.platform.home import HomeHeld

    home, language, since, told = begun.home, begun.language, time.monotonic(), False
    while again is None or not again.left.is_set():  # the holder may end just now, or not listen yet
        async with AsyncExitStack() as stack:
            try:
                started = begun.starting
                if started is None and not home.holder():
                    started = await stack.enter_async_context(starting(begun.flags))
                if started is not None:
                    stack.callback(started.close)
                    begun.starting = None
                    if again is None:
                        async with show_progress(language) as steps:
                            await started.ready(steps.step)
                    else:
                        await started.ready(lambda step: None)
                attached = await stack.enter_async_context(attach(home))
            except (NotThere, HomeHeld) as error:
                holder, waited_s = home.holder(), time.monotonic() - since
                if waited_s > (START_S if holder.startswith(TAKING) else HELD_S):
                    raise _held(home, holder, error) from None
                if holder and not told and waited_s > QUIET_S:
                    told = True
                    (again.tell if again else say)(texts.waiting_for(language, holder))
            else:
                yield attached
                return
        await trio.sleep(AGAIN_S)
    yield None


def _held(home: "Home", holder: str, error: "RumiError") -> "RumiError":
    from rumi.platform.home import HomeHeld

    if isinstance(error, HomeHeld) or not holder:
        return error
    return HomeHeld(f"{home.root} is held by {holder}.", "End that one first, or set another RUMI_HOME.")


def say(line: str) -> None:
    """Print a line for people; ignore a closed terminal."""
    with suppress(OSError):
        echo(line, err=True)
