"""Addresses of Telegram chats: the chat's id in Rumi, its number on Telegram, its topic, and its bot."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from rumi.platform.chat_ids import BOT_NAME, TELEGRAM
from rumi.store.journal.inbox import MOST_MOVED

_CHAT = re.compile(rf"{TELEGRAM.text}(?:({BOT_NAME.pattern})-)?(-?[0-9]{{1,20}})(?:_([0-9]{{1,20}}))?")


@dataclass(frozen=True, slots=True)
class TelegramAddress:
    """A chat's address: its Telegram number (negative for groups), its topic if any, and its bot's name.

    The first bot, configured in `[telegram]`, has no name.
    """

    number: int
    topic: int | None = None
    bot: str = ""

    @property
    def chat(self) -> str:
        """Return the chat's id in Rumi: "tg123", "tg-100777_5", or "tgwork-123" for the bot named "work"."""
        bot = f"{self.bot}-" if self.bot else ""
        return f"{TELEGRAM.text}{bot}{self.number}" + ("" if self.topic is None else f"_{self.topic}")

    @property
    def group(self) -> bool:
        """Return True for a group, where more than one person may read the messages."""
        return self.number < 0


def address_of(chat: str) -> TelegramAddress | None:
    """Return the address that a chat id encodes; None if the id does not belong to a Telegram chat."""
    found = _CHAT.fullmatch(chat)
    if found is None:
        return None
    return TelegramAddress(int(found[2]), int(found[3]) if found[3] else None, found[1] or "")


class Moves:
    """The known moves of one bot's groups. A move is a change of a group's Telegram number.

    Moves are stored in the journal. The object outlives restarts of the sender and the poller. `bot` is the
    bot's name, empty for the first bot. `works` returns True if a chat has running work. `on_move` is called
    for each new move with two numbers: the number in the chat's id, and the group's new number.
    """

    def __init__(self, bot: str = "") -> None:
        self.bot = bot
        self.works: Callable[[str], bool] = lambda chat: False
        self.on_move: Callable[[int, int], object] = lambda old, new: None
        self._now: dict[int, int] = {}
        self._chat: dict[int, int] = {}

    def load(self, moves: Iterable[tuple[str, str]]) -> None:
        """Load the stored moves, oldest first. Each move is a pair of chat ids: old and new."""
        # Without `on_move`, because these moves are stored already.
        for old, new in ((self.address_of(old), self.address_of(new)) for old, new in moves):
            if old is not None and new is not None:
                self._now[old.number], self._chat[new.number] = new.number, old.number

    def address_of(self, chat: str) -> TelegramAddress | None:
        """Return the address that a chat id encodes; None if the chat does not belong to this bot."""
        address = address_of(chat)
        return None if address is None or address.bot != self.bot else address

    def chat_of(self, number: int) -> str:
        """Return the id of this bot's chat with the given Telegram number."""
        return TelegramAddress(number, bot=self.bot).chat

    def now(self, number: int) -> int:
        """Return the current Telegram number of the chat that once had the given number."""
        return self._now.get(number, number)

    def names_of(self, address: TelegramAddress) -> tuple[str, ...]:
        """Return the chat ids under which people may know this address, oldest first.

        There are several if the group has got another number.
        """
        first = self._chat.get(address.number, address.number)
        numbers = dict.fromkeys((first, address.number, self.now(first)))
        return tuple(replace(address, number=number, bot=self.bot).chat for number in numbers)

    def here(self, address: TelegramAddress) -> TelegramAddress:
        """Map a Telegram address to the address of the chat that handles its messages.

        A chat may have been created under the new number before the move was known. While that newer chat has
        running work, it gets the messages: a `/stop` sent to it must stop the turn that the user sees.
        """
        address = replace(address, bot=self.bot)
        number = self._chat.get(address.number, address.number)
        if number == address.number or self.works(address.chat):
            return address
        return replace(address, number=number)

    def note_move(self, old: int, new: int) -> None:
        """Record a group's new number.

        Messages from the new number belong to the group's old chat, and replies go to the new number.
        """
        old = self._chat.get(old, old)
        # The first number names the chat forever, also if `old` is itself a later number of that chat.
        if old != new and new not in self._chat and len(self._chat) < MOST_MOVED:
            self._chat[new] = old
            self.refused(old, new)

    def refused(self, old: int, new: int) -> None:
        """Record that Telegram refused the old number, so that replies go to the new number."""
        old = self._chat.get(old, old)
        if old != new and self._now.get(old) != new:
            self._now[old] = new
            self.on_move(old, new)
