"""Steps that read what waits for a person's yes, in all chats and in all sessions of bots."""

from dataclasses import dataclass
from typing import Final

from rumi.platform.chat_ids import task_key
from rumi.store.journal.parked import buttons_in
from rumi.store.journal.records import Buttons, Parked
from rumi.store.journal.tasks import open_tasks
from rumi.store.steps import Transaction, step

MOST_CALLS: Final = 500
"""Maximum number of parked calls in one answer."""


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """A parked call that a message has asked about, and that has no answer yet.

    `chat` is the chat that was asked, and `owner` the owner of the bot's session that made the call. Both are
    those of the chat if no bot made it: then `bot` and `owner` are empty and `session` is 0.
    """

    chat: str
    parked: Parked
    owner: str = ""
    bot: str = ""
    session: int = 0


@dataclass(frozen=True, slots=True)
class BotMessage:
    """The last message of a bot's session that sleeps and has no answer yet; it may ask a question.

    `at` is the time of the message, in seconds since 1970.
    """

    chat: str
    owner: str
    bot: str
    session: int
    text: str
    buttons: Buttons
    at: float


@step(reads=True)
def waiting_calls(transaction: Transaction) -> tuple[WaitingCall, ...]:
    """Return the parked calls of all chats and of all open sessions of bots, oldest first."""
    rows = transaction.db.execute(
        "SELECT chat, number, call, question, schedule, made, offer FROM parked"
        " WHERE state = 'waits' AND asked ORDER BY made, chat, number LIMIT ?",
        (MOST_CALLS,),
    ).fetchall()
    tasks = {task_key(task.id): task for task in open_tasks.do(transaction)}
    found = list[WaitingCall]()
    for chat, number, call, text, schedule, made, offer in rows:
        parked = Parked(number, call, text, "waits", True, schedule, made, offer)
        task = tasks.get(chat)
        if task is not None:
            found.append(WaitingCall(task.partition_key, parked, task.owner, task.bot, task.id))
        elif not chat.startswith(task_key(0)[:-1]):  # of a session that has ended, nothing waits
            found.append(WaitingCall(chat, parked))
    return tuple(found)


@step(reads=True)
def bot_messages(transaction: Transaction) -> tuple[BotMessage, ...]:
    """Return the messages of bots that sleep until somebody answers, oldest first."""
    found = list[BotMessage]()
    for task in open_tasks.do(transaction):
        if not task.bot or task.state != "sleeping" or task.said:
            continue
        # Only a message of the last iteration: an earlier question has its answer, or was given up.
        row = transaction.db.execute(
            "SELECT text, buttons, received FROM messages WHERE chat = ?1 AND task = ?2 AND received >="
            " (SELECT coalesce(max(ended), 0) FROM iterations WHERE iterations.task = ?2)"
            " ORDER BY id DESC LIMIT 1",
            (task.chat, task.id),
        ).fetchone()
        if row is not None:
            text, buttons, at = row
            found.append(BotMessage(task.chat, task.owner, task.bot, task.id, text, buttons_in(buttons), at))
    return tuple(found)
