"""What a person chooses from in a picker, and which entries a filter finds."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Choice:
    """An entry of a picker. `current` marks the value in use; `detail` is shown dim after the label.

    The label and the detail may be untrusted: they are cleaned before they are shown.
    """

    label: str
    value: str
    detail: str = ""
    current: bool = False


Pick: TypeAlias = Callable[[str, Sequence[Choice]], Awaitable[str | None]]
"""Lets the person choose, under a title; returns the value of the choice, or None if they choose nothing."""


def matches(typed: str, texts: Sequence[str]) -> list[int]:
    """Return the places of the texts that match, in order; those with the same letters further apart last.

    A text matches if it has each word that was typed, or all typed letters in their order. Both have to be in
    one case (`casefold`).
    """
    words = typed.split()
    if not words:
        return list(range(len(texts)))
    whole, loose = [], []
    letters = "".join(words)
    for place, text in enumerate(texts):
        if all(word in text for word in words):
            whole.append(place)
        elif _has_in_order(letters, text):
            loose.append(place)
    return whole + loose


def _has_in_order(letters: str, text: str) -> bool:
    at = -1
    return all((at := text.find(letter, at + 1)) >= 0 for letter in letters)
