"""Sources of text that a person passes on: forwards, quotes, and messages made through another bot."""

from typing import Final

from rumi.channels.telegram.receiving.fields import Fields, record_or_none, text_or_none
from rumi.platform.untrusted_text import one_line

MOST_CHARS: Final = 100
"""Maximum length of a name, in characters: its owner may choose any name."""

ELSEWHERE: Final = "(Nothing of it came along.)"
"""Text for a reply to a message in another chat without a quote."""


def made_by(message: Fields) -> str:
    """Return the author of a message's text and file if that is not the sender; otherwise "".

    All forwards count, also of the sender's own messages, because forwarding takes a text out of another
    conversation.

    Raises:
        OddField: A field differs from Telegram's documentation.
    """
    if (origin := record_or_none(message, "forward_origin")) is not None:
        return f"forwarded from {_origin(origin)}"
    if (bot := record_or_none(message, "via_bot")) is not None:
        return f"made by {_user(bot)}"
    return ""


def quoted_in(message: Fields) -> tuple[str, str] | None:
    """Return the author of a quote and the quoted text; None without a quote.

    Of the message that is replied to, only the quoted part is used.

    Raises:
        OddField: A field differs from Telegram's documentation.
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
    """Return the author's name from a `MessageOrigin`, with a generic name for an unknown kind."""
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
