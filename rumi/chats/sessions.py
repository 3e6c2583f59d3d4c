"""What people do with the session of a chat: list and reopen sessions, compact one, see what fills it."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import trio

from actors import ActorRef
from rumi.agent.compaction.summaries import KEPT_TOKENS, TRANSCRIPT_SHARE, cut_off
from rumi.agent.prompts.prompt_notes import exchanges, shown, whole_note
from rumi.agent.skills.prompt import CHANGES, INTRODUCTION
from rumi.agent.tool import Tool
from rumi.chats.session import ChatSession, over
from rumi.chats.summing import SUMMARY_S, sum_up
from rumi.chats.summing import shown as shown_summary
from rumi.models.fitting import messages_tokens
from rumi.models.model import Message, Model, ModelError, text_tokens
from rumi.models.token_budget import prompt_share
from rumi.platform.texts.sessions import ContextUse, SessionLine
from rumi.platform.untrusted_text import read_block
from rumi.platform.zones import local_at
from rumi.store.journal.history import left_out, summarize
from rumi.store.journal.records import HistoryEntry, StoredSession, Summary
from rumi.store.journal.transaction import JournalMessage

MOST_LISTED: Final = 20
"""Maximum number of sessions that a list shows."""

MOST_BUTTONS: Final = 5
"""Maximum number of sessions that a list offers with a button."""

_FACTS: Final = re.compile(r"<memory>\n.*?\n</memory>", re.DOTALL)
_SKILLS: Final = re.compile(
    rf"(?:{re.escape(INTRODUCTION)}|{re.escape(CHANGES)})\n<skills>\n.*?</skills>", re.DOTALL
)


def line_of(session: StoredSession, zone: str) -> SessionLine:
    """Return a session as lists show it, with the local time in the owner's time `zone`."""
    at = local_at(session.at, zone)
    return SessionLine(session.number, at, session.text, session.messages, session.current)


async def compact_now(
    chat_session: ChatSession,
    journal: ActorRef[JournalMessage],
    model: Model | None,
    prompt_tokens: int,
    keep: str,
) -> tuple[int, int] | None:
    """Replace the conversation in prompts by a summary, except a short last exchange; store the summary.

    `keep` says what the summary must keep. Without a `model`, only what the program knows exactly replaces
    the conversation. Return the sizes of the conversation before and after, in tokens; None if that would
    not make it smaller. On cancellation or an error nothing has changed.

    Raises:
        ModelError: the model failed, or took longer than `SUMMARY_S`.
    """
    session, earlier, entries = chat_session.session, chat_session.summary, chat_session.entries
    gone = list(entries)
    whole = exchanges(entries)
    if len(whole) > 1 and _tokens(whole[-1]) <= min(KEPT_TOKENS, prompt_tokens // 10):
        gone = gone[: len(gone) - len(whole[-1])]
    if not any(entry.message.role != "system" for entry in gone):
        return None
    kept = entries[len(gone) :]
    if earlier is not None and earlier.gap:
        most = int(prompt_tokens * TRANSCRIPT_SHARE)
        gone = [*await journal.ask(left_out(chat_session.chat, session, most)), *gone]
    before = _size(earlier, entries)
    if model is None:
        text = "" if earlier is None else earlier.text
        text = cut_off(text, [entry.message for entry in gone], prompt_tokens)
        summary = replace(over(earlier, gone), text=text)
    else:
        with trio.move_on_after(SUMMARY_S) as patience:
            summary = await sum_up(model, earlier, gone, prompt_tokens, keep=keep)
        if patience.cancelled_caught:
            raise ModelError("unreachable", "the summary took too long")
    if _size(summary, kept) >= before:
        return None  # a short conversation takes fewer tokens than its summary
    stored = await journal.ask(summarize(chat_session.chat, session, summary))
    if stored is None:
        return None
    chat_session.stand_in(session, stored)
    budget = chat_session.budget
    if budget is not None:
        more = _summary_tokens(stored) - _summary_tokens(earlier)
        chat_session.budget = replace(budget, taken=budget.taken + more)
    return before, _size(stored, chat_session.entries)


def context_use(
    chat_session: ChatSession, instructions: str, tools: Sequence[Tool], window: int
) -> ContextUse:
    """Return what fills the next prompt of a session, with a context of `window` tokens.

    `instructions` are those of every prompt. All sizes are estimates from the lengths of the texts.
    """
    entries = chat_session.entries
    notes = [whole_note(entries), *(m.content for m in shown(entries) if m.role == "system")]
    facts, skills, rest = (sum(part) for part in zip(*map(_of_note, notes), strict=True))
    spoken = [message for message in shown(entries) if message.role != "system"]
    results = [message for message in spoken if message.role == "tool"]
    files = [message for message in spoken if message.role == "user" and _is_file(message)]
    said = messages_tokens(spoken) - messages_tokens(results) - messages_tokens(files)
    return ContextUse(
        instructions=text_tokens(instructions) + rest,
        tools=sum(tool.spec.tokens for tool in tools),
        skills=skills,
        facts=facts,
        summary=_summary_tokens(chat_session.summary),
        messages=said,
        results=messages_tokens(results),
        files=messages_tokens(files),
        reply=window - prompt_share(window),
    )


def _of_note(note: str) -> tuple[int, int, int]:
    """Return the sizes of the facts, of the skills and of the rest of a prompt note."""
    facts = sum(text_tokens(found[0]) for found in _FACTS.finditer(note))
    skills = sum(text_tokens(found[0]) for found in _SKILLS.finditer(note))
    return facts, skills, max(0, text_tokens(note) - facts - skills)


def _is_file(message: Message) -> bool:
    return bool(message.pictures) or read_block(message.content.partition("\n")[2]) is not None


def _size(summary: Summary | None, entries: Sequence[HistoryEntry]) -> int:
    return _summary_tokens(summary) + messages_tokens(
        entry.message for entry in entries if entry.message.role != "system"
    )


def _tokens(entries: Sequence[HistoryEntry]) -> int:
    return messages_tokens(entry.message for entry in entries)


def _summary_tokens(summary: Summary | None) -> int:
    return 0 if summary is None else shown_summary(summary).tokens
