"""Steps about reminders that have fired, so that people can put them off."""

from dataclasses import dataclass, replace

from rumi.store.journal.parked import buttons_in, buttons_json
from rumi.store.journal.records import Incoming
from rumi.store.steps import Transaction, step


@dataclass(frozen=True, slots=True)
class FiredReminder:
    """A reminder that has fired: the number of its `message`, and of its schedule.

    `at` is the time that it was for, in seconds since 1970. `snoozed` is the number of the schedule that was
    made when a person put the reminder off; 0 if nobody has. `alone` is False if its message also asks for
    something else: then it has further buttons, which must stay.
    """

    message: int
    schedule: int
    at: float
    snoozed: int = 0
    alone: bool = True

    @property
    def key(self) -> int:
        """The value of `schedules.message` for the schedule that puts this reminder off.

        The column is unique, so a reminder is put off once, however often its buttons are pressed. Numbers
        of commands are positive.
        """
        return -self.message


def number_buttons(transaction: Transaction, message: Incoming) -> Incoming:
    """Append the number of a stored message to the commands of its buttons: they are about this message."""
    if not message.buttons:
        return message
    buttons = tuple(replace(button, words=f"{button.words} #{message.id}") for button in message.buttons)
    transaction.db.execute(
        "UPDATE messages SET buttons = ? WHERE id = ?", (buttons_json(buttons), message.id)
    )
    return replace(message, buttons=buttons)


@step(reads=True)
def find_reminder(transaction: Transaction, chat: str, message: int = 0) -> FiredReminder | None:
    """Return the reminder of a chat that fired with a message; without a `message`, the last one.

    Return None if there is none, or if its schedule was deleted.
    """
    row = transaction.db.execute(
        "SELECT fires.message, fires.schedule, CASE WHEN fires.instant > 0 THEN fires.instant ELSE at END,"
        " (SELECT id FROM schedules AS again WHERE again.message = -fires.message),"
        " (SELECT buttons FROM messages WHERE messages.id = fires.message)"
        " FROM fires JOIN schedules ON schedules.id = fires.schedule"
        " WHERE schedules.chat = ?1 AND kind = 'text' AND fires.message > 0"
        " AND (?2 = 0 OR fires.message = ?2) ORDER BY fires.message DESC LIMIT 1",
        (chat, message),
    ).fetchone()
    if row is None:
        return None
    number, schedule, at, again, buttons = row
    # Those of a question of the reply were added to the reminder's own, which name its message.
    alone = all(button.words.endswith(f" #{number}") for button in buttons_in(buttons or "[]"))
    return FiredReminder(int(number), int(schedule), float(at), int(again or 0), alone)
