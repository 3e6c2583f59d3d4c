"""Prompt notes: information that Rumi adds to a prompt, in addition to the conversation.

A note contains the answer format of the channel, the owner's note for a group, the skills, the facts about
the user, the turn's surroundings, the date and the time.

All of this information changes, but the beginning of a prompt must not change, because servers cache it. So a
full note states everything once, with the instructions. Later change notes state only the changes, each
before the message with which the change was noticed. Notes are history entries, so that the prompt shows the
same notes after a restart. When a summary has replaced the exchange that contained the full note, the next
message brings a new full note.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from sys import intern
from typing import Final

from rumi.agent.prompts.environment import NOTHING_NOTED, Environment, noted_environment, without_instructions
from rumi.agent.prompts.prompts import noted_channel
from rumi.agent.skills.prompt import noted_skills
from rumi.memory.block import noted_facts
from rumi.models.model import Message
from rumi.store.journal.records import HistoryEntry

WHOLE: Final = "[Note from the program, not from the user: what holds now.]"
CHANGE: Final = "[Note from the program, not from the user: what has changed since.]"
CLOCK_MINUTES: Final = 15
"""The time is stated again with a message that comes so many minutes after it was stated last."""

_GROUP: Final = re.compile(r"<group>\n.*?\n</group>", re.DOTALL)
_GROUP_TAG: Final = re.compile(r"<(?=/?group\b)", re.IGNORECASE)
_NO_GROUP_NOTE: Final = "<group>\nThe note for this group is gone; what it said no longer holds.\n</group>"
_TODAY: Final = re.compile(r"Today is (\w+, [-\d]+), (\d\d):(\d\d) (.+)\.")


@dataclass(frozen=True, slots=True)
class PromptNotes:
    """The information that a prompt's notes have stated. Without a full note, fields are None or empty."""

    facts: frozenset[str] | None = None
    skills: Mapping[str, str] | None = None
    today: str = ""
    """The line with the date and the time that was stated last."""
    channel: str = ""
    """The channel whose answer format was stated last."""
    environment: Environment = NOTHING_NOTED
    group: str = ""
    """The block with the group's note that was stated last; see `group_block`."""


def prompt_notes(entries: Sequence[HistoryEntry]) -> PromptNotes:
    """Return the information that the notes in this history have stated."""
    notes = _current(entries)
    if not notes:
        return PromptNotes()
    whole = [note.message.content for note in notes]
    texts = [without_instructions(text) for text in whole]
    lines = [line for text in texts for line in text.splitlines()]
    return PromptNotes(
        noted_facts(texts),
        noted_skills(texts),
        next((line for line in reversed(lines) if _TODAY.fullmatch(line)), ""),
        noted_channel(texts),
        noted_environment(whole),
        next((found[-1] for text in reversed(texts) if (found := _GROUP.findall(text))), ""),
    )


def group_block(noted: PromptNotes, note: str) -> str:
    """Return the block with the owner's `note` for a group; empty if the notes have stated it already."""
    block = f"<group>\nWhat the owner says of this group:\n{_GROUP_TAG.sub('‹', note.strip())}\n</group>"
    if not note.strip():
        block = _NO_GROUP_NOTE if noted.group else ""
    return "" if block == noted.group else block


def today_line(now: datetime, zone: str) -> str:
    """Return the line with the date and the time; `now` is the local time in the user's `zone`, if known."""
    place = f"in {zone}" if zone else f"{now:%Z}, and the user's time zone is unknown"
    return f"Today is {now:%A, %Y-%m-%d, %H:%M} {place}."


def written_line(written: datetime, now: datetime, zone: str) -> str:
    """Return the line that says when a message was written that has waited; both times are the user's."""
    day = "" if written.date() == now.date() else f" on {written:%A, %Y-%m-%d}"
    place = "" if zone else f" {written:%Z}"
    ago = _ago((now - written).total_seconds())
    return f"[This message was written at {written:%H:%M}{place}{day}, {ago} ago.]"


def _ago(seconds: float) -> str:
    for size, name in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return "1 minute"


def next_note(noted: PromptNotes, now: datetime, zone: str, *blocks: str) -> str:
    """Return the next note for a prompt whose earlier notes state `noted`; empty if nothing has changed.

    `now` is the user's local time in the time `zone`; without a zone, it is this machine's.
    """
    today = today_line(now, zone)
    parts = [*filter(None, blocks), *([] if _is_close(noted.today, today) else [today])]
    if not parts:
        return ""
    # Interned, because thousands of idle chats hold the same text: the date, and the list of skills.
    return intern("\n\n".join([WHOLE if noted.facts is None else CHANGE, *parts]))


def change_note(text: str) -> str:
    """Return a change note with this text, for a turn that has begun: prompts show it before the turn."""
    return f"{CHANGE}\n\n{text}"


def _is_close(noted: str, today: str) -> bool:
    """Return True if a line with date and time still tells them well enough."""
    earlier, later = _TODAY.fullmatch(noted), _TODAY.fullmatch(today)
    if earlier is None or later is None or earlier.group(1, 4) != later.group(1, 4):
        return False
    minutes = [60 * int(found[2]) + int(found[3]) for found in (earlier, later)]
    return abs(minutes[1] - minutes[0]) < CLOCK_MINUTES


def whole_note(entries: Sequence[HistoryEntry]) -> str:
    """Return the full note in this history, without its first line; empty if there is none."""
    current = _current(entries)
    return current[0].message.content.removeprefix(WHOLE).strip() if current else ""


def shown(entries: Sequence[HistoryEntry]) -> tuple[Message, ...]:
    """Return the messages that show this history in a prompt. The full note is left out.

    A change note precedes the messages of its turn. Change notes from before the full note are left out,
    because the full note includes their changes.
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
    """Return the history grouped by turn: a user's request, and the messages that followed from it."""
    grouped: list[list[HistoryEntry]] = []
    for entry in entries:
        if not grouped or grouped[-1][0].turn != entry.turn:
            grouped.append([])
        grouped[-1].append(entry)
    return grouped


def is_whole(entry: HistoryEntry) -> bool:
    """Return True if the entry is a full note."""
    return entry.message.role == "system" and entry.message.content.startswith(WHOLE)


def _current(entries: Sequence[HistoryEntry]) -> list[HistoryEntry]:
    """Return the last full note and the change notes after it; empty if there is no full note."""
    notes: list[HistoryEntry] = []
    for entry in reversed(entries):
        if _is_note(entry):
            notes.append(entry)
            if is_whole(entry):
                return notes[::-1]
    return []


def _is_note(entry: HistoryEntry) -> bool:
    return entry.message.role == "system" and entry.message.content.startswith((WHOLE, CHANGE))
