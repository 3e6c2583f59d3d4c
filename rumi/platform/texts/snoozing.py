"""Texts for people about putting off reminders."""

from rumi.platform.texts.schedules import fire_text
from rumi.texts import Language, gettext

_COMMAND = "/snooze"


def snooze_buttons(language: Language) -> tuple[tuple[str, str], ...]:
    """Return the buttons below a reminder, each as its label and the command that a press sends."""
    return (
        (gettext(language, "💤 10 min"), f"{_COMMAND} 10 min"),
        (gettext(language, "💤 1 h"), f"{_COMMAND} 1 h"),
        (gettext(language, "💤 Tomorrow"), f"{_COMMAND} tomorrow"),
    )


def snoozed(language: Language, text: str, id: int, when: str) -> str:
    """Return a reminder that was put off, and say when it comes again and how to cancel that."""
    again = gettext(language, "💤 Again: {when}. To cancel it: /schedules delete {id}", when=when, id=id)
    return f"{fire_text(language, text)}\n\n{again}"


def snoozed_already(language: Language, text: str, id: int, when: str) -> str:
    """Say that a reminder was put off before, and how to choose another time."""
    again = gettext(
        language,
        "💤 Put off already: {when}. For another time, first /schedules delete {id}",
        when=when,
        id=id,
    )
    return f"{fire_text(language, text)}\n\n{again}"


def came_again(language: Language, text: str) -> str:
    """Say that a reminder was put off before, and has come again since."""
    again = gettext(language, "💤 It was put off, and has come again since. Snooze that message.")
    return f"{fire_text(language, text)}\n\n{again}"


def snooze_usage(language: Language) -> str:
    """Say how to use `/snooze`."""
    return gettext(
        language,
        "/snooze puts off the last reminder of this chat: /snooze 10 min, /snooze 1 h, /snooze tomorrow, "
        "/snooze friday 18:30",
    )


def no_reminder(language: Language) -> str:
    """Say that there is no reminder to put off."""
    return gettext(
        language, "❌ There is no reminder here to put off. To set a new one: /remind in 20 minutes: TEXT"
    )
