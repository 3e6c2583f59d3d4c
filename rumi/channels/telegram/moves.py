"""Groups that became supergroups get another number on Telegram, and stay the same chat in Rumi."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from rumi.channels.telegram.address import TelegramAddress, address_of
from rumi.store.journal.inbox import MOST_MOVED


class Moves:
    """The known moves of a bot's groups, as in the journal, and which chats are the bot's.

    It outlives the incarnations of the sender and the poller. `bot` is the bot's name, empty for the first.
    `works` returns True if a chat has running work; `on_move` gets each new move: the number that names the
    chat, and the new one.
    """

    def __init__(self, bot: str = "") -> None:
        self.bot = bot
        self.works: Callable[[str], bool] = lambda chat: False
        self.on_move: Callable[[int, int], object] = lambda old, new: None
        self._now: dict[int, int] = {}
        self._chat: dict[int, int] = {}

    def load(self, moves: Iterable[tuple[str, str]]) -> None:
        """Load the moves that the journal knows, as chat ids, oldest first."""
        for old, new in ((self.address_of(old), self.address_of(new)) for old, new in moves):
            if old is not None and new is not None:
                self._now[old.number], self._chat[new.number] = new.number, old.number

    def address_of(self, chat: str) -> TelegramAddress | None:
        """Return the address of a chat's id; None if it is not a chat of this bot."""
        address = address_of(chat)
        return None if address is None or address.bot != self.bot else address

    def chat_of(self, number: int) -> str:
        """Return the id of the chat that this number is with the bot."""
        return TelegramAddress(number, bot=self.bot).chat

    def now(self, number: int) -> int:
        """Return the current Telegram number of the chat with that number."""
        return self._now.get(number, number)

    def here(self, address: TelegramAddress) -> TelegramAddress:
        """Return the chat with this bot that a message from there belongs to.

        A chat that began under the new number before the move was known keeps its messages until it has
        replied to them, because a `/stop` is for the turn that its user sees.
        """
        address = replace(address, bot=self.bot)
        number = self._chat.get(address.number, address.number)
        if number == address.number or self.works(address.chat):
            return address
        return replace(address, number=number)

    def note_move(self, old: int, new: int) -> None:
        """Note that a group has another number: its messages belong to the chat, and replies go there."""
        old = self._chat.get(old, old)
        if old != new and new not in self._chat and len(self._chat) < MOST_MOVED:
            self._chat[new] = old
            self.refused(old, new)

    def refused(self, old: int, new: int) -> None:
        """Note that Telegram refuses the old number: replies go to the new one."""
        old = self._chat.get(old, old)
        if old != new and self._now.get(old) != new:
            self._now[old] = new
            self.on_move(old, new)
