"""Authors of messages, and their names as sources of text. An odd name never costs the message."""

from typing import Final

from rumi.channels.telegram.receiving.updates import Fields, flag, number, record_or_none
from rumi.platform.untrusted_text import one_line

MOST_CHARS: Final = 100
"""Maximum length of an author's name, in characters, because authors choose their names freely."""


_TELEGRAM: Final = 777000
"""Telegram's user number for the author of channel posts in a channel's discussion group. Telegram does not
flag it as a bot.
"""


def person_in(message: Fields) -> Fields | None:
    """Return the author if it is an identified person: not a bot, a channel or an anonymous admin."""
    if message.get("sender_chat") is not None or flag(message, "is_automatic_forward"):
        return None
    sender = record_or_none(message, "from")
    if sender is None or flag(sender, "is_bot") or number(sender, "id") == _TELEGRAM:
        return None
    return sender


def chat_speaking_in(message: Fields) -> Fields | None:
    """Return the group or channel in whose name a person wrote in a group; None for a channel's own posts."""
    if flag(message, "is_automatic_forward") or message.get("forward_origin") is not None:
        return None
    if (
        fields_in(message, "from").get("id") == _TELEGRAM
        or fields_in(message, "chat").get("type") == "private"
    ):
        return None
    return record_or_none(message, "sender_chat")


def made_by(message: Fields) -> str:
    """Return the author of a message's text and file if the author is not the sender; otherwise "".

    A forwarded message always has an author here, even if the sender wrote it, because its text comes from
    another conversation. A mark that is odd also counts: its text is not the sender's.
    """
    if message.get("forward_origin") is not None:
        return f"forwarded from {origin_name(fields_in(message, 'forward_origin'))}"
    if message.get("via_bot") is not None:
        return f"made by {user_name(fields_in(message, 'via_bot'))}"
    return ""


def origin_name(origin: Fields) -> str:
    """Return the author's name from a `MessageOrigin`; a generic name if its kind is unknown."""
    match origin.get("type"):
        case "user":
            return user_name(fields_in(origin, "sender_user"))
        case "hidden_user":
            return _name(words_in(origin, "sender_user_name"))
        case "chat":
            return chat_name(fields_in(origin, "sender_chat"))
        case "channel":
            return chat_name(fields_in(origin, "chat"))
        case _:
            return _name("")


def sender_name(message: Fields) -> str:
    """Return the name of the person or the chat that sent a message."""
    chat = fields_in(message, "sender_chat")
    return chat_name(chat) if chat else user_name(fields_in(message, "from"))


def user_name(user: Fields) -> str:
    """Return the name of a `User`."""
    return _called(" ".join(filter(None, (words_in(user, "first_name"), words_in(user, "last_name")))), user)


def chat_name(chat: Fields) -> str:
    """Return the name of a `Chat`, with its kind if it is not a person."""
    kind = "the channel" if chat.get("type") == "channel" else "the group"
    title = words_in(chat, "title")
    return f"{kind} {_called(title, chat)}" if title else _called(words_in(chat, "first_name"), chat)


def words_in(fields: Fields, name: str) -> str:
    """Return the text in a field; empty if the field is missing or odd."""
    found = fields.get(name)
    return found if isinstance(found, str) else ""


def fields_in(fields: Fields, name: str) -> Fields:
    """Return the object in a field; an empty one if the field is missing or odd."""
    found = fields.get(name)
    return found if isinstance(found, dict) else {}


def _called(name: str, known: Fields) -> str:
    handle = words_in(known, "username")
    return f"{_name(name)} (@{one_line(handle, MOST_CHARS)})" if handle else _name(name)


def _name(name: str) -> str:
    return one_line(name, MOST_CHARS) or "somebody"
