"""What a window and its holder share: others' words as JSON, and the refusal of another version."""

from collections.abc import Sequence

from rumi.store.journal.records import Attachment

MOST_WORDS = 10
"""How many of others' words one message may hand on; the chat bounds their length."""


def words_to_json(attachments: Sequence[Attachment]) -> list[dict[str, object]]:
    """Return others' words as JSON."""
    return [
        {"source": attachment.source, "text": attachment.text, "cut": attachment.cut}
        for attachment in attachments
    ]


def words_from_json(data: object) -> tuple[Attachment, ...]:
    """Return the words.

    Raises:
        KeyError, TypeError, ValueError: they are not what this version knows.
    """
    if not isinstance(data, list) or len(data) > MOST_WORDS:
        raise ValueError("not a short list")
    return tuple(
        Attachment(
            "words",
            source=str(attachment["source"]),
            text=str(attachment["text"]),
            cut=bool(attachment["cut"]),
        )
        for attachment in data
    )
