"""What a question's buttons carry: its random name and a letter, and nothing that means anything."""

import re
from typing import Final

_DATA: Final = re.compile(r"([0-9a-f]{16}):([yn])")


def data_of(question: str, yes: bool) -> str:
    """What Telegram sends back when this button is pressed: 18 of the 64 bytes that it takes."""
    return f"{question}:{'y' if yes else 'n'}"


def answer_in(data: str) -> tuple[str, bool] | None:
    """The question that is answered, and whether with yes; None for what none of our buttons carries."""
    found = _DATA.fullmatch(data)
    return None if found is None else (found[1], found[2] == "y")
