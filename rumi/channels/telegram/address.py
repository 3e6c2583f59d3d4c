"""The address of a chat: its id in Rumi, and its numbers on Telegram."""

import re
from dataclasses import dataclass

from rumi.channels import TELEGRAM

_CHAT = re.compile(TELEGRAM.text + r"(-?[0-9]{1,20})(?:_([0-9]{1,20}))?")


@dataclass(frozen=True, slots=True)
class Address:
    """A chat's number, negative for groups, and the number of the topic if it has one."""

    number: int
    topic: int | None = None

    @property
    def chat(self) -> str:
        """Return the chat's id in Rumi: `tg123`, `tg-100777_5`."""
        return f"{TELEGRAM.text}{self.number}" + ("" if self.topic is None else f"_{self.topic}")

    @property
    def group(self) -> bool:
        """Return True for a group: more than one person may read there."""
        return self.number < 0


def address_of(chat: str) -> Address | None:
    """Return the address of a chat's id; None if it is not a Telegram chat."""
    found = _CHAT.fullmatch(chat)
    if found is None:
        return None
    return Address(int(found[1]), int(found[2]) if found[2] else None)
