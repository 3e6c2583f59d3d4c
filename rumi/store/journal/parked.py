"""Requests that store calls which wait for a person's yes, and find what the buttons below replies say."""

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import get_args

from rumi.store.journal.records import Button, Buttons, Incoming, Parked, ParkedState
from rumi.store.journal.transaction import JournalRequest, OwnedWrite, clean, steps
from rumi.store.steps import Transaction

MOST_PARKED = 500
"""So many of a chat's last calls are known: far more than can wait."""

MOST_WITH_BUTTONS = 100
"""So many of a chat's last messages with buttons are looked at when a button is pressed."""


@dataclass(frozen=True, slots=True)
class LoadParked(JournalRequest[tuple[Parked, ...]]):
    """Return the calls of a chat, or of a task by its key, that needed a person's yes, oldest first."""

    chat: str


@steps.of(LoadParked)
def load_parked(request: LoadParked, transaction: Transaction) -> tuple[Parked, ...]:
    """Return a chat's or a task's calls, oldest first."""
    rows = transaction.db.execute(
        "SELECT number, call, question, state, asked FROM parked WHERE chat = ? ORDER BY number DESC LIMIT ?",
        (request.chat, MOST_PARKED),
    ).fetchall()
    return tuple(
        Parked(number, call, text, state, bool(asked))
        for number, call, text, state, asked in reversed(rows)
        if state in get_args(ParkedState)
    )


@dataclass(frozen=True, slots=True)
class KeepParked(OwnedWrite[None]):
    """Store parked calls that are new or have changed. New ones are of the `turn`."""

    chat: str
    parked: tuple[Parked, ...]
    turn: str = ""


@steps.of(KeepParked)
def keep_parked(request: KeepParked, transaction: Transaction) -> None:
    """Store calls that are new or have changed."""
    transaction.db.executemany(
        "INSERT INTO parked (chat, number, call, question, state, asked, turn) VALUES (?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (chat, number) DO UPDATE SET call = excluded.call, question = excluded.question,"
        " state = excluded.state, asked = excluded.asked",
        [
            (
                *(request.chat, parked_call.number, clean(parked_call.call), clean(parked_call.text)),
                *(parked_call.state, parked_call.asked, request.turn),
            )
            for parked_call in request.parked
        ],
    )


def note_asked(transaction: Transaction, chat: str, numbers: Collection[int]) -> None:
    """Note that a message which is stored in the same transaction asks for these calls."""
    transaction.db.executemany(
        "UPDATE parked SET asked = TRUE WHERE chat = ? AND number = ?", [(chat, number) for number in numbers]
    )


def forget_parked(transaction: Transaction, chat: str) -> None:
    """Forget a chat's calls. Only the last number stays: a late answer must not be for a later call."""
    transaction.db.execute(
        "DELETE FROM parked WHERE chat = ?1 AND number < (SELECT max(number) FROM parked WHERE chat = ?1)",
        (chat,),
    )
    transaction.db.execute(
        "UPDATE parked SET call = '', question = '', state = 'used', asked = TRUE WHERE chat = ?", (chat,)
    )


def in_words(message: Incoming, transaction: Transaction) -> Incoming:
    """Return the message that a press of one of the chat's buttons is: it says what the button says."""
    if not message.button:
        return message
    rows = transaction.db.execute(
        "SELECT buttons FROM messages WHERE chat = ? AND buttons != '[]' ORDER BY id DESC LIMIT ?",
        (message.chat, MOST_WITH_BUTTONS),
    )
    found = (button for (buttons,) in rows for button in buttons_in(buttons) if button.id == message.button)
    pressed = next(found, None)
    return message if pressed is None else replace(message, text=pressed.words, answer=None)


def buttons_in(text: str) -> Buttons:
    """Return the buttons of a JSON list; none of a damaged one."""
    try:
        return tuple(Button(*map(str, fields)) for fields in json.loads(text))
    except (ValueError, TypeError):
        return ()


def buttons_json(buttons: Buttons) -> str:
    """Return buttons as the JSON list that is stored."""
    return clean(json.dumps([[button.id, button.label, button.words] for button in buttons]))
