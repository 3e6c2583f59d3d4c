"""Reads the body of an event into a text for a model: shorter than the body, with what is left out named."""

import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs

from rumi.platform.untrusted_text import one_line

EVENT_CHARS: Final = 8000
"""Maximum length of an event's text, in characters."""

MOST_UNPACKED: Final = 1_000_000
"""Maximum size of a compressed event after it is unpacked, in bytes; the rest is left out."""

_GZIP: Final = b"\x1f\x8b"

MOST_ID_CHARS: Final = 200
MOST_KIND_CHARS: Final = 60

_MOST_FIELD_CHARS: Final = 200
"""Longer names of fields are cut. No expression searches them: that could take hours."""

MOST_DEPTH: Final = 12
"""Values that are nested more deeply are left out."""

_BOUNDS: Final = ((4000, 60), (1500, 25), (500, 12), (200, 6), (80, 3))
"""Pairs of maximum lengths, of a text and of a list, from generous to narrow."""

_KINDS: Final = (
    "x-github-event",
    "x-gitea-event",
    "x-forgejo-event",
    "x-gogs-event",
    "x-gitlab-event",
    "x-event-key",
    "sentry-hook-resource",
)
_IDS: Final = (
    "x-github-delivery",
    "x-gitea-delivery",
    "x-forgejo-delivery",
    "x-gogs-delivery",
    "idempotency-key",
    "x-gitlab-event-uuid",
    "x-request-uuid",
    "request-id",
)
# Addresses for programs, and ids: a fifth of what GitHub sends is worth reading.
_FOR_PROGRAMS: Final = re.compile(
    r"(?!html_url$|runbook_url$|compare_url$).*_url|node_id|.*avatar.*|gravatar_id"
)


@dataclass(frozen=True, slots=True)
class ReadEvent:
    """An event for a model. `cut` is True if something was left out without a mark in the text.

    `kind` is what its sender calls the kind of event, empty if unknown.
    """

    text: str
    cut: bool = False
    kind: str = ""


def delivery_id(headers: Mapping[str, str], body: bytes, signed: str | None = None) -> tuple[str, bool]:
    """Return the id of a delivery, and True if its sender gave it; otherwise the id is a hash of the body.

    `signed` is the id that the proof covers; if it is None, any header may name the id.
    """
    names = _IDS if signed is None else ()
    for id in (signed or "", *(headers.get(name, "").strip() for name in names)):
        if id:
            return bounded_id(id), True
    return f"body:{hashlib.sha256(body).hexdigest()}", False


def bounded_id(id: str) -> str:
    """Return an id as it is, or a hash of it if it is long or has characters that an id should not have."""
    if len(id) <= MOST_ID_CHARS and id.isascii() and id.isprintable():
        return id
    return f"hash:{hashlib.sha256(id.encode('utf-8', 'surrogatepass')).hexdigest()}"


def kind_of(headers: Mapping[str, str]) -> str:
    """Return what the sender calls the kind of event. No signature covers it."""
    found = next((headers[name] for name in _KINDS if headers.get(name)), "")
    return one_line(found, MOST_KIND_CHARS)


def is_ping(headers: Mapping[str, str]) -> bool:
    """Return True if a sender of GitHub's form only tests whether it reaches the trigger."""
    return headers.get("x-github-event", "").strip() == "ping"


def read_event(headers: Mapping[str, str], body: bytes) -> ReadEvent:
    """Return the event in a request's body: JSON, a form with JSON in it, or a text in UTF-8.

    A body that is compressed with gzip is unpacked, up to `MOST_UNPACKED` bytes.
    """
    kind = kind_of(headers)
    body = _unpacked(body)
    text = body.decode("utf-8-sig", "replace")
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    # `curl -d` calls everything a form.
    if media_type == "application/x-www-form-urlencoded" and not text.lstrip().startswith(("{", "[")):
        text = _of_form(text)
    elif text.count("\ufffd") > max(8, len(text) // 10) or "\0" in text:
        about = one_line(media_type, 60) or "no known type"
        return ReadEvent(f"({len(body)} bytes of {about}, no text)", kind=kind)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ReadEvent(text[:EVENT_CHARS], len(text) > EVENT_CHARS, kind)
    if not isinstance(value, dict | list):
        return ReadEvent(text[:EVENT_CHARS], len(text) > EVENT_CHARS, kind)
    return _shortened(value, kind)


def _unpacked(body: bytes) -> bytes:
    if not body.startswith(_GZIP):
        return body
    try:
        return zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(body, MOST_UNPACKED) or body
    except zlib.error:
        return body


def _of_form(text: str) -> str:
    """Return the JSON in the only field `payload` of a form; of another form, its fields as JSON."""
    try:
        fields = parse_qs(text, keep_blank_values=True, max_num_fields=1000)
    except ValueError:
        return text
    if list(fields) == ["payload"] and len(fields["payload"]) == 1:
        return fields["payload"][0]
    named = {name: values[0] if len(values) == 1 else values for name, values in fields.items()}
    return json.dumps(named) if named else text


def _shortened(value: Any, kind: str) -> ReadEvent:
    left_out = _LeftOut()
    value = _without_noise(value, left_out, 0)
    note = left_out.note()
    text = ""
    for most_text, most_items in _BOUNDS:
        text = json.dumps(_within(value, most_text, most_items), indent=1, ensure_ascii=False) + note
        if len(text) <= EVENT_CHARS:
            return ReadEvent(text, kind=kind)
    return ReadEvent(text[:EVENT_CHARS], True, kind)


@dataclass(slots=True)
class _LeftOut:
    for_programs: int = 0
    empty: int = 0
    deep: int = 0

    def note(self) -> str:
        parts = (
            (self.for_programs, "addresses and ids for programs"),
            (self.empty, "empty fields"),
            (self.deep, "deeply nested values"),
        )
        named = ", ".join(f"{count} {what}" for count, what in parts if count)
        return f"\n(left out: {named})" if named else ""


def _without_noise(value: Any, left_out: _LeftOut, depth: int) -> Any:
    if depth > MOST_DEPTH and isinstance(value, dict | list):
        left_out.deep += 1
        return "…"
    if isinstance(value, list):
        return [_without_noise(item, left_out, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    kept: dict[str, Any] = {}
    for name, item in value.items():
        if item is None or item == "" or item == [] or item == {}:
            left_out.empty += 1
        elif isinstance(item, str) and len(name) <= _MOST_FIELD_CHARS and _FOR_PROGRAMS.fullmatch(name):
            left_out.for_programs += 1
        else:
            kept[name] = _without_noise(item, left_out, depth + 1)
    return kept


def _within(value: Any, most_text: int, most_items: int) -> Any:
    """Return a JSON value with shorter texts and lists; each shortened one says how much is missing."""
    if isinstance(value, str) and len(value) > most_text:
        return f"{value[:most_text]}… ({len(value) - most_text} more characters)"
    if isinstance(value, list):
        kept = [_within(item, most_text, most_items) for item in value[:most_items]]
        return kept if len(value) <= most_items else [*kept, f"… ({len(value) - most_items} more)"]
    if isinstance(value, dict):
        names = list(value)
        # An object has more fields than a list has items before it is long.
        shown = names[: most_items * 4]
        kept_fields = {
            name[:_MOST_FIELD_CHARS]: _within(value[name], most_text, most_items) for name in shown
        }
        if len(names) > len(shown):
            kept_fields["…"] = f"{len(names) - len(shown)} more fields"
        return kept_fields
    return value
