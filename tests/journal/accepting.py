"""What the journal's tests have it accept."""

from rumi.journal import Accept, Attachment, Incoming, Update


def accept(chat: str, text: str, *attachments: Attachment) -> Accept:
    """Store one message, from no source that repeats itself."""
    return Accept((Incoming(chat=chat, text=text, attachments=attachments),))


def tg(number: int) -> Update:
    """Return an update of Telegram."""
    return Update("telegram", number)
