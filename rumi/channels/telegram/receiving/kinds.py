"""Kinds of message that are neither text nor files, as text: locations, contacts, polls, stickers, others."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from rumi.channels.telegram.receiving.authors import chat_name, fields_in, words_in
from rumi.channels.telegram.receiving.updates import Fields
from rumi.platform.untrusted_text import one_line

MOST_CHARS: Final = 4000
"""Maximum length of a kind's text, in characters."""

MOST_ITEMS: Final = 50
"""Maximum number of options, tasks or media that are listed."""

SERVICE: Final = frozenset(
    {
        *("new_chat_members", "left_chat_member", "chat_owner_left", "chat_owner_changed", "new_chat_title"),
        *("new_chat_photo", "delete_chat_photo", "group_chat_created", "supergroup_chat_created"),
        *("channel_chat_created", "message_auto_delete_timer_changed", "migrate_to_chat_id"),
        *("migrate_from_chat_id", "pinned_message", "successful_payment", "refunded_payment", "users_shared"),
        *("user_shared", "chat_shared", "gift", "unique_gift", "gift_upgrade_sent", "connected_website"),
        *("write_access_allowed", "proximity_alert_triggered", "boost_added", "chat_background_set"),
        *("checklist_tasks_done", "checklist_tasks_added", "direct_message_price_changed"),
        *("paid_message_price_changed", "poll_option_added", "poll_option_deleted", "managed_bot_created"),
        *("forum_topic_created", "forum_topic_edited", "forum_topic_closed", "forum_topic_reopened"),
        *("general_forum_topic_hidden", "general_forum_topic_unhidden", "giveaway_created"),
        *("giveaway_completed", "suggested_post_approved", "suggested_post_approval_failed"),
        *(
            "suggested_post_declined",
            "suggested_post_paid",
            "suggested_post_refunded",
            "video_chat_scheduled",
        ),
        *(
            "video_chat_started",
            "video_chat_ended",
            "video_chat_participants_invited",
            "voice_chat_scheduled",
        ),
        *("voice_chat_started", "voice_chat_ended", "voice_chat_participants_invited", "web_app_data"),
        *("passport_data",),
    }
)
"""Fields of service messages, which tell of an event in a chat and are for no one in particular."""


@dataclass(frozen=True, slots=True)
class KindText:
    """What a kind says. `own` are words that its sender made; `given` has sources and words of others."""

    own: str = ""
    given: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """Return all of it."""
        return "\n".join(filter(None, (self.own, *(words for _, words in self.given))))


def is_service(message: Fields) -> bool:
    """Return True if the message tells of an event, for example a new member or a pinned message."""
    return any(message.get(name) is not None for name in SERVICE)


def kind_in(message: Fields) -> str:
    """Return the first field of the message that has a kind of this module; empty if there is none."""
    return next((kind for kind in _KINDS if message.get(kind) is not None), "")


def text_of_kind(message: Fields, kind: str) -> KindText:
    """Return what a kind says; nothing if its content is odd."""
    found = _KINDS[kind](message[kind]) if isinstance(message.get(kind), dict) else KindText()
    own = found.own if len(found.own) <= MOST_CHARS else f"{found.own[:MOST_CHARS]}…"
    given = tuple((source, words[:MOST_CHARS]) for source, words in found.given if words.strip())
    return KindText(own, given)


def location_of(message: Fields) -> tuple[float, float] | None:
    """Return the latitude and longitude of a message's location or venue; None if it has none."""
    place = fields_in(message, "location") or fields_in(fields_in(message, "venue"), "location")
    return _coordinates(place)


def _coordinates(place: Fields) -> tuple[float, float] | None:
    found = [place.get(name) for name in ("latitude", "longitude")]
    if any(type(one) not in (int, float) for one in found):
        return None
    latitude, longitude = map(float, found)  # type: ignore[arg-type]  # they are numbers, as checked above
    inside = math.isfinite(latitude + longitude) and abs(latitude) <= 90 and abs(longitude) <= 180
    return (latitude, longitude) if inside else None


def _location(place: Fields) -> KindText:
    at = _coordinates(place)
    if at is None:
        return KindText()
    live = "live location" if place.get("live_period") is not None else "location"
    return KindText(f"{live} {_degrees(at[0])}, {_degrees(at[1])}")


def _degrees(value: float) -> str:
    whole, _, rest = f"{value:.6f}".partition(".")
    return f"{whole}.{rest.rstrip('0') or '0'}"


def _venue(venue: Fields) -> KindText:
    # The name and the address of a place come from a public directory.
    named = ", ".join(filter(None, (_line(venue, "title"), _line(venue, "address"))))
    return KindText(_location(fields_in(venue, "location")).own, (("a place that the user shares", named),))


def _contact(contact: Fields) -> KindText:
    # People choose the names and the cards that they share of themselves.
    name = " ".join(filter(None, (_line(contact, "first_name"), _line(contact, "last_name"))))
    about = ", ".join(filter(None, (name, _line(contact, "phone_number"))))
    lines = ([f"contact: {about}"] if about else []) + _card(words_in(contact, "vcard"))
    return KindText(given=(("a contact that the user shares", "\n".join(lines)),))


