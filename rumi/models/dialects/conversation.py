"""Repair of the tool calls of a conversation before it is sent, and of the ids of new calls.

Strict servers refuse a whole conversation if two calls have one id, if a call has no result, if a result has
no call directly before it, or if an id has other characters than theirs. Every later message of the chat
would fail, so this repairs stored conversations too.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

from rumi.models.dialects.call_parts import new_id
from rumi.models.model import Message, ToolCall

NO_RESULT: Final = "interrupted: there is no result; the call may or may not have taken effect"


@dataclass(frozen=True, slots=True)
class IdForm:
    """The ids of calls that a server accepts: a pattern, and the length of ids that replace others."""

    pattern: re.Pattern[str]
    length: int

    def fits(self, number: str) -> bool:
        """Return True if the server accepts the id."""
        return self.pattern.fullmatch(number) is not None


ANY: Final = IdForm(re.compile(r"[\s\S]*"), 24)
USUAL: Final = IdForm(re.compile(r"[A-Za-z0-9_-]{1,40}"), 24)
"""Anthropic's characters (`^[a-zA-Z0-9_-]+$`), and OpenAI's length of 40."""

KIMI: Final = IdForm(re.compile(r"[A-Za-z0-9_-]{1,40}|functions\.[A-Za-z0-9_-]{1,64}:\d{1,4}"), 24)
"""Kimi's models call worse without their own ids, such as `functions.bash:0`."""


def id_form(length: int | None, model: str) -> IdForm:
    """Return the form of ids for a model. `length` is for servers that accept only ids of that length."""
    if length is not None:
        return IdForm(re.compile(rf"[A-Za-z0-9]{{{length}}}"), length)
    return KIMI if "kimi" in model.lower() else USUAL


def paired(messages: Sequence[Message], form: IdForm = ANY) -> tuple[Message, ...]:
    """Return the conversation with one result for each call, in their order, and with unique ids of the form.

    Results that belong to no call are dropped. A call whose result is missing gets `NO_RESULT`. The same
    conversation always gets the same ids, so that servers can use their prompt cache.
    """
    whole: list[Message] = []
    used: set[str] = set()
    calls: list[tuple[str, str]] = []
    results: dict[str, Message] = {}
    for message in messages:
        if message.role == "tool":
            stored = message.tool_call_id or ""
            number = next((new for old, new in calls if old == stored and new not in results), None)
            if number is not None:
                results[number] = message if number == stored else replace(message, tool_call_id=number)
            continue
        whole += _in_order(calls, results)
        numbers = [_unique(call.id, used, form) for call in message.tool_calls]
        calls = [(call.id, number) for call, number in zip(message.tool_calls, numbers, strict=True)]
        results = {}
        if any(old != new for old, new in calls):
            message = replace(message, tool_calls=_numbered(message.tool_calls, numbers))
        whole.append(message)
    whole += _in_order(calls, results)
    return tuple(whole)


def _in_order(calls: Sequence[tuple[str, str]], results: Mapping[str, Message]) -> list[Message]:
    """Return a result for each call, in the order of the calls."""
    return [results.get(new) or Message("tool", NO_RESULT, tool_call_id=new) for _, new in calls]


def _unique(number: str, used: set[str], form: IdForm) -> str:
    sent, times = number, 0
    while sent in used or not form.fits(sent) or not sent:
        sent = sha256(f"{number}\0{times}".encode("utf-8", "replace")).hexdigest()[: form.length]
        times += 1
    used.add(sent)
    return sent


def _numbered(calls: Iterable[ToolCall], numbers: Iterable[str]) -> tuple[ToolCall, ...]:
    return tuple(replace(call, id=number) for call, number in zip(calls, numbers, strict=True))


def with_new_ids(calls: Sequence[ToolCall], conversation: Iterable[Message]) -> tuple[ToolCall, ...]:
    """Return a reply's calls; an id that is missing, or that another call has already, is replaced."""
    if not calls:
        return ()
    used = {call.id for message in conversation for call in message.tool_calls} | {""}
    numbered: list[ToolCall] = []
    for call in calls:
        numbered.append(replace(call, id=new_id()) if call.id in used else call)
        used.add(numbered[-1].id)
    return tuple(numbered)
