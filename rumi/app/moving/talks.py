"""Makes sessions from the messages that other programs have stored."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from rumi.app.moving.reading import instant, listed, mapping, word
from rumi.app.moving.records import ForeignHome, MovedSession, MovedTurn, hidden, number_of
from rumi.models.model import Message, ToolCall
from rumi.platform.chat_ids import BUILT_IN
from rumi.texts import Text

MOST_SESSIONS: Final = 5_000
MOST_TURNS: Final = 2_000
MOST_CALLS: Final = 64
"""Maximum numbers of sessions of an import, of turns of a session (the last ones), of calls of a message."""

MOST_CHARS: Final = 100_000
MOST_RESULT_CHARS: Final = 20_000
MOST_SESSION_CHARS: Final = 8_000_000
"""Maximum lengths of a text, of a tool's result and of a session, in characters."""

MOST_TITLE_CHARS: Final = 80

NO_RESULT: Final = "(no result was stored)"
_CUT: Final = "\n… (the rest was left out)"
_RANDOM: Final = re.compile(r"[0-9a-f-]{24,}.*", re.IGNORECASE)
_TOOL: Final = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class ForeignMessage:
    """One stored message. `calls` are (id, tool, arguments); `answers` is the id of the call of a result."""

    role: Literal["user", "assistant", "tool"]
    text: str
    at: float
    calls: tuple[tuple[str, str, str], ...] = ()
    answers: str = ""


def add_session(
    moved: ForeignHome, id: str, title: str, said: Iterable[ForeignMessage], began: float = 0.0
) -> None:
    """Add a session to what was found. Sessions without words, and more than the limit, are left out.

    `began` is the time of messages without one, in seconds since 1970.
    """
    if len(moved.sessions) >= MOST_SESSIONS:
        moved.leave("sessions", id, Text("there are more than {most} sessions", most=MOST_SESSIONS))
        return
    turns = _turns(id, said, began)
    if not turns:
        moved.leave("sessions", "", Text("sessions in which nothing was said"))
        return
    kept, chars = list[MovedTurn](), 0
    for turn in reversed(turns):
        chars += sum(len(message.content) for message, _ in turn.entries)
        if len(kept) == MOST_TURNS or (kept and chars > MOST_SESSION_CHARS):
            moved.leave(
                "sessions",
                id,
                Text("the beginning of a long session"),
                count=len(turns) - len(kept),
            )
            break
        kept.append(turn)
    kept.reverse()
    name = _title(title) or _title(next((turn.text for turn in kept if turn.text), ""))
    moved.sessions.append(MovedSession(id, chat_of(moved.kind, id), name, tuple(kept)))


def chat_of(kind: str, id: str) -> str:
    """Return the id of the chat for a session: the program, words of the session's id, and a stable number.

    The title is not part of it: programs make and change titles later.
    """
    words = "" if _RANDOM.fullmatch(id) else re.sub(r"[^A-Za-z0-9]+", "-", id).strip("-")[:24].strip("-")
    chat = f"{kind}-{f'{words}-' if words else ''}{number_of(f'{kind} {id}') % 16**8:08x}"
    return BUILT_IN.check_chosen(chat)


def _title(text: str) -> str:
    line = " ".join(hidden(text[:1000]).split())
    return line if len(line) <= MOST_TITLE_CHARS else f"{line[: MOST_TITLE_CHARS - 1]}…"


def _turns(id: str, said: Iterable[ForeignMessage], began: float) -> list[MovedTurn]:
    """Return the turns of a session. Each message of a person begins one, except those without an answer."""
    groups: list[list[ForeignMessage]] = []
    last = began
    for one in said:
        last = max(one.at or last, last) if groups else one.at or began
        message = ForeignMessage(
            one.role, hidden(cut(one.text, one.role == "tool")), last, one.calls, one.answers
        )
        if message.role == "user":
            if message.text.strip():
                groups.append([message])
        elif groups:
            groups[-1].append(message)
        elif message.role == "assistant" and message.text.strip():
            # It wrote first, for example because of a schedule.
            groups.append([ForeignMessage("user", "…", message.at), message])
    seen: dict[str, int] = {}
    turns = []
    for group in groups:
        # Programs that shorten their sessions keep the time and the text of what stays.
        key = f"{id}\n{group[0].at:.3f}\n{group[0].text}"
        seen[key] = seen.get(key, 0) + 1
        turns.append(_turn(f"{key}\n{seen[key]}", group))
    return turns


def _turn(key: str, group: list[ForeignMessage]) -> MovedTurn:
    """Return a turn in which each call has one result, and each result belongs to a call."""
    results = {one.answers: one for one in group if one.role == "tool" and one.answers}
    first = group[0]
    entries: list[tuple[Message, float]] = [(Message("user", first.text), first.at)]
    reply, number = "", 0
    for one in group[1:]:
        if one.role != "assistant":
            continue
        calls: list[ToolCall] = []
        answers: list[tuple[Message, float]] = []
        for id, name, arguments in one.calls[:MOST_CALLS]:
            number += 1
            call = f"call_{number_of(key) % 10**8}_{number}"
            calls.append(ToolCall(call, _TOOL.sub("_", name)[:64] or "tool", hidden(cut(arguments, True))))
            found = results.pop(id, None)
            text, at = (found.text, found.at) if found is not None else (NO_RESULT, one.at)
            answers.append((Message("tool", text or NO_RESULT, tool_call_id=call), at))
        if not one.text.strip() and not calls:
            continue
        entries.append((Message("assistant", one.text, tuple(calls)), one.at))
        entries += answers
        reply = one.text.strip() if not calls else ""
    return MovedTurn(key, first.text, first.at, tuple(entries), reply)


def cut(text: str, result: bool = False) -> str:
    """Return a text, or a tool's result, within its limit."""
    most = MOST_RESULT_CHARS if result else MOST_CHARS
    return text if len(text) <= most else f"{text[:most]}{_CUT}"


def plain(content: object) -> str:
    """Return the words of a message's content: a text, or a list of parts of which some are texts."""
    if isinstance(content, str):
        return content
    parts = []
    for part in listed(content)[:1000]:
        if isinstance(part, str):
            parts.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str) and part.get("type") != "thinking":
            parts.append(part["text"])
        elif isinstance(part, dict) and part.get("type") in ("image", "image_url", "input_image", "file"):
            parts.append(f"[{part['type'].removesuffix('_url')}]")
    return "\n".join(parts)


def calls_of(stored: object) -> tuple[tuple[str, str, str], ...]:
    """Return the calls of a message as OpenAI's API writes them: (id, tool, arguments)."""
    found = []
    for call in listed(stored)[:MOST_CALLS]:
        function = mapping(mapping(call).get("function"))
        arguments = function.get("arguments")
        found.append(
            (
                word(mapping(call).get("id")),
                word(function.get("name")),
                arguments if isinstance(arguments, str) else "{}",
            )
        )
    return tuple(found)


def said_of(stored: dict[str, Any]) -> ForeignMessage | None:
    """Return a message as OpenAI's API writes it, with a `timestamp`; None for others."""
    role = stored.get("role")
    if role not in ("user", "assistant", "tool"):
        return None
    return ForeignMessage(
        role,
        plain(stored.get("content")),
        instant(stored.get("timestamp")),
        calls_of(stored.get("tool_calls")) if role == "assistant" else (),
        word(stored.get("tool_call_id")),
    )
