"""Interpretation of events, which are checked field by field: servers and clients may send anything.

Every function here is a pure function of the event. People are identified by their ids, never by names.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape
from string import whitespace
from typing import Any, Final, TypeGuard
from urllib.parse import unquote

from rumi.channels.matrix.encrypted_files import file_key_of, with_key
from rumi.chats.commands import NAMES as COMMAND_NAMES
from rumi.platform.untrusted_text import one_line
from rumi.store.journal.records import Attachment

MOST_TEXT: Final = 100_000
"""Maximum length of a message's text, in characters; servers take events of 65,536 bytes."""

MOST_ID: Final = 255
_MXC: Final = re.compile(r"mxc://([A-Za-z0-9.:\[\]-]{1,255})/([A-Za-z0-9_-]{1,255})")
_PILL: Final = re.compile(r"https://matrix\.to/#/([^\"'?<>\s]{1,300})")
_BANG: Final = re.compile(r"!([A-Za-z][A-Za-z0-9_-]*)(?=\s|$)")
_FILES: Final = {"m.image": ".jpg", "m.file": "", "m.audio": ".mp3", "m.video": ".mp4"}


@dataclass(frozen=True, slots=True)
class RoomEvent:
    """An event of a room whose outer fields are as they should be. Its content can still be anything."""

    id: str
    sender: str
    kind: str
    at: float
    content: Mapping[str, Any]
    raw: Mapping[str, Any]

    @property
    def state_key(self) -> str | None:
        """The key of a state event; None for a message."""
        return text(self.raw, "state_key")

    @property
    def txn(self) -> str:
        """The id under which this device sent the event; empty for events of others."""
        return text(fields(self.raw, "unsigned"), "transaction_id") or ""


def fields(value: object, name: str) -> Mapping[str, Any]:
    """Return the object in a field; empty if there is none."""
    found = value.get(name) if isinstance(value, Mapping) else None
    return found if isinstance(found, dict) else {}


def text(value: object, name: str) -> str | None:
    """Return the text in a field; None if there is none."""
    found = value.get(name) if isinstance(value, Mapping) else None
    return found[:MOST_TEXT] if isinstance(found, str) else None


def items(value: object, name: str) -> list[Any]:
    """Return the list in a field; empty if there is none."""
    found = value.get(name) if isinstance(value, Mapping) else None
    return found if isinstance(found, list) else []


def is_id(name: str | None) -> TypeGuard[str]:
    """Return True for what can be the id of an event, a user or a room, and so a part of an address."""
    return name is not None and 0 < len(name) <= MOST_ID and name.isprintable()


def rooms_in(found: object, kind: str) -> dict[str, Mapping[str, Any]]:
    """Return the rooms of one kind in the answer to a sync, by their ids: `join`, `invite` or `leave`."""
    rooms = fields(fields(found, "rooms"), kind)
    return {id: fields(rooms, id) for id in rooms if is_id(id)}


def redacted_by(raw: object) -> str:
    """Return the event that a redaction removes; empty for other events.

    Which of two fields counts depends on the room's version, and servers fill the other one too. If they
    differ, the sender has written one of them, and the server has not checked it.
    """
    if text(raw, "type") != "m.room.redaction":
        return ""
    new, old = text(fields(raw, "content"), "redacts"), text(raw, "redacts")
    return "" if new and old and new != old else new or old or ""


def event_of(raw: object) -> RoomEvent | None:
    """Return an event with its outer fields; None if one of them is missing or odd."""
    if not isinstance(raw, dict):
        return None
    id, sender, kind = (text(raw, name) for name in ("event_id", "sender", "type"))
    if not is_id(id) or not is_id(sender) or not is_id(kind):
        return None
    at = raw.get("origin_server_ts")
    seconds = at / 1000 if type(at) is int and 0 < at < 2**53 else 0.0
    return RoomEvent(id, sender, kind, seconds, fields(raw, "content"), raw)


@dataclass(frozen=True, slots=True)
class EventRelation:
    """What a message relates to: its thread, and the message that it answers, replaces or reacts to."""

    thread: str = ""
    answers: str = ""
    replaces: str = ""
    reacts: str = ""
    key: str = ""


def relation_of(content: Mapping[str, Any]) -> EventRelation:
    """Return what a message relates to."""
    related = fields(content, "m.relates_to")
    kind, event = text(related, "rel_type"), _id(related, "event_id")
    answers = _id(fields(related, "m.in_reply_to"), "event_id")
    match kind:
        case "m.thread":
            falls_back = related.get("is_falling_back") is True
            return EventRelation(thread=event, answers="" if falls_back else answers)
        case "m.replace":
            return EventRelation(replaces=event)
        case "m.annotation":
            return EventRelation(reacts=event, key=(text(related, "key") or "")[:MOST_ID])
        case _:
            return EventRelation(answers=answers)


def _id(value: Mapping[str, Any], name: str) -> str:
    found = text(value, name) or ""
    return found if len(found) <= MOST_ID else ""


