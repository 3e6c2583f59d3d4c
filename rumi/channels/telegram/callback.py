"""The data of buttons: random names without other meaning. Those of a question have a letter behind it."""

import re
from typing import Final

_ANSWER: Final = re.compile(r"([0-9a-f]{16}):([yn])")
_BUTTON: Final = re.compile(r"[0-9a-f]{16}")


def data_of(question: str, yes: bool) -> str:
    """Return the data that Telegram sends back when this button is pressed: 18 of the 64 allowed bytes."""
    return f"{question}:{'y' if yes else 'n'}"


def answer_in(data: str) -> tuple[str, bool] | None:
    """Return the answered question, and True for yes; None for data that no such button carries."""
    found = _ANSWER.fullmatch(data)
    return None if found is None else (found[1], found[2] == "y")


def button_in(data: str) -> str:
    """Return the id of a button below a reply; empty for data that no such button carries."""
    return data if _BUTTON.fullmatch(data) else ""
