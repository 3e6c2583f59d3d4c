"""Notes: what the program tells the model besides what is said.

The form of answers in the channel, skills, facts about the user, and the date.

All of it changes, and the beginning of a prompt must not: so what holds is told whole once, with the
instructions, and then only what has changed, in front of the message that it was noticed with. Notes are
entries of the history like all else, so that a later process shows the same ones. When a summary has taken
the place of the exchange with the whole note, the next message brings a new one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from sys import intern
from typing import Final

from rumi.agent.prompts.prompts import noted_channel
from rumi.agent.skills.prompt import noted_skills
from rumi.memory.block import noted_facts
from rumi.models.model import Message
from rumi.store.journal.records import HistoryEntry

WHOLE: Final = "[Note from the program, not from the user: what holds now.]"
CHANGE: Final = "[Note from the program, not from the user: what has changed since.]"
_TODAY: Final = "Today is "


@dataclass(frozen=True, slots=True)
class PromptNotes:
    """What the notes in a prompt say. Without a whole one: nothing, and all that follows is None or empty."""

    facts: frozenset[str] | None = None
    skills: Mapping[str, str] | None = None
    today: str = ""
    channel: str = ""
    """The one whose form the model was told last."""


def prompt_notes(entries: Sequence[HistoryEntry]) -> PromptNotes:
    """Return what a prompt with this history tells the model."""
    notes = _current(entries)
    if not notes:
        return PromptNotes()
    texts = [note.message.content for note in notes]
    lines = [line for text in texts for line in text.splitlines() if line.startswith(_TODAY)]
    return PromptNotes(
        noted_facts(texts), noted_skills(texts), lines[-1] if lines else "", noted_channel(texts)
    )


def next_note(noted: PromptNotes, today: date, *blocks: str) -> str:
    """The note for a prompt that has told so much; empty where nothing has changed."""
    line = f"{_TODAY}{today:%A, %Y-%m-%d}."
    parts = [*filter(None, blocks), *([line] if line != noted.today else [])]
    if not parts:
        return ""
    # Thousands of idle chats hold the same words: the day, and the list of skills.
    return intern("\n\n".join([WHOLE if noted.facts is None else CHANGE, *parts]))


def whole_note(entries: Sequence[HistoryEntry]) -> str:
    """Return the whole note of a prompt with this history, without its first line; empty for none."""
    current = _current(entries)
    return current[0].message.content.removeprefix(WHOLE).strip() if current else ""


def shown(entries: Sequence[HistoryEntry]) -> tuple[Message, ...]:
    """Return the messages of a prompt with this history, except the whole note.

    Changes stand in front of the user's words. Those from before the whole note are part of it.
    """
    changes = _current(entries)[1:]
    messages: list[Message] = []
    turn, front = "", 0
    for entry in entries:
        if entry.turn != turn:
            turn, front = entry.turn, len(messages)
        if not _is_note(entry):
            messages.append(entry.message)
        elif any(entry is change for change in changes):
            messages.insert(front, entry.message)
            front += 1
    return tuple(messages)


def exchanges(entries: Sequence[HistoryEntry]) -> list[list[HistoryEntry]]:
    """The history by turns: what a person asked, and all that came of it."""
    grouped: list[list[HistoryEntry]] = []
    for entry in entries:
        if not grouped or grouped[-1][0].turn != entry.turn:
            grouped.append([])
        grouped[-1].append(entry)
    return grouped


def is_whole(entry: HistoryEntry) -> bool:
    """Return True if it is a note of all that holds."""
    return entry.message.role == "system" and entry.message.content.startswith(WHOLE)


def _current(entries: Sequence[HistoryEntry]) -> list[HistoryEntry]:
    """The last whole note, and what was noted since; nothing where there is no whole one."""
    notes: list[HistoryEntry] = []
    for entry in reversed(entries):
        if _is_note(entry):
            notes.append(entry)
            if is_whole(entry):
                return notes[::-1]
    return []


def _is_note(entry: HistoryEntry) -> bool:
    return entry.message.role == "system" and entry.message.content.startswith((WHOLE, CHANGE))
