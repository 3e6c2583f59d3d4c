"""What the journal's tests have it accept."""

from rumi.store.journal.inbox import accept_messages
from rumi.store.journal.records import Attachment, Incoming, Update
from rumi.store.journal.store import Store
from rumi.store.journal.transaction import JournalMessage


def accept(chat: str, text: str, *attachments: Attachment) -> JournalMessage:
    """Store one message, from no source that repeats itself."""
    return accept_messages((Incoming(chat=chat, text=text, attachments=attachments),))


def tg(number: int) -> Update:
    """Return an update of Telegram."""
    return Update("telegram", number)


def do(store: Store, *requests: object) -> object:
    """Do the requests in one transaction; return what the last one answers."""
    return store.run(list(requests))[-1]  # type: ignore[arg-type]
