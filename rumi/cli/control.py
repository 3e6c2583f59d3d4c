"""Control calls of commands to the daemon, and the same operations in this process if no daemon runs."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rumi.cli import run_async
from rumi.cli.printing import echo
from rumi.errors import RumiError
from rumi.platform.config.files import home_from
from rumi.platform.home import Home, socket_path

if TYPE_CHECKING:
    from rumi.channels.attach.connection import ControlClient
    from rumi.platform.config.cascade import Loaded

LOCKED_WAIT_S = 5.0
"""Maximum wait for a process that has locked the home but does not listen, in seconds.

Such a process is starting or ending, or is a short command.
"""

AGAIN_S = 0.1

END_S = 20.0
"""Maximum time for an idle daemon to end, in seconds: it has to stop its sandboxes."""

LOOK_S = 0.02

EXTRACTION_WAIT_S = 5.0
"""Maximum wait in seconds until a program's daemon has ended; the daemon may extract facts first."""

CLOSED_S = 0.5
"""A client that has detached is no longer counted by the daemon after this many seconds.

So any clients that are counted after that time belong to other commands.
"""

ANSWER_S = 65.0
"""Maximum wait for an answer, in seconds; the daemon's shorter timeout gives a more exact error."""


def control_path() -> Path:
    """Return the path of the daemon's control socket.

    Raises:
        RumiError: No Rumi runs on this home.
    """
    home = Home(home_from(os.environ))
    lock_holder = home.lock_holder()
    if not lock_holder:
        raise RumiError("No Rumi is running on {root}.", "Start one with: rumi chat", root=home.root)
    path = socket_path(home.run, home.installation())
    if not path.exists():
        raise RumiError(
            "{lock_holder} does not answer: it is starting or ending.",
            "Try again in a moment.",
            lock_holder=lock_holder,
        )
    return path


def daemon_status() -> dict[str, Any]:
    """Return the status dump of the daemon.

    Raises:
        RumiError: No Rumi runs on this home, or it does not answer.
    """
    import json

    from rumi.channels.attach.one_call import STATUS, ask
    from rumi.errors import error_of

    try:
        answer = json.loads(ask(control_path(), STATUS))
    except (OSError, ValueError):
        answer = {}
    if "error" in answer:
        raise error_of(answer)
    if "result" not in answer:
        raise RumiError("The running Rumi did not answer.", "Try again, or look at its log.")
    return dict(answer["result"])


@asynccontextmanager
async def connected() -> AsyncIterator["ControlClient"]:
    """Connect to the daemon of this home.

    Raises:
        RumiError: No Rumi runs on this home.
    """
    from rumi.channels.attach.connection import connect
    from rumi.platform.caller import TERMINAL

    async with connect(control_path(), TERMINAL) as client:
        yield client


def yield_home(home: Home, marks: Mapping[str, str] | None = None) -> None:
    """Ask an idle daemon to end, and wait until it has ended.

    If `marks` (fingerprints of settings and keys) are given, the daemon ends only if its own marks differ. A
    daemon that is busy, or that runs as a service, does not end; then the command cannot lock the home.
    """
    import time

    ends, until = home.lock_holder() and _ask_to_yield(home, marks).get("ends"), time.monotonic() + END_S
    while ends and home.lock_holder() and time.monotonic() < until:
        time.sleep(LOOK_S)


def wait_for_daemon_exit(home: Home, marks: Mapping[str, str]) -> None:
    """Wait until the daemon has ended, after the user has left; return early if it has other clients."""
    import time

    closed = time.monotonic()
    while home.lock_holder() and (elapsed_s := time.monotonic() - closed) < EXTRACTION_WAIT_S:
        if _ask_to_yield(home, marks).get("windows") and elapsed_s > CLOSED_S:
            return
        time.sleep(LOOK_S)


