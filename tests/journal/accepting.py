"""What the journal's tests have it accept."""

from rumi.journal import Accept, Enclosure, Incoming, Update


def accept(chat: str, text: str, *enclosures: Enclosure) -> Accept:
    """Store one message, from no source that repeats itself."""
    return Accept((Incoming(chat=chat, text=text, enclosures=enclosures),))


def tg(number: int) -> Update:
    """Return an update of Telegram."""
    return Update("telegram", number)
