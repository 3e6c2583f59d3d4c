"""Where a chat is on Telegram: the id that the house uses, and what Telegram calls it."""

import re
from dataclasses import dataclass

_CHAT = re.compile(r"tg(-?[0-9]{1,20})(?:_([0-9]{1,20}))?")


@dataclass(frozen=True, slots=True)
class Address:
    """A chat's number, negative for groups, and the number of the topic where it has some."""

    number: int
    topic: int | None = None

    @property
    def chat(self) -> str:
        """The chat's id in the house: `tg123`, `tg-100777_5`."""
        return f"tg{self.number}" if self.topic is None else f"tg{self.number}_{self.topic}"

    @property
    def group(self) -> bool:
        """Whether it is a group: more than one person may read there."""
        return self.number < 0


def address_of(chat: str) -> Address | None:
    """The address of a chat of the house; None if it is none of Telegram's."""
    found = _CHAT.fullmatch(chat)
    if found is None:
        return None
    return Address(int(found[1]), int(found[2]) if found[2] else None)