def _card(card: str) -> list[str]:
    """Return the lines of a vCard that say something to a reader, without pictures and keys."""
    kept = ("EMAIL", "TEL", "ORG", "TITLE", "ADR", "URL", "BDAY", "NOTE")
    lines = [line.strip() for line in card[:MOST_CHARS].splitlines()]
    return [one_line(line, 300) for line in lines if line.partition(":")[0].upper().startswith(kept)][:20]


def _poll(poll: Fields) -> KindText:
    kind = "quiz" if poll.get("type") == "quiz" else "poll"
    options = [_option(option) for option in _items(poll, "options")]
    question = _line(poll, "question", 400)
    if not question:
        return KindText()
    return KindText(
        "\n".join(filter(None, (f"{kind}: {question}", _line(poll, "description", 1100), *options)))
    )


def _option(option: Fields) -> str:
    votes = option.get("voter_count")
    counted = f" ({votes} votes)" if type(votes) is int and 0 < votes < 10**9 else ""
    return f"- {_line(option, 'text', 200)}{counted}"


def _checklist(checklist: Fields) -> KindText:
    tasks = [
        f"- [{'x' if task.get('completion_date') else ' '}] {_line(task, 'text', 200)}"
        for task in _items(checklist, "tasks")
    ]
    title = _line(checklist, "title", 400)
    return KindText("\n".join([f"checklist: {title}", *tasks]) if title or tasks else "")


def _dice(dice: Fields) -> KindText:
    value = dice.get("value")
    emoji = _emoji(dice) or "🎲"
    return KindText(f"dice {emoji}: {value}" if type(value) is int and 0 <= value <= 100 else f"dice {emoji}")


def _sticker(sticker: Fields) -> KindText:
    return KindText(f"sticker {_emoji(sticker)}".strip() if sticker.get("file_id") else "")


def _story(story: Fields) -> KindText:
    chat = fields_in(story, "chat")
    return KindText(given=((f"a story of {chat_name(chat)}", STORY),) if chat else ())


STORY: Final = "(A story. Telegram does not show it to bots.)"


def _game(game: Fields) -> KindText:
    about = ": ".join(filter(None, (_line(game, "title"), _line(game, "description", 1000))))
    return KindText(given=(("a game", f"game: {about}" if about else ""),))


def _invoice(invoice: Fields) -> KindText:
    about = ": ".join(filter(None, (_line(invoice, "title"), _line(invoice, "description", 1000))))
    amount, currency = invoice.get("total_amount"), _line(invoice, "currency", 8)
    price = f" ({amount} {currency}, in its smallest unit)" if type(amount) is int and currency else ""
    return KindText(given=(("an invoice", f"invoice: {about}{price}" if about else ""),))


def _paid_media(paid: Fields) -> KindText:
    stars, media = paid.get("star_count"), [_line(one, "type", 20) for one in _items(paid, "paid_media")]
    price = f" for {stars} stars" if type(stars) is int else ""
    return KindText(given=(("paid media", f"paid media{price}: {', '.join(media)}" if media else ""),))


def _giveaway(giveaway: Fields) -> KindText:
    chats = [chat_name(chat) for chat in _items(giveaway, "chats")]
    winners, prize = giveaway.get("winner_count"), _line(giveaway, "prize_description", 1000)
    count = f"{winners} winners" if type(winners) is int else ""
    about = ", ".join(filter(None, (*chats[:10], count, prize)))
    return KindText(given=(("a giveaway", f"giveaway: {about}" if about else ""),))


def _rich(rich: Fields) -> KindText:
    return KindText("\n".join(_lines(rich.get("blocks"), 10)))


def _lines(blocks: object, depth: int) -> list[str]:
    """Return the texts of a formatted message's blocks, one for each block, at most `MOST_ITEMS` a list."""
    found = list[str]()
    for block in blocks[:MOST_ITEMS] if depth and isinstance(blocks, list) else []:
        if isinstance(block, dict):
            texts = (_inline(block.get(name), 10) for name in ("title", "text", "caption"))
            found += filter(None, texts)
            for name in ("blocks", "items", "cells"):
                found += _lines(block.get(name), depth - 1)
    return found[: MOST_CHARS // 10]


def _inline(text: object, depth: int) -> str:
    match text:
        case str():
            return text[:MOST_CHARS]
        case list() if depth:
            return "".join(_inline(one, depth - 1) for one in text[:MOST_ITEMS])
        case dict() if depth:
            return _inline(text.get("text"), depth - 1)
        case _:
            return ""


def _emoji(fields: Fields) -> str:
    return one_line(words_in(fields, "emoji"), 16)


def _line(fields: Fields, name: str, max_chars: int = 300) -> str:
    return one_line(words_in(fields, name), max_chars)


def _items(fields: Fields, name: str) -> list[Fields]:
    found = fields.get(name)
    return [one for one in found[:MOST_ITEMS] if isinstance(one, dict)] if isinstance(found, list) else []


# A venue also comes as a location, for older clients. So it is looked for first.
_KINDS: Final[Mapping[str, Callable[[Fields], KindText]]] = {
    "venue": _venue,
    "location": _location,
    "contact": _contact,
    "poll": _poll,
    "checklist": _checklist,
    "dice": _dice,
    "sticker": _sticker,
    "story": _story,
    "game": _game,
    "invoice": _invoice,
    "paid_media": _paid_media,
    "giveaway": _giveaway,
    "giveaway_winners": _giveaway,
    "rich_message": _rich,
}
