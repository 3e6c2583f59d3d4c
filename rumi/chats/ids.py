"""Chat ids: what one looks like, and which a client may choose."""

import re

from rumi.errors import UsageError

DEFAULT_CHAT = "cli"
"""The chat of `rumi chat` without `--chat`: there from the beginning."""

CHAT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def check_chat_id(chat: str) -> str:
    """The id, if it is one.

    Raises:
        UsageError: other characters, or too long.
    """
    if CHAT_ID.fullmatch(chat) is None:
        raise UsageError(
            f"{chat!r} is not a chat id.", "Use up to 64 letters, digits, - and _, for example: work-notes."
        )
    return chat


def check_chosen_chat_id(chat: str) -> str:
    """The id, if it is one that a client may choose.

    Raises:
        UsageError: no chat id, or one of Telegram's.
    """
    if check_chat_id(chat).startswith("tg"):
        raise UsageError(f"{chat!r} would be one of Telegram's chats.", "Choose a name without tg in front.")
    return chat