@dataclass(frozen=True, slots=True)
class EventWords:
    """The text of a message, without what addresses Rumi, and whether it does."""

    text: str
    addressed: bool = False


def words_of(content: Mapping[str, Any], user: str, name: str, *, answers: bool) -> EventWords:
    """Return a message's own words.

    `user` is the account's id, `name` its name in the room. A message that `answers` another one may quote it
    above its text, for old clients. A command can begin with `!`, because clients keep `/` for themselves.
    """
    body = text(content, "body") or ""
    if answers and body.startswith("> <"):
        body = _without_quote(body)
    if text(content, "filename") is not None:
        body = "" if body == text(content, "filename") else body  # a caption
    elif text(content, "msgtype") in _FILES:
        body = ""
    mentioned = user in [
        one for one in items(fields(content, "m.mentions"), "user_ids") if isinstance(one, str)
    ]
    html = text(content, "formatted_body") or ""
    mentioned = mentioned or user in [unquote(unescape(found)) for found in _PILL.findall(html)]
    body, named = _without_name(body, user, name)
    body = body.strip()
    command = _BANG.match(body)
    if command is not None and command[1].lower() in COMMAND_NAMES:
        body = f"/{body[1:]}"
    commands = (
        body.startswith("/") and (re.match(r"/([A-Za-z0-9_-]*)", body) or [""])[1].lower() in COMMAND_NAMES
    )
    return EventWords(body, mentioned or named or commands)


def _without_quote(body: str) -> str:
    lines = body.split("\n")
    end = next(
        (index for index, line in enumerate(lines) if not line.startswith("> ") and line != ">"), len(lines)
    )
    return "\n".join(lines[end:]).lstrip("\n")


def _without_name(body: str, user: str, name: str) -> tuple[str, bool]:
    """Return a text without the name of Rumi before and after it, and whether it has the name."""
    local = user.partition(":")[0]
    names = sorted({user, local, local[1:], name, f"@{name}"} - {"", "@"}, key=len, reverse=True)
    choice = "|".join(map(re.escape, names))
    if found := re.match(rf"\s*(?:{choice})(?:\s*[:,]\s*|\s+|$)", body, re.IGNORECASE):
        return body[found.end() :], True
    exact = "|".join(map(re.escape, {user, local, f"@{name}"} - {"@"}))
    named = re.search(rf"(?<![\w@])(?:{exact})(?![\w:.-])", body, re.IGNORECASE) is not None
    # Only what follows a name is tried more than once, so a text full of spaces takes no longer than another.
    ending = re.search(rf"(?<=[\s,])(?:{exact})(?:\s*[.!?])?\Z", body.rstrip(), re.IGNORECASE)
    return (body[: ending.start()].rstrip(f"{whitespace},"), True) if ending else (body, named)


@dataclass(frozen=True, slots=True)
class EventFile:
    """The file of a message. It has no attachment if its address or its key cannot be used."""

    attachment: Attachment | None = None


def file_of(event: RoomEvent) -> EventFile | None:
    """Return the file of a message; None if it has none."""
    content, kind = event.content, text(event.content, "msgtype") or ""
    if kind not in _FILES:
        return None
    file = fields(content, "file")
    found = _MXC.fullmatch(text(file or content, "url") or "")
    key = file_key_of(file) if file else None
    if found is None or (file and key is None):
        return EventFile()
    info = fields(content, "info")
    size = info.get("size")
    media_type = text(info, "mimetype") or ""
    voice = kind == "m.audio" and any(
        isinstance(content.get(name), dict) for name in ("org.matrix.msc3245.voice", "m.voice")
    )
    name = text(content, "filename") or text(content, "body") or f"{kind[2:]}{_FILES[kind]}"
    return EventFile(
        Attachment(
            "voice" if voice else "file",
            found[0] if key is None else with_key(found[0], key),
            one_line(name.encode("utf-8", "replace").decode(), 200) or kind[2:],
            one_line(media_type, 100),
            size if type(size) is int and 0 <= size < 2**53 else None,
        )
    )


def media_of(reference: str) -> tuple[str, str] | None:
    """Return the server and the id in the address of a file; None if it is none."""
    found = _MXC.fullmatch(reference)
    return None if found is None else (found[1], found[2])


def said_in(content: Mapping[str, Any]) -> str:
    """Return what a message says, for somebody who answers it: its text, or its kind."""
    new = fields(content, "m.new_content") or content
    body = text(new, "body") or ""
    if body.startswith("> <"):
        body = _without_quote(body)
    kind = text(new, "msgtype") or ""
    return f"(A file: {one_line(body, 200)})" if kind in _FILES else body


def inviter_of(events: list[Any], user: str) -> str:
    """Return who invited a user, from the state that came with an invitation; empty if it does not say."""
    for raw in events:
        if text(raw, "type") == "m.room.member" and text(raw, "state_key") == user:
            return (text(raw, "sender") or "")[:MOST_ID]
    return ""
