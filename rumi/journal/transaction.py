"""What the steps of all the journal's requests share: their register, and the texts that a file takes."""

from rumi.steps import Steps

steps = Steps()
"""The functions of `inbox`, `outbox`, `history`, `reading`, `lessons`, `tasks`, `spending`, `forgetting`."""


def clean(text: str) -> str:
    """Return the text without lone halves of surrogate pairs, which models write and SQLite refuses.

    One such character must not be a write error: that would restart the journal, and with it every chat.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text
