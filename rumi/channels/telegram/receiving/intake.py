"""The intake: stores updates from the poller or the webhook, and starts the actions that they require."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, Protocol, TypeAlias

import trio

from rumi.channels.telegram.address import Moves
from rumi.channels.telegram.api.bot import Me
from rumi.channels.telegram.messages import Say
from rumi.channels.telegram.receiving.comments import Comments
from rumi.channels.telegram.receiving.presses import Presses, read_presses
from rumi.channels.telegram.receiving.reading import Stranger, Who, read_batch
from rumi.channels.telegram.receiving.strangers import Strangers
from rumi.channels.telegram.receiving.updates import RawUpdate, groups_of, moves_in, number_of, update_of
from rumi.errors import NotTaken
from rumi.platform.texts import storage as storage_texts
from rumi.store.journal.records import Incoming

Start: TypeAlias = Callable[[Callable[[], Awaitable[None]]], object]
"""Starts a task in the actor that receives the updates."""


ALBUM_QUIET_S: Final = 0.5
"""Seconds without a new part after which an album whose messages are delivered separately is complete."""


class Accepts(Protocol):
    """Stores messages; implemented by `rumi.chats.Inbox`."""

    async def accept_all(self, messages: Sequence[Incoming]) -> list[bool]:
        """Store all messages, or raise. Return one flag per message: True if the message is new."""
        ...

    async def join_albums(self, quiet_s: float) -> float | None:
        """Pass on the albums that have had no new part for `quiet_s` seconds.

        Return the number of seconds until the next album may be complete; None if no album parts are left.
        """
        ...


class Intake:
    """Stores each update once, and starts the resulting actions. Outlives restarts of the poller or webhook.

    `hears` is True if voice messages can be transcribed. `know_moves`, if set, reads the moves (new numbers
    of groups) that other workers stored; its argument contains the groups whose messages are interpreted
    next. `say` sends a text to a chat if the text can be sent at once. `last` is the time on trio's clock at
    which updates were last stored. `counts` counts updates.
    """

    def __init__(
        self,
        inbox: Accepts,
        strangers: Strangers,
        presses: Presses,
        who: Who,
        *,
        moves: Moves,
        hears: bool,
        know_moves: Callable[[frozenset[int]], Awaitable[None]] | None = None,
        say: Callable[[Say], object] = lambda words: None,
    ) -> None:
        self.who = who
        self.last: float | None = None
        self.counts = {"stored": 0, "repeated": 0, "refused": 0}
        self._inbox = inbox
        self._strangers = strangers
        self._presses = presses
        self._moves = moves
        self._hears = hears
        self._know_moves = know_moves
        self._say = say
        self._comments = Comments()
        self._notified: set[str] = set()  # chats that know that their messages wait at Telegram

    async def take(self, updates: Sequence[RawUpdate], me: Me, start: Start, *, apart: bool = False) -> bool:
        """Store updates in one transaction. Return True if at least one update is new.

        The source may confirm the updates only after this call. `apart` is True if the messages of an album
        arrive one by one; in this case, call `join_albums` later.

        Raises:
            NotTaken: Nothing can be stored now. The senders got a notice.
            RumiError: Nothing was stored, so the same updates will arrive again.
        """
        if self._know_moves is not None and (groups := groups_of(updates)):
            await self._know_moves(groups)
        moves = moves_in(updates)
        for move in moves.values():  # before reading any message: a batch may have them in any order
            self._moves.note_move(*move)
        self._comments.now = trio.current_time()
        read = read_batch(
            updates, me, self.who, self._moves, hears=self._hears, apart=apart, comments=self._comments
        )
        moved = {
            number: (self._moves.chat_of(old), self._moves.chat_of(new))
            for number, (old, new) in moves.items()
        }
        numbers = list(dict.fromkeys(number_of(update) for update in updates))
        messages = [
            replace(
                Incoming(update_of(number, self._moves.bot)) if isinstance(one, Stranger) else one,
                moved=moved.get(number),
            )
            for number, one in zip(numbers, read, strict=True)
        ]
        # After `note_move` too, so that presses in a moved group belong to its chat.
        presses = read_presses(updates, self.who, self._moves.here)
        raw = {number_of(update): update for update in updates}
        try:
            new = await self._inbox.accept_all(messages)
        except NotTaken as error:
            self.counts["refused"] += len(numbers)
            for message in messages:
                self._notify_not_taken(message, error)
            raise
        for number, one, is_new in zip(numbers, read, new, strict=True):
            # Only new updates have effects: a repeated one was handled when it was stored.
            if is_new and number in presses:
                self._presses.take(presses[number], start)
            elif is_new and not self._presses.react(raw[number], one, self.who) and isinstance(one, Stranger):
                self._strangers.meet(one)
        # Storing works again, so a later failure needs a new notice.
        self._notified.clear()
        self.counts["stored"] += sum(new)
        self.counts["repeated"] += len(new) - sum(new)
        self.last = trio.current_time()
        return any(new)

    async def join_albums(self) -> float | None:
        """Pass on complete albums.

        Return the number of seconds until the next album may be complete; None if no album is left.

        Raises:
            ActorError: Nothing can be stored; try again.
        """
        return await self._inbox.join_albums(ALBUM_QUIET_S)

    def _notify_not_taken(self, message: Incoming, error: NotTaken) -> None:
        """Tell the users of a chat, once, that Telegram keeps their message until Rumi can store it."""
        if message.chat and message.chat not in self._notified:
            self._notified.add(message.chat)
            words = storage_texts.kept_at_telegram(message.language or self.who.default, error.trouble)
            self._say(Say(message.chat, words, message.origin or None))
