"""Texts for people about sessions: their list, reopening, compaction, and what fills the context."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from rumi.platform.markdown import plain
from rumi.platform.texts.formats import number
from rumi.texts import Language, Text, gettext, ngettext, translate

TITLE_CHARS: Final = 60
BUTTON_CHARS: Final = 30
BAR_CELLS: Final = 10


@dataclass(frozen=True, slots=True)
class SessionLine:
    """A session in a list. `at` is the local time of its last message, `text` its first message."""

    number: int
    at: datetime
    text: str
    messages: int
    current: bool


@dataclass(frozen=True, slots=True)
class ContextUse:
    """Estimated sizes of the parts of the next prompt, in tokens. `reply` is reserved for the answer."""

    instructions: int
    tools: int
    skills: int
    facts: int
    summary: int
    messages: int
    results: int
    files: int
    reply: int

    @property
    def used(self) -> int:
        """Return the size of the whole prompt."""
        sizes: list[int] = [getattr(self, name) for name, _ in PARTS]
        return sum(sizes)


PARTS: Final = (
    ("instructions", Text("system prompt")),
    ("tools", Text("tool descriptions")),
    ("skills", Text("skills")),
    ("facts", Text("facts about you")),
    ("summary", Text("summary")),
    ("messages", Text("messages")),
    ("results", Text("tool results")),
    ("files", Text("files")),
)


def session_title(language: Language, text: str) -> str:
    """Return the first words of a session on one line."""
    return plain(text, TITLE_CHARS) or gettext(language, "(no words of yours)")


def counted(language: Language, messages: int) -> str:
    """Return a number of messages in words."""
    return ngettext(language, "{count} message", "{count} messages", messages)


def button(language: Language, session: SessionLine) -> str:
    """Return the label of a button that reopens a session."""
    words = " ".join(session.text.split())
    words = words if len(words) <= BUTTON_CHARS else f"{words[: BUTTON_CHARS - 1]}…"
    return f"{session.number} · {words}" if words else counted(language, session.messages)


def session_list(language: Language, sessions: Sequence[SessionLine]) -> str:
    """Return the list of a chat's sessions in Markdown, with the command that reopens one."""
    if not sessions:
        return gettext(language, "This chat has no sessions yet.")
    lines = []
    for session in sessions:
        mark = f" · **{gettext(language, 'this one')}**" if session.current else ""
        title = session_title(language, session.text)
        count = counted(language, session.messages)
        lines.append(f"- `{session.number}` · {session.at:%Y-%m-%d %H:%M} · {count} · {title}{mark}")
    others = [session.number for session in sessions if not session.current]
    parts = [gettext(language, "Sessions of this chat, the latest first:"), "\n".join(lines)]
    if others:
        parts.append(gettext(language, "Reopen one with its number: `/sessions {number}`", number=others[0]))
    return "\n\n".join(parts)


def reopened(language: Language, session: SessionLine, before: int) -> str:
    """Say that a session was reopened. `before` is the number of the session that it replaces, or 0."""
    text = gettext(
        language,
        "Reopened session {number}: “{title}” ({count}).",
        number=session.number,
        title=session_title(language, session.text),
        count=counted(language, session.messages),
    )
    if not before:
        return text
    back = gettext(language, "The session before it is saved: `/sessions {number}`", number=before)
    return f"{text} {back}"


def no_session(language: Language, number: str) -> str:
    """Say that a chat has no session with this number."""
    shown = plain(number, TITLE_CHARS)
    return gettext(language, "There is no session {number} here. /sessions lists them.", number=shown)


def already_current(language: Language, number: int) -> str:
    """Say that the session is the one that the chat continues already."""
    return gettext(language, "Session {number} is already open.", number=number)


def renewed(language: Language, before: int) -> str:
    """Say that a new session began. `before` is the number of the earlier session, 0 if it was empty."""
    if not before:
        return gettext(language, "✨ Started a new session.")
    return gettext(
        language,
        "✨ Started a new session. Your earlier conversation is saved: `/sessions {number}` reopens it.",
        number=before,
    )


def compacted(language: Language, before: int, after: int, *, summarized: bool) -> str:
    """Say how much smaller the conversation is in prompts now, in tokens."""
    text = gettext(
        language,
        "Compacted the conversation: about {before} → {after} tokens. All messages stay stored.",
        before=number(language, before),
        after=number(language, after),
    )
    if summarized:
        return text
    offline = gettext(
        language,
        "The offline model writes no summaries: prompts now have the names of files, the todo list and "
        "errors instead.",
    )
    return f"{text} {offline}"


def nothing_to_compact(language: Language) -> str:
    """Say that a summary would make the prompt no smaller."""
    return gettext(language, "There is nothing to compact: the conversation is short.")


def not_compacted(language: Language, why: str) -> str:
    """Say that the model failed to write a summary."""
    return gettext(language, "❌ Nothing was compacted: {why}", why=why)


def context_table(language: Language, use: ContextUse, window: int, cost: str) -> str:
    """Return a table of what fills the context of `window` tokens, in Markdown; `cost` may be empty."""
    sizes = [(translate(language, label), getattr(use, name)) for name, label in PARTS]
    rows = [(label, tokens, True) for label, tokens in sizes if tokens]
    free = window - use.used - use.reply
    rows.append((gettext(language, "kept for the answer"), use.reply, False))
    rows.append((gettext(language, "free"), max(0, free), False))
    most = max((tokens for _, tokens, bar in rows if bar), default=1)
    shown = [number(language, tokens) for _, tokens, _ in rows]
    wide, digits = max(len(label) for label, *_ in rows), max(map(len, shown))
    lines = [
        f"{label:<{wide}}  {_bar(tokens / most) if bar else '':<{BAR_CELLS}}  {text:>{digits}}"
        f"  {_percent(tokens / window):>4}"
        for (label, tokens, bar), text in zip(rows, shown, strict=True)
    ]
    title = gettext(
        language,
        "The next prompt takes about {used} of {window} tokens ({percent}).",
        used=number(language, use.used),
        window=number(language, window),
        percent=_percent(use.used / window),
    )
    note = gettext(language, "Estimated from the length of the texts; the model's server counts exactly.")
    small = gettext(language, "`/compact` replaces the conversation by a summary.")
    spent = gettext(language, "This session has cost {cost}.", cost=cost) if cost else ""
    below = " ".join(filter(None, (note, small, spent)))
    return "\n\n".join((title, "\n".join(("```", *lines, "```")), below))


def _bar(share: float) -> str:
    return "█" * max(1, round(share * BAR_CELLS))


def _percent(share: float) -> str:
    return "<1 %" if 0 < share < 0.01 else f"{round(share * 100)} %"


def who_said(language: Language, role: str) -> str:
    """Return the name of the side that said an entry of a chat."""
    names = {"user": gettext(language, "you"), "assistant": "Rumi", "tool": gettext(language, "result")}
    return names.get(role, role)
