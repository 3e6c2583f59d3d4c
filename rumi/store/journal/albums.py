"""Parts of albums: messages that arrive separately and are stored until they are joined into one message."""

import json
from dataclasses import asdict

from rumi.store.journal.records import Attachment, Incoming, Update
from rumi.store.journal.transaction import clean
from rumi.store.steps import Transaction

FIELDS = (
    *("chat", "text", "language", "admin", "origin", "answer", "user", "channel", "album", "addressed"),
    *("sent", "author"),
)


def insert_part(message: Incoming, transaction: Transaction) -> None:
    """Store one part of an album until the album is complete."""
    part = {name: getattr(message, name) for name in FIELDS}
    part["attachments"] = [asdict(one) for one in message.attachments]
    part["update"] = None if message.update is None else asdict(message.update)
    transaction.db.execute(
        "INSERT INTO album_parts (chat, album, part, came) VALUES (?, ?, ?, ?)",
        (message.chat, message.album, clean(json.dumps(part)), transaction.now()),
    )
    transaction.touched.add(message.chat)


def part_of(text: str) -> Incoming | None:
    """Load a stored part; return None if the stored text is damaged."""
    try:
        part = json.loads(text)
        update, attachments = part.pop("update"), part.pop("attachments")
        return Incoming(
            **part,
            update=None if update is None else Update(**update),
            attachments=tuple(Attachment(**one) for one in attachments),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
