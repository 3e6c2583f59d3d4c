"""What a chat tells, as JSON: written by the process that holds the home, read by its windows."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, cast

from rumi.agent import (
    ConfirmationAsked,
    ConfirmationEnded,
    Thinking,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from rumi.chats import ChatEvent, Happening, Replied, TurnStarted
from rumi.journal import Enclosure
from rumi.models import Discarded, TextDelta, ToolCall, Usage, Waiting
from rumi.tools import ToolResult

VERSION = 2
"""Goes up with every change that an older or a newer window would stumble over."""

MOST_WORDS = 10
"""Others' words that one message may hand on; the chat bounds how long they are."""

_FLAT: dict[str, Any] = {
    each.__name__: each
    for each in (TurnStarted, Thinking, TextDelta, Discarded, Waiting, ConfirmationAsked, ConfirmationEnded)
}

_SHOWN = ("ok", "content", "exit_code", "duration_ms", "truncated")
"""Of a tool's result, what a window shows."""


def to_json(event: ChatEvent) -> dict[str, object]:
    """An event as JSON knows it."""
    return {"chat": event.chat, "turn": event.turn, "time": event.time, "what": _what(event.what)}


def _what(what: Happening) -> dict[str, object]:
    kind = type(what).__name__
    match what:
        case ToolStarted(call, arguments):
            return {"is": kind, "call": _call(call), "arguments": dict(arguments)}
        case ToolFinished(call, result):
            shown = {name: getattr(result, name) for name in _SHOWN}
            return {"is": kind, "call": _call(call), "result": shown}
        case TurnFinished(reason, answer, usage):
            tokens = [usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens]
            return {"is": kind, "reason": reason, "answer": answer, "tokens": tokens}
        case Replied():
            return {"is": kind, **reply_to_json(what)}
        case _:
            return {"is": kind, **{each.name: getattr(what, each.name) for each in fields(what)}}


def _call(call: ToolCall) -> dict[str, object]:
    return {"id": call.id, "name": call.name, "arguments": call.arguments}


def reply_to_json(reply: Replied) -> dict[str, object]:
    """A reply's fields."""
    told = {"delivery": reply.delivery, "messages": list(reply.messages), "text": reply.text}
    return told if reply.reason is None else {**told, "reason": reply.reason}


def from_json(data: Mapping[str, Any]) -> ChatEvent:
    """The event.

    Raises:
        KeyError, TypeError, ValueError: it is none that this version knows.
    """
    return ChatEvent(data["chat"], data["turn"], data["time"], _happening(dict(data["what"])))


def _happening(data: dict[str, Any]) -> Happening:
    kind = data.pop("is")
    if kind in _FLAT:
        return cast(Happening, _FLAT[kind](**data))
    match kind:
        case "ToolStarted":
            return ToolStarted(ToolCall(**data["call"]), data["arguments"])
        case "ToolFinished":
            return ToolFinished(ToolCall(**data["call"]), ToolResult(**data["result"]))
        case "TurnFinished":
            return TurnFinished(data["reason"], data["answer"], Usage(*data["tokens"]))
        case "Replied":
            return reply_from_json(data)
        case _:
            raise ValueError(f"unknown event {kind!r}")


def words_to_json(enclosures: Sequence[Enclosure]) -> list[dict[str, object]]:
    """Others' words that a window hands on; it sends no files."""
    return [{"source": each.source, "text": each.text, "cut": each.cut} for each in enclosures]


def words_from_json(data: object) -> tuple[Enclosure, ...]:
    """The words.

    Raises:
        KeyError, TypeError, ValueError: they are not what this version knows.
    """
    if not isinstance(data, list) or len(data) > MOST_WORDS:
        raise ValueError("not a short list")
    return tuple(
        Enclosure("words", source=str(each["source"]), text=str(each["text"]), cut=bool(each["cut"]))
        for each in data
    )


def reply_from_json(data: Mapping[str, Any]) -> Replied:
    """The reply."""
    return Replied(data["delivery"], tuple(data["messages"]), data["text"], data.get("reason"))
