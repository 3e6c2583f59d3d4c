"""Stores what people saw of a turn as JSON beside the messages."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from rumi.store.journal.shown import CallFigures, CallWithin, Shown, ShownCall, ShownQuestion, ShownReply
from rumi.store.journal.transaction import clean


def dump_shown(shown: Shown | None, content: str) -> str:
    """Return what was shown of a message with this `content` as JSON; empty if there is nothing."""
    if shown is None:
        return ""
    fields = _brief(asdict(shown))
    if isinstance(shown, ShownCall):
        fields["ok"] = shown.ok
        if shown.said and content.startswith(shown.said):
            fields["said"] = len(shown.said)  # most results say the same to people and to the model
    return clean(json.dumps(fields, ensure_ascii=False, separators=(",", ":")))


def load_shown(text: str, content: str) -> Shown | None:
    """Load what `dump_shown` has written; None if there is nothing, or the text is damaged."""
    if not text:
        return None
    try:
        fields = json.loads(text)
        if "ok" in fields:
            return _call(fields, content)
        call = fields.get("call")
        return ShownReply(None if call is None else CallFigures(**call), _within(fields.get("calls", ())))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def dump_questions(questions: Sequence[ShownQuestion]) -> str:
    """Return questions as JSON."""
    return clean(json.dumps([_brief(asdict(one)) for one in questions], ensure_ascii=False))


def load_questions(text: str) -> tuple[ShownQuestion, ...]:
    """Load what `dump_questions` has written; none if the text is damaged."""
    try:
        return tuple(ShownQuestion(**one) for one in json.loads(text))
    except (ValueError, TypeError):
        return ()


def _brief(value: Any) -> Any:
    """Return a JSON value without the fields that have no content."""
    if isinstance(value, dict):
        shortened = {name: _brief(each) for name, each in value.items()}
        return {
            name: each
            for name, each in shortened.items()
            if each not in (None, "", [], ()) and each is not False and (each != 0 or name in ("exit", "ms"))
        }
    return [_brief(each) for each in value] if isinstance(value, list | tuple) else value


def _call(fields: dict[str, Any], content: str = "") -> ShownCall:
    said = fields.get("said", "")
    return replace(
        ShownCall(
            **fields
            | {
                "shows": tuple(fields.get("shows", ())),
                "questions": tuple(ShownQuestion(**one) for one in fields.get("questions", ())),
                "within": _within(fields.get("within", ())),
            }
        ),
        said=content[:said] if isinstance(said, int) else str(said),
    )


def _within(rows: Sequence[dict[str, Any]]) -> tuple[CallWithin, ...]:
    return tuple(
        CallWithin(
            row.get("id", ""),
            row.get("name", ""),
            row.get("title", ""),
            _call({"ok": False} | row.get("call", {})),
        )
        for row in rows
    )
