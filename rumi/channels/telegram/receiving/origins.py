"""The source of words that a person hands on: forwards, quotes, messages that another bot made for them."""

from typing import Final

from rumi.channels.telegram.receiving.fields import Fields, record_or_none, text_or_none
from rumi.platform.untrusted_text import one_line

MOST_CHARS: Final = 100
"""The maximum length of a name, which its bearer has chosen."""

ELSEWHERE: Final = "(Nothing of it came along.)"
"""Stands for an answered message of another chat without a quote."""


def made_by(message: Fields) -> str:
    """Return who wrote a message's words and made its file, if it was not the sender; otherwise "".

    All forwards count, also of the sender's own messages, because forwarding selects a text from another
    conversation.

    Raises:
        OddField: A field differs from Telegram's description.
    """
    if (origin := record_or_none(message, "forward_origin")) is not None:
        return f"forwarded from {_origin(origin)}"
    if (bot := record_or_none(message, "via_bot")) is not None:
        return f"made by {_user(bot)}"
    return ""


def quoted_in(message: Fields) -> tuple[str, str] | None:
    """Return the quoted person and the quote; None without a quote.

    Of an answered message, only the quoted part is taken.

    Raises:
        OddField: A field differs from Telegram's description.
    """
    elsewhere, quote = record_or_none(message, "external_reply"), record_or_none(message, "quote")
    if elsewhere is None and quote is None:
        return None
    text = "" if quote is None else text_or_none(quote, "text") or ""
    if elsewhere is not None:
        origin = record_or_none(elsewhere, "origin") or {}
        return f"a message in another chat, from {_origin(origin)}", text or ELSEWHERE
    answered = record_or_none(message, "reply_to_message") or {}
    return f"quoted from a message {made_by(answered) or f'of {_sender(answered)}'}", text


def _origin(origin: Fields) -> str:
    """Return who wrote a message, from its `MessageOrigin`; for an unknown kind return a name for that."""
    match origin.get("type"):
        case "user":
            return _user(record_or_none(origin, "sender_user") or {})
        case "hidden_user":
            return _name(text_or_none(origin, "sender_user_name"))
        case "chat":
            return _chat(record_or_none(origin, "sender_chat") or {})
        case "channel":
            return _chat(record_or_none(origin, "chat") or {})
        case _:
            return _name(None)


def _sender(message: Fields) -> str:
    chat = record_or_none(message, "sender_chat")
    return _user(record_or_none(message, "from") or {}) if chat is None else _chat(chat)


def _user(user: Fields) -> str:
    names = (text_or_none(user, "first_name"), text_or_none(user, "last_name"))
    return _called(" ".join(name for name in names if name), user)


def _chat(chat: Fields) -> str:
    kind = "the channel" if chat.get("type") == "channel" else "the group"
    title = text_or_none(chat, "title")
    return f"{kind} {_called(title, chat)}" if title else _called(text_or_none(chat, "first_name"), chat)


def _called(name: str | None, known: Fields) -> str:
    handle = text_or_none(known, "username")
    return f"{_name(name)} (@{one_line(handle, MOST_CHARS)})" if handle else _name(name)


def _name(name: str | None) -> str:
    return one_line(name or "", MOST_CHARS) or "somebody"
