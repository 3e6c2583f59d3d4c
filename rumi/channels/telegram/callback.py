"""The data of a question's buttons: its random name and a letter, without other meaning."""

import re
from typing import Final

_DATA: Final = re.compile(r"([0-9a-f]{16}):([yn])")


def data_of(question: str, yes: bool) -> str:
    """Return the data that Telegram sends back when this button is pressed: 18 of the 64 allowed bytes."""
    return f"{question}:{'y' if yes else 'n'}"


def answer_in(data: str) -> tuple[str, bool] | None:
    """Return the answered question, and True for yes; None for data that no button of ours carries."""
    found = _DATA.fullmatch(data)
    return None if found is None else (found[1], found[2] == "y")
