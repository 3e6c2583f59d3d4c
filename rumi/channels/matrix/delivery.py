"""Delivers a stored reply: its first message replaces the growing answer, the others follow it.

Each message is sent under an id that follows from the reply, so that the server recognises a repeated one. So
it arrives once, also if the process ends between sending and recording.
"""

import hashlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio

from actors import ActorRef
from rumi.channels.matrix.api import MatrixError
from rumi.channels.matrix.formatting import content_of, edit_of, parts_of, plain
from rumi.channels.matrix.growing import GrowingReply, find_preview
from rumi.channels.matrix.wire import AccountWire
from rumi.chats.events import with_commands
from rumi.platform.texts import matrix as matrix_texts
from rumi.store.journal.matrix import RoomPlace, note_sent
from rumi.store.journal.outbox import mark_delivered, mark_part_begun, mark_part_sent, mark_undeliverable
from rumi.store.journal.records import StoredReply
from rumi.store.journal.transaction import JournalMessage

logger = logging.getLogger(__name__)

REMEMBERED_S: Final = 20 * 3600.0
"""For so long servers surely recognise a repeated message, in seconds. Synapse does for a day."""

LONG: Final = 8_000
"""Replies of more characters are formatted in a thread."""

REPLY: Final = "reply:"
"""What the event of a reply with questions asks: this, and the reply's number."""


class MatrixDelivery:
    """Delivers replies. `gone` is called with a chat that the account cannot write to any more."""

    def __init__(
        self,
        wire: AccountWire,
        journal: ActorRef[JournalMessage],
        gone: Callable[[str, str], Awaitable[None]],
        now: Callable[[], float],
    ) -> None:
        self._wire = wire
        self._journal = journal
        self._gone = gone
        self._now = now
        self._formatting = trio.CapacityLimiter(1)

    async def send_reply(self, chat: str, reply: StoredReply, growing: GrowingReply | None) -> None:
        """Send the messages of a reply that were not sent yet.

        Raises:
            MatrixError: They were not all sent, and are to be sent later.
        """
        if growing is not None:
            growing.end()
            await growing.ended()
        try:
            place = await self._wire.place(self._journal, chat)
            if place is None:
                await self._journal.ask(mark_undeliverable(chat, "its room is unknown", reply.delivery))
                return
            await self._send(chat, place, reply, growing)
        except MatrixError as error:
            self._wire.figures.retried += 1
            if error.gone:
                self._wire.figures.undeliverable += 1
                await self._gone(chat, error.message)
            elif error.kind == "refused":
                self._wire.figures.undeliverable += 1
                logger.warning("the homeserver refuses a reply: %s", error.message)
                await self._journal.ask(mark_undeliverable(chat, error.message, reply.delivery))
            else:
                raise

    async def _send(
        self, chat: str, place: RoomPlace, reply: StoredReply, growing: GrowingReply | None
    ) -> None:
        commands = tuple(button.words for button in reply.buttons)
        text = "\n\n".join(filter(None, (with_commands(reply.text, commands), reply.note)))
        parts = await self._parts(text)
        salt = await self._wire.salt(self._journal)
        asks = any(button.words.startswith("/yes ") for button in reply.buttons)
        group = self._wire.account.group(place.room) == chat.partition("_")[0]
        for index in range(min(reply.parts, len(parts)), len(parts)):
            part = parts[index]
            last = index + 1 == len(parts)
            preview = "" if index else await self._preview(chat, place, reply, growing, part)
            relation: dict[str, Any] = {}
            if not preview:
                origin = reply.origin if group and not index else None
                relation = await self._wire.related(self._journal, place, origin)
            lost = reply.begun > index and self._now() - reply.created > REMEMBERED_S
            if lost and not preview:
                part = f"{matrix_texts.sent_again(reply.language)}\n\n{part}"
            content = await self._content(part)
            txn = f"r{salt}-{reply.delivery}-{index}-{hashlib.sha256(part.encode()).hexdigest()[:8]}"
            await self._journal.ask(mark_part_begun(reply.delivery, index + 1))
            event = await self._put(chat, place, content, relation, preview, txn)
            if asks and last:
                await self._journal.ask(
                    note_sent(chat, self._wire.account.user, preview or event, f"{REPLY}{reply.delivery}")
                )
            done = mark_delivered(reply.delivery) if last else mark_part_sent(reply.delivery, index + 1)
            await self._journal.ask(done)

    async def _put(
        self,
        chat: str,
        place: RoomPlace,
        content: dict[str, Any],
        relation: dict[str, Any],
        preview: str,
        txn: str,
    ) -> str:
        """Send a message, or the edit that makes it of a growing answer; plainly if its HTML is refused."""
        for attempt in (content, plain(str(content["body"]))):
            whole = edit_of(preview, attempt) if preview else {**attempt, **relation}
            try:
                return await self._wire.send(place, whole, txn, chat=chat)
            except MatrixError as error:
                if error.kind != "refused" or error.gone or attempt is not content:
                    raise
                logger.warning("a message goes without formatting: %s", error.message)
                txn += "p"
        raise AssertionError("unreachable")

    async def _preview(
        self, chat: str, place: RoomPlace, reply: StoredReply, growing: GrowingReply | None, part: str
    ) -> str:
        """Return the event that the reply replaces; empty if there is none."""
        number = growing.number if growing is not None and growing.number else reply.preview
        if not number:
            return ""
        if growing is not None:
            await growing.settle(place)
            if growing.event:
                return growing.event
        content = await self._content(part)
        async with self._wire.limits.turn():
            return await find_preview(self._wire, self._journal, chat, place, number, content, reply.origin)

    async def _parts(self, text: str) -> tuple[str, ...]:
        if len(text) <= LONG:
            return parts_of(text)
        return await trio.to_thread.run_sync(parts_of, text, limiter=self._formatting, abandon_on_cancel=True)

    async def _content(self, part: str) -> dict[str, Any]:
        if len(part) <= LONG:
            return content_of(part)
        return await trio.to_thread.run_sync(
            content_of, part, limiter=self._formatting, abandon_on_cancel=True
        )
