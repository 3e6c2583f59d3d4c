"""What the journal's tests have it accept."""

from rumi.journal import Accept, Enclosure, Incoming


def accept(chat: str, text: str, *enclosures: Enclosure) -> Accept:
    """Store one message, from no source that repeats itself."""
    return Accept((Incoming(chat=chat, text=text, enclosures=enclosures),))
