"""Texts of the mail channel: what its people read in mails, and what operators read about it."""

from rumi.texts import Language, gettext


def unknown_outcome(language: Language, count: int) -> str:
    """Say in a reply that nobody knows whether earlier mails have arrived."""
    if count == 1:
        return gettext(
            language,
            "⚠️ I don't know if my mail before this one has reached you: the connection broke while I sent "
            "it. I have not sent it again.",
        )
    return gettext(
        language,
        "⚠️ I don't know if my {count} mails before this one have reached you: the connection broke while I "
        "sent them. I have not sent them again.",
        count=count,
    )


def how_to_answer(language: Language) -> str:
    """Say below a reply with questions how a mail answers them."""
    return gettext(
        language,
        "To answer all of it, reply to this mail, with yes or no alone on the first line. It counts for this "
        "mail only, once, and for {days} days.",
        days=ANSWER_DAYS,
    )


def too_late(language: Language) -> str:
    """Say that a yes or a no came too late."""
    return gettext(
        language,
        "The mail that you answer is older than {days} days, so your answer did not count. I did nothing.",
        days=ANSWER_DAYS,
    )


def no_words(language: Language) -> str:
    """Say that a mail has nothing that can be answered."""
    return gettext(language, "I found no text of yours in your mail. Please write it above what you quote.")


def file_sent(language: Language, name: str) -> str:
    """Return the text of a mail that brings a file."""
    return gettext(language, "Here is {name}.", name=name)


UNKNOWN = "the connection broke while the mail was sent, so nobody knows if it arrived"
"""Stored as the failure of a reply, for operators."""

ANSWER_DAYS = 7
"""For how many days a mail with a question can be answered."""


def serving(language: Language, address: str, people: int) -> str:
    """Say at the start that mails are read."""
    if not people:
        return gettext(
            language,
            "Mail: {address}. Nobody may write to it yet. Put mail addresses into config.toml: "
            '[people.NAME] mail = ["…"]',
            address=address,
        )
    return gettext(language, "Mail: write to {address}. People: {people}.", address=address, people=people)
