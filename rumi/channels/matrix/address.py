"""Ids of chats: made from the account's name, the room, the thread, and in a direct room its one person."""

import hashlib
from base64 import b32encode
from dataclasses import dataclass
from typing import Final

from rumi.platform.chat_ids import MATRIX, matrix_number

_CHARS: Final = 16
"""Length of the part that stands for a room or a thread: 80 bits of a digest."""


@dataclass(frozen=True, slots=True)
class MatrixAccount:
    """An account: its `name` in the configuration, and its user id at the homeserver."""

    name: str
    user: str

    @property
    def prefix(self) -> str:
        """Return what the ids of the account's chats begin with."""
        return f"{MATRIX.text}{self.name}-"

    def owns(self, chat: str) -> bool:
        """Return True if a chat belongs to the account."""
        return chat.startswith(self.prefix)

    def private(self, user: str, room: str, thread: str = "") -> str:
        """Return the chat of a direct room, or of a thread in one. Its owner is the person."""
        return f"{self.prefix}{matrix_number(user)}_{_short(f'{room} {thread}' if thread else room)}"

    def is_private(self, chat: str) -> bool:
        """Return True if a chat of the account belongs to a person."""
        return not chat.startswith(f"{self.prefix}{MATRIX.groups}")

    def may_answer(self, chat: str, user: int) -> bool:
        """Return True if a user can answer what a chat asks: in a direct room, only its person can."""
        return not self.is_private(chat) or chat.startswith(f"{self.prefix}{user}_")

    def group(self, room: str, thread: str = "") -> str:
        """Return the chat of a room of several people, or of a thread in one. Its owner is the room."""
        own = f"{self.prefix}{MATRIX.groups}{_short(room)}"
        return f"{own}_{_short(thread)}" if thread else own


def _short(name: str) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "replace")).digest()
    return b32encode(digest).decode()[:_CHARS].lower()
