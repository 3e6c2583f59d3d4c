"""`rumi chat --resume`: which session of which chat."""

import re
import sys
from typing import Any, Final

from rumi.cli.asking import ask
from rumi.cli.speaking import reader, tr
from rumi.errors import UsageError
from rumi.platform.chat_ids import DEFAULT_CHAT

CHOOSE: Final = "?"
"""The value of `--resume` without an ID."""

_ID: Final = re.compile(r"(?:([A-Za-z0-9_-]{1,64}):)?([1-9][0-9]{0,8})")


def session_of(wanted: str, chat: str | None) -> tuple[str | None, int] | None:
    """Return the chat and the number of the session that `--resume` names or the person chooses.

    `chat` is that of `--chat`, if any; a number alone belongs to it. If the result has no chat, it is the one
    that is opened without `--resume`, such as that of the folder. Return None if the person chooses no
    session.

    Raises:
        UsageError: the ID is not valid, there is no session, or no person can choose one.
    """
    if wanted == CHOOSE:
        return _chosen(chat)
    found = _ID.fullmatch(wanted)
    if found is None or (found[1] and chat and found[1] != chat):
        raise UsageError(
            "{wanted} is not a session.",
            "Write its number, or CHAT:NUMBER. List them with: rumi chats sessions {chat}",
            wanted=repr(wanted),
            chat=chat or DEFAULT_CHAT,
        )
    return found[1] or chat, int(found[2])


def stored_sessions(chat: str | None) -> list[dict[str, Any]]:
    """Return the sessions of a chat, or of all chats of the person at this terminal, the latest first."""
    from rumi.platform.chat_ids import LOCAL

    found: list[dict[str, Any]] = (
        ask("chats", "sessions", chat=chat) if chat else ask("chats", "sessions", owner=LOCAL)
    )
    return found


def _chosen(chat: str | None) -> tuple[str, int] | None:
    sessions = stored_sessions(chat)
    if not sessions:
        raise UsageError("There are no sessions yet.", "Begin one with: rumi chat")
    from rumi.channels.terminal.streams import StandardStreams, capable

    streams = StandardStreams()
    if not (streams.input.terminal and capable(streams.output)):
        raise UsageError(
            "Nobody can choose a session here: this needs a terminal.",
            "Name it: rumi --resume {example}; rumi chats sessions lists them.",
            example=f"{sessions[0]['chat']}:{sessions[0]['number']}",
        )
    from datetime import datetime

    from rumi.channels.terminal.options import TerminalOptions
    from rumi.channels.terminal.sessions import choose, session_choice
    from rumi.cli import run_async
    from rumi.store.journal.records import StoredSession

    stored = [
        StoredSession(**{**one, "at": datetime.fromisoformat(one["at"]).timestamp()}) for one in sessions
    ]
    several = len({one.chat for one in stored}) > 1
    choices = [session_choice(reader(), one, with_chat=several) for one in stored]
    options = TerminalOptions(language=reader())
    value = run_async(choose, streams, options, tr("Which session?"), choices)
    sys.stdout.flush()
    if value is None:
        return None
    of, _, number = value.rpartition(":")
    return of, int(number)
