"""What every step of a transaction works on, and the register of steps: one function for each request."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Transaction:
    """The open database of one transaction, and the time."""

    db: sqlite3.Connection
    path: Path
    now: Callable[[], float]


@singledispatch
def do(request: object, transaction: Transaction) -> object:
    """Do what is asked, within the transaction that is open; its reply."""
    raise TypeError(f"the journal does not know {type(request).__name__}")


def clean(text: str) -> str:
    """The text without lone halves of surrogate pairs, which models write and no file takes.

    One such character must not be a write error: that would restart the journal, and with it every chat.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text