def _ask_to_yield(home: Home, marks: Mapping[str, str] | None) -> dict[str, Any]:
    """Ask the daemon to end if it is idle; return its answer, which is empty if no daemon listens."""
    import json

    from rumi.channels.attach.one_call import ask, line
    from rumi.platform.caller import TERMINAL

    fields = {} if marks is None else {"marks": dict(marks)}
    try:
        found = json.loads(
            ask(
                socket_path(home.run, home.installation()),
                line(TERMINAL, "make_way", **fields),
                LOCKED_WAIT_S,
            )
        )
        return dict(found["result"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def say(chat: str, call: Literal["stop", "reset", "undo"]) -> None:
    """Stop or reset a chat, or undo its last turn, in the daemon or in this process; print the reply.

    If `chat` is empty, everything is stopped.
    """

    echo(_asked(call, chat))


def _asked(call: Literal["stop", "reset", "undo"], chat: str) -> str:
    import time

    from rumi.platform.home import HomeLocked

    home = Home(home_from(os.environ)).make()
    until = time.monotonic() + LOCKED_WAIT_S
    while True:  # the lock holder may be ending, or not listening yet
        try:
            return _ask(home, call, chat) if home.lock_holder() else _do(home, call, chat)
        except (NotListening, HomeLocked):
            if time.monotonic() > until:
                raise
        time.sleep(AGAIN_S)


class NotListening(RumiError):
    """The daemon does not listen yet, or has stopped listening."""


def _ask(home: Home, call: str, chat: str) -> str:
    import json

    from rumi.channels.attach.one_call import ask, line
    from rumi.cli.speaking import reader
    from rumi.errors import error_of
    from rumi.platform.caller import TERMINAL

    try:
        which: dict[str, object] = {"chat": chat} if chat else {"all": True}
        request = line(TERMINAL, call, **which, language=reader())
        answered = ask(socket_path(home.run, home.installation()), request, ANSWER_S)
    except TimeoutError:
        raise RumiError("The running Rumi did not answer.", "Try again, or look at its log.") from None
    except OSError:
        answered = b""
    if not answered:
        raise NotListening(
            "{lock_holder} does not answer: it is starting or ending.",
            "Try again in a moment.",
            lock_holder=home.lock_holder(),
        )
    answer = json.loads(answered)
    if not answer["ok"]:
        raise error_of(answer)
    return str(answer["result"])


def _do(home: Home, call: str, chat: str) -> str:
    """Execute the call in this process, on a home that no other process has locked."""

    from rumi.platform.chat_ids import check_chat_id
    from rumi.platform.config.cascade import load_settings

    if chat:
        check_chat_id(chat)
    if call == "stop":
        return run_async(_stop, home, load_settings(home.root, os.environ, {}), chat)

    async def command() -> str:
        from rumi.cli.at_rest import app_at_rest

        async with app_at_rest(home, f"rumi chats {call}") as app:
            return await (app.inbox.undo(chat) if call == "undo" else app.inbox.reset(chat))

    return run_async(command)


async def _stop(home: Home, loaded: "Loaded", chat: str) -> str:
    """Stop all open tasks and all schedules, which the next daemon would continue, if `chat` is empty.

    If `chat` is given, nothing needs to be stopped, because no turn runs without a daemon.

    Raises:
        UsageError: The chat is unknown.
    """
    from rumi.cli.stored import stored_of
    from rumi.platform.chat_ids import DEFAULT_CHAT, unknown_chat
    from rumi.platform.texts import replies as reply_texts
    from rumi.platform.texts import stopping as stop_texts
    from rumi.platform.texts.language import detect_language
    from rumi.store.journal.actor import open_journal
    from rumi.store.journal.inbox import knows_chat
    from rumi.store.journal.schedules import pause_schedules
    from rumi.store.journal.tasks import mark_stopping, open_tasks

    language = detect_language(loaded.settings.language, os.environ)
    folder = home.with_files(loaded.settings.store.workspaces).workspaces / (chat or DEFAULT_CHAT)
    with home.lock("rumi chats stop"):
        async with open_journal(stored_of(home).state) as ask:
            if chat:
                if not (chat == DEFAULT_CHAT or folder.exists() or await ask(knows_chat(chat))):
                    raise unknown_chat(chat)
                return reply_texts.nothing_running(language)
            tasks = await ask(open_tasks())
            for task in tasks:
                await ask(mark_stopping(task.id))
            return stop_texts.stopped_at_rest(language, len(tasks), await ask(pause_schedules()))
