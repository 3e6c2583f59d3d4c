"""Steps for parked calls (tool calls that wait for a person's approval) and for pressed buttons."""

import json
from collections.abc import Collection
from dataclasses import replace
from typing import get_args

from rumi.store.journal.records import Button, Buttons, Incoming, Parked, ParkedState
from rumi.store.journal.scopes import of_chat
from rumi.store.journal.transaction import clean
from rumi.store.steps import Transaction, step

MOST_PARKED = 500
"""Maximum number of a chat's latest parked calls that are loaded: far more than can wait for approval."""

MOST_WITH_BUTTONS = 100
"""Maximum number of a chat's latest messages with buttons that are searched for a pressed button."""


@step()
def load_parked(transaction: Transaction, chat: str) -> tuple[Parked, ...]:
    """Return the parked calls of a chat, or those of the task with this key, oldest first."""
    rows = transaction.db.execute(
        "SELECT number, call, question, state, asked, schedule, made, offer FROM parked WHERE chat = ?"
        " ORDER BY number DESC LIMIT ?",
        (chat, MOST_PARKED),
    ).fetchall()
    return tuple(
        Parked(number, call, text, state, bool(asked), schedule, made, offer)
        for number, call, text, state, asked, schedule, made, offer in reversed(rows)
        if state in get_args(ParkedState)
    )


@step(of_chat, owned=True)
def keep_parked(transaction: Transaction, chat: str, parked: tuple[Parked, ...], turn: str = "") -> None:
    """Store parked calls that are new or have changed. New ones are assigned to `turn`."""
    transaction.db.executemany(
        "INSERT INTO parked (chat, number, call, question, state, asked, turn, schedule, made, offer)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (chat, number) DO UPDATE SET call = excluded.call, question = excluded.question,"
        " state = excluded.state, asked = excluded.asked",
        [
            (
                *(chat, parked_call.number, clean(parked_call.call), clean(parked_call.text)),
                *(parked_call.state, parked_call.asked, turn, parked_call.schedule, parked_call.at),
                clean(parked_call.offer),
            )
            for parked_call in parked
        ],
    )


def note_asked(transaction: Transaction, chat: str, numbers: Collection[int]) -> None:
    """Record that a message stored in the same transaction asks about these parked calls."""
    transaction.db.executemany(
        "UPDATE parked SET asked = TRUE WHERE chat = ? AND number = ?", [(chat, number) for number in numbers]
    )


def forget_parked(transaction: Transaction, chat: str) -> None:
    """Delete a chat's parked calls. The last one is retained without its content."""
    # Numbers continue from the last row: a late answer to a deleted call must not approve a later one.
    transaction.db.execute(
        "DELETE FROM parked WHERE chat = ?1 AND number < (SELECT max(number) FROM parked WHERE chat = ?1)",
        (chat,),
    )
    transaction.db.execute(
        "UPDATE parked SET call = '', question = '', offer = '', state = 'used', asked = TRUE WHERE chat = ?",
        (chat,),
    )


def in_words(message: Incoming, transaction: Transaction) -> Incoming:
    """Return the message that a button press stands for; return any other message unchanged."""
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
    """Load buttons from a JSON list; if the text is damaged, return none."""
    try:
        return tuple(Button(*map(str, fields)) for fields in json.loads(text))
    except (ValueError, TypeError):
        return ()


def buttons_json(buttons: Buttons) -> str:
    """Convert buttons to a JSON list for the database."""
    return clean(json.dumps([[button.id, button.label, button.words] for button in buttons]))
