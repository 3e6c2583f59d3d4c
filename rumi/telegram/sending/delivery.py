"""One final reply on its way: in parts, whole, and no part twice as far as that can be known."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random

import trio
from telegram.error import ChatMigrated, InvalidToken, RetryAfter, TelegramError

from actors import ActorError, ActorRef
from rumi.grace import with_grace
from rumi.journal import Delivered, PartSent, Previewed, StoredReply
from rumi.telegram.api.bot import in_words, wait_of
from rumi.telegram.api.refusals import Refusal, refusal_of
from rumi.telegram.formatting import NOTHING, Part, format_reply
from rumi.telegram.formatting.plain import cut
from rumi.telegram.formatting.units import LIMIT_UNITS, units
from rumi.telegram.sending.destination import Destination, Sent
from rumi.telegram.sending.preview import Preview

logger = logging.getLogger(__name__)

Rest = Callable[[float, str], Awaitable[None]]
"""Waits so many seconds, and tells the status why."""

LIMIT = "Telegram's limit"
"""What a chat waits for that was sent too much."""

SHORTEST = 500
"""A text of so many units that is refused is refused for something else than its length."""


LONG = 8_000
"""Characters of a text that is formatted in a thread; a shorter one takes some hundredths of a second."""

REMOVALS = 3
"""How often it is tried again to take away a preview that could not become its reply."""


class Gone(Exception):
    """The chat can be reached by nobody any more. The text says why, without secrets."""


class Unsendable(Exception):
    """Telegram takes this reply in no form. The text says why, without secrets."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How a delivery waits, in seconds.

    After trouble on the way it tries again after 1, 2, 4… seconds, at most `most_s`, for as long as it
    takes. `grace_s` is how long a request that is under way may go on when the sender has to end, `mark_s`
    how long the journal has to note what was sent, and `token_s` the pause when the token is refused.
    """

    first_s: float = 1.0
    most_s: float = 60.0
    grace_s: float = 4.0
    mark_s: float = 3.0
    token_s: float = 60.0

    def backoff_s(self, failures: int, random: Random) -> float:
        """The pause after so many failures in a row, spread so that not all chats come back at once."""
        longest = min(self.most_s, self.first_s * 2.0 ** min(failures - 1, 20))
        return longest * random.uniform(0.5, 1.0)


class Delivery:
    """Brings a reply to its chat.

    `bring` may be called again after an error: it goes on where it was, and what Telegram took is not
    sent again.
    """

    def __init__(
        self,
        to: Destination,
        journal: ActorRef[Delivered | PartSent | Previewed],
        reply: StoredReply,
        preview: Preview | None,
        rest: Rest,
        random: Random,
        patience: Patience,
    ) -> None:
        self._to = to
        self._journal = journal
        self._reply = reply
        self._preview = preview
        self._rest = rest
        self._random = random
        self._patience = patience
        self._origin = (reply.origin or None) if to.group else None
        self._failures = 0
        self._taken = 0  # parts that Telegram has
        self._marked = 0  # parts of which the journal knows that
        self._parts: Sequence[Part] = ()
        self._pieces: deque[Part] = deque()  # what is left of the part that is under way
        self._shown: Sent | None = None  # the message that the first piece goes into
        self._left: Sent | None = None  # a preview that is still to be removed
        self._ready = False

    async def bring(self) -> None:
        """Send what is left of the reply, and mark it.

        Raises:
            Gone: nothing can be sent to this chat any more.
            Unsendable: Telegram does not take this reply.
            ActorError: the journal could not note what was sent.
        """
        if not self._ready:
            self._parts = await self._format(self._reply.text)
            self._taken = self._marked = min(self._reply.parts, len(self._parts))
            await self._claim()
            self._ready = True
        await self._mark()
        await self._send_rest()
        for attempt in range(1, REMOVALS + 1):
            if self._left is None:
                break
            await self._rest(self._patience.backoff_s(attempt, self._random), "a preview to be removed")
            await self._abandon(self._left)

    async def _format(self, text: str) -> Sequence[Part]:
        """The text's parts. A long text takes its time, which must not be everybody's."""
        if len(text) <= LONG:
            return _parts(text)
        return await trio.to_thread.run_sync(
            _parts, text, limiter=self._to.wire.formatting, abandon_on_cancel=True
        )

    async def _send_rest(self) -> None:
        while self._taken < len(self._parts):
            if not self._pieces:
                self._pieces.append(self._parts[self._taken])
            try:
                await self._to.turn()
                await with_grace(self._send_one, self._patience.grace_s)
            except TelegramError as error:
                await self._failed(error)
            else:
                self._failures = 0

    async def _claim(self) -> None:
        """Find the message in which the answer grew, if no call can still change it.

        An earlier sender may have left an edit under way, of which nobody will hear: its preview is deleted.
        """
        preview = self._preview
        if preview is not None:
            preview.end()
            await preview.ended()
        if self._taken:
            return
        if preview is not None and not preview.doubtful:
            self._shown = preview.shown
            return
        noted = self._reply.preview
        found = None if noted is None else self._to.found(abs(noted))
        shown = preview.shown if preview is not None else found
        if shown is not None and await self._abandon(shown) is Refusal.NOT_DELETABLE:
            self._shown = shown  # it is two days old: no call is still under way

    async def _send_one(self) -> None:
        """Send one piece, and mark the part where it was the last."""
        piece = self._pieces[0]
        if self._shown is not None:
            await self._to.edit(self._shown, piece)
        else:
            await self._to.send(piece, self._origin)
        self._shown = self._origin = None
        self._pieces.popleft()
        if not self._pieces:
            self._taken += 1
            await self._mark()

    async def _mark(self) -> None:
        """Tell the journal what Telegram has."""
        whole = self._taken == len(self._parts)
        if self._marked == self._taken and not whole:
            return
        delivery = self._reply.delivery
        with trio.move_on_after(self._patience.mark_s) as bound:
            await self._journal.ask(Delivered(delivery) if whole else PartSent(delivery, self._taken))
            self._marked = self._taken
        if bound.cancelled_caught:
            logger.warning("the journal did not note in time that a reply was sent")
            raise Unmarked(self._journal.path)

    async def _abandon(self, shown: Sent) -> Refusal | None:
        """Delete a preview: the reply becomes a new message. Why Telegram refuses that, if it does."""
        self._shown = self._left = None
        try:
            await self._to.delete(shown)
        except TelegramError as error:
            self._to.learn(error)
            logger.info("a preview was not removed: %s", in_words(error))
            refusal = refusal_of(error)
            if refusal is None:
                self._left = shown  # once more, when the reply is there
            return refusal
        return None

    async def _failed(self, error: TelegramError) -> None:
        """Make of an error what the next attempt does differently, or wait."""
        self._to.wire.statistics.retried += 1
        if self._to.learn(error):
            if isinstance(error, RetryAfter):
                await self._rest(wait_of(error), LIMIT)
            elif isinstance(error, ChatMigrated):
                self._shown = self._origin = None  # they stayed where the group was
            return
        match refusal_of(error):
            case None:
                await self._trouble(error)
            case Refusal.GONE:
                raise Gone(in_words(error))
            case Refusal.QUOTED:
                self._origin = None
            case Refusal.NOT_EDITABLE:
                self._shown = None
            case Refusal.ENTITIES if self._pieces[0].entities:
                self._plain()
            case _:
                await self._refused(error)

    async def _trouble(self, error: TelegramError) -> None:
        """Something on the way: again, later, for as long as it takes."""
        self._failures += 1
        pause = self._patience.backoff_s(self._failures, self._random)
        if isinstance(error, InvalidToken):
            pause = self._patience.token_s
        logger.warning("a reply was not sent, again in %.0f s: %s", pause, in_words(error))
        await self._rest(pause, in_words(error))

    def _plain(self) -> None:
        logger.warning("Telegram refuses the formatting of a reply: it goes without")
        self._pieces[0] = self._pieces[0].plain()

    async def _refused(self, error: TelegramError) -> None:
        """Telegram does not take it, and it is not clear why: anew, then plain, then in shorter pieces."""
        logger.warning("Telegram refuses a part of a reply: %s", in_words(error))
        piece = self._pieces[0]
        if self._shown is not None:
            await self._abandon(self._shown)
        elif piece.entities:
            self._plain()
        elif units(piece.text) > SHORTEST:
            self._pieces.popleft()
            self._pieces.extendleft(reversed(_cut(piece.text, max(SHORTEST, units(piece.text) // 2))))
        else:
            raise Unsendable(in_words(error))


class Unmarked(ActorError):
    """The journal did not answer in time."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "it did not note in time what was sent")


def _parts(text: str) -> Sequence[Part]:
    """The reply as messages, at least one; as it is, where it cannot be formatted."""
    try:
        return format_reply(text)
    except Exception:  # whatever a parser makes of a model's words, people get them
        logger.exception("a reply could not be formatted: it goes as it is")
        return _cut(text, LIMIT_UNITS)


def _cut(text: str, limit: int) -> Sequence[Part]:
    """Plain text in pieces of at most `limit` UTF-16 units, at least one."""
    return [Part(piece) for piece in cut(text, limit)] or [Part(NOTHING)]
