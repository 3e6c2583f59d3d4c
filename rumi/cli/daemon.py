"""Attaching a command to the daemon; this module starts a daemon if none runs."""

import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from rumi.cli.printing import echo
from rumi.texts import gettext

if TYPE_CHECKING:
    import trio

    from rumi.app.daemon import StartingDaemon
    from rumi.errors import RumiError
    from rumi.platform.config.cascade import Loaded
    from rumi.platform.home import Home
    from rumi.texts import Language

T = TypeVar("T")

LOCKED_WAIT_S = 10.0
"""Maximum wait for a process that has locked the home but accepts no clients, in seconds.

Such a process is ending, or is a short command.
"""

START_S = 60.0
"""Maximum wait until a new daemon accepts clients, in seconds: the first start builds a sandbox."""

DAEMON_COMMANDS = ("rumi chat", "rumi telegram", "rumi serve", "rumi web")

AGAIN_S = 0.1

QUIET_S = 1.0
"""Time after which the command tells the user that it is waiting, in seconds."""


class Reattaching(Protocol):
    """A client that waits for a new daemon because its daemon ended. `left` is set when the user leaves."""

    left: "trio.Event"

    def notify(self, note: str) -> None:
        """Show a line to the user."""
        ...


@dataclass(slots=True)
class Launch:
    """The command's settings, and the daemon that the command started, if any, before its event loop ran.

    `project` is the folder that the command was started in; None if it does not exist any more. `folder` is
    the one that the chat shall work on; None if it has files of its own.
    """

    chat: str
    flags: dict[str, str | None]
    home: "Home"
    loaded: "Loaded"
    language: "Language"
    project: Path | None = None
    folder: Path | None = None
    starting_daemon: "StartingDaemon | None" = None


def launch_daemon(
    chat_id: str,
    flags: dict[str, str | None],
    place: "Callable[[Home, Loaded], tuple[str, Path | None]] | None" = None,
) -> Launch:
    """Read the configuration, and start a daemon if none runs.

    An idle daemon with different settings is ended first. `place` returns the chat, in place of `chat_id`,
    and the folder that it shall work on; it may ask a person.

    Raises:
        RumiError: The chat id or the configuration is not valid.
    """
    from rumi.cli.control import yield_home
    from rumi.platform.chat_ids import BUILT_IN
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.files import home_from
    from rumi.platform.home import Home, HomeLocked
    from rumi.platform.texts.language import detect_language

    BUILT_IN.check_chosen(chat_id)
    home = Home(home_from(os.environ)).make()
    loaded = load_settings(home.root, os.environ, flags)
    chat, folder = (chat_id, None) if place is None else place(home, loaded)
    home = home.with_files(loaded.settings.store.workspaces)
    language = detect_language(loaded.settings.language, os.environ)
    launch = Launch(chat, flags, home, loaded, language, working_folder(), folder)
    yield_home(home, loaded.marks())
    if not home.lock_holder():
        import rumi.channels.attach.client  # noqa: F401  # before the fork: both processes need the module
        from rumi.app.daemon import fork_daemon

        # Forked here, before this command has an event loop or threads, which a fork would not copy.
        with suppress(HomeLocked):  # another command was faster: this one attaches to its daemon
            launch.starting_daemon = fork_daemon(home, loaded, language)
    return launch


def working_folder() -> Path | None:
    """Return the real path of the folder that this command was started in; None if it was deleted."""
    try:
        return Path.cwd()
    except OSError:
        return None


@asynccontextmanager
async def attached_to_daemon(
    launch: Launch,
    attach: Callable[["Home"], AbstractAsyncContextManager[T]],
    reattaching: "Reattaching | None" = None,
) -> AsyncIterator[T | None]:
    """Yield the result of `attach` for the daemon; start a daemon if none runs.

    `attach` raises `NotAccepting` if the daemon is starting or ending; then this function tries again.
    `reattaching` is the client of an earlier daemon, if there was one; if its user leaves the chat meanwhile,
    yield None.

    Raises:
        RumiError: The daemon cannot be started, or refuses the client.
        HomeLocked: Another process has locked the home for too long.
    """
    import trio

    from rumi.channels.attach.client import NotAccepting
    from rumi.platform.home import HomeLocked

    home, language, since, announced = launch.home, launch.language, time.monotonic(), False
    while (
        reattaching is None or not reattaching.left.is_set()
    ):  # the lock holder may be ending, or not listening yet
        async with AsyncExitStack() as stack:
            try:
                started = launch.starting_daemon
                if started is None and not home.lock_holder():
                    from rumi.app.daemon import spawn_daemon

                    started = await stack.enter_async_context(spawn_daemon(launch.flags))
                if started is not None:
                    stack.callback(started.close)
                    launch.starting_daemon = None
                    if reattaching is None:
                        from rumi.channels.terminal.progress import show_progress

                        async with show_progress(language) as steps:
                            await started.ready(steps.step)
                    else:
                        await started.ready(lambda step: None)
                attached = await stack.enter_async_context(attach(home))
            except (NotAccepting, HomeLocked) as error:
                lock_holder, waited_s = home.lock_holder(), time.monotonic() - since
                if waited_s > (START_S if lock_holder.startswith(DAEMON_COMMANDS) else LOCKED_WAIT_S):
                    raise _why_not_attached(home, lock_holder, error) from None
                if lock_holder and not announced and waited_s > QUIET_S:
                    announced = True
                    (reattaching.notify if reattaching else say)(
                        gettext(language, "Waiting for {lock_holder}…", lock_holder=lock_holder)
                    )
            else:
                yield attached
                return
        await trio.sleep(AGAIN_S)
    yield None


def _why_not_attached(home: "Home", lock_holder: str, error: "RumiError") -> "RumiError":
    from rumi.platform.home import HomeLocked

    if isinstance(error, HomeLocked) or not lock_holder:
        return error
    return HomeLocked(
        "{root} is held by {lock_holder}.",
        "End that one first, or set another RUMI_HOME.",
        root=home.root,
        lock_holder=lock_holder,
    )


def say(line: str) -> None:
    """Print a line for the user; ignore the error if the terminal is closed."""
    with suppress(OSError):
        echo(line, err=True)
