"""The data of buttons. Those of a question have its random name and a letter, without other meaning; others
have the command that a press of them says.
"""

import re
from typing import Final

MOST_BYTES: Final = 64

_DATA: Final = re.compile(r"([0-9a-f]{16}):([yn])")


def data_of(question: str, yes: bool) -> str:
    """Return the data that Telegram sends back when this button is pressed: 18 of the 64 allowed bytes."""
    return f"{question}:{'y' if yes else 'n'}"


def fits(words: str) -> bool:
    """Return True if a button may say this command: Telegram allows 64 bytes."""
    return words.startswith("/") and len(words.encode()) <= MOST_BYTES


def words_in(data: str) -> str:
    """Return the command that a press says; empty for the button of a question."""
    return data if fits(data) else ""


def answer_in(data: str) -> tuple[str, bool] | None:
    """Return the answered question, and True for yes; None for data that no button of ours carries."""
    found = _DATA.fullmatch(data)
    return None if found is None else (found[1], found[2] == "y")
