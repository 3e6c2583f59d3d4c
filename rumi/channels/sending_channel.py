"""The base class of channels whose replies one actor sends: what the process asks of that actor."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from typing_extensions import override

from actors import ActorRef, ActorStopped, MailboxFull
from rumi.channels.channel import Channel
from rumi.channels.sending import DeliverFile, Flush, LeaveChats, LookFor, TakeChats

LEAVE_S: Final = 5.0
"""Maximum time for sending queued replies before another worker takes over their chats, in seconds."""


class SendingChannel(Channel):
    """A channel with a sender, which `add_sender` stores in `_sender`."""

    _sender: ActorRef[Any] | None = None

    async def _send_file(self, chat: str, name: str, content: bytes) -> None:
        assert self._sender is not None
        await self._sender.ask(DeliverFile(chat, name, content))

    @override
    async def take_over(self, numbers: frozenset[int]) -> None:
        assert self._sender is not None
        await self._sender.ask(TakeChats(numbers))

    @override
    async def hand_over(self, numbers: frozenset[int], patience_s: float) -> None:
        assert self._sender is not None
        await self._sender.ask(LeaveChats(numbers, LEAVE_S))

    @override
    def look(self, chats: Sequence[str]) -> None:
        """Send the undelivered replies of these chats; dropped if the sender's mailbox is full."""
        assert self._sender is not None
        with suppress(MailboxFull, ActorStopped):
            self._sender.tell_nowait(LookFor(tuple(chats)))

    @override
    async def flush(self) -> None:
        assert self._sender is not None
        await self._sender.ask(Flush())
