"""Callback data of inline buttons: a random id, followed by `:y` or `:n` for the answer to a question."""

import re
from typing import Final

_ANSWER: Final = re.compile(r"([0-9a-f]{16}):([yn])")
_BUTTON: Final = re.compile(r"[0-9a-f]{16}")


def data_of(question: str, yes: bool) -> str:
    """Return the callback data of a question's button. The data has 18 bytes; Telegram allows 64."""
    return f"{question}:{'y' if yes else 'n'}"


def answer_in(data: str) -> tuple[str, bool] | None:
    """Return the question's id and True for yes; None if `data` does not belong to a question's button."""
    found = _ANSWER.fullmatch(data)
    return None if found is None else (found[1], found[2] == "y")


def button_in(data: str) -> str:
    """Return the id of a button below a reply; empty if `data` does not belong to a reply's button."""
    return data if _BUTTON.fullmatch(data) else ""
