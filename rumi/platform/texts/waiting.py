"""Texts about messages that wait for their turn, and about edits of messages."""

from collections.abc import Sequence

from rumi.platform.texts.replies import shortened
from rumi.texts import Language, gettext, ngettext

MOST_NAMED = 3
"""Maximum number of waiting messages that the reply to a `/stop` quotes."""


def comes_next(language: Language, texts: Sequence[str]) -> str:
    """Say, in the reply to a `/stop`, which messages wait; `texts` are their texts."""
    named = [f"“{shortened(text)}”" for text in texts[:MOST_NAMED]]
    more = ["…"] if len(texts) > MOST_NAMED else []
    return ngettext(
        language,
        "{count} message waits and comes next: {texts}. `/stop all` drops it.",
        "{count} messages wait and come next: {texts}. `/stop all` drops them.",
        len(texts),
        texts=", ".join((*named, *more)),
    )


def waiting_list(language: Language, texts: Sequence[str]) -> str:
    """Return the numbered list of the messages that wait."""
    if not texts:
        return gettext(language, "Nothing waits.")
    first = ngettext(language, "{count} message waits:", "{count} messages wait:", len(texts))
    lines = (f"{number}. {shortened(text)}" for number, text in enumerate(texts, 1))
    last = gettext(language, "`/queue drop 1` drops the first, `/queue drop all` drops all.")
    return "\n".join((first, "", *lines, "", last))


def dropped_one(language: Language, text: str) -> str:
    """Say which waiting message was dropped."""
    return gettext(language, "🗑 Dropped: “{text}”.", text=shortened(text))


def not_waiting(language: Language, number: str) -> str:
    """Say that no message with this number waits."""
    return gettext(
        language, "❌ No message {number} waits. /queue lists what waits, with numbers.", number=number
    )


def not_yours_to_drop(language: Language) -> str:
    """Say that the waiting message is another person's."""
    return gettext(language, "❌ Somebody else wrote that message: only they or an admin can drop it.")


def steers(language: Language) -> str:
    """Say that the running turn reads the message at its next step."""
    return gettext(
        language, "↪ I read it at my next step. If I am done before, it comes next; /queue drops it."
    )


def just_ended(language: Language) -> str:
    """Say that a `/stop` came when the turn had already ended."""
    return gettext(language, "The turn has just ended.")


def too_late(language: Language) -> str:
    """Say that an edit has no effect."""
    return gettext(
        language,
        "✏️ The edit came too late: the message is already being worked on, or answered. Send what you mean "
        "as a new message.",
    )
