"""The growing answer of a running turn: a message that is edited, and the typing notice.

It is optional: each of its calls may fail. Its first message is sent under an id that the journal knows, so a
later process finds the message, and makes the reply of it. Before the reply replaces its text, an edit whose
outcome is unknown is repeated under its own id: so no late edit can follow the reply.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Final

import trio

from actors import ActorError, ActorRef
from rumi.channels.matrix.api import MatrixError
from rumi.channels.matrix.formatting import MOST_CHARS, content_of, edit_of
from rumi.channels.matrix.wire import AccountWire
from rumi.chats.events import ChatEvent, TurnState
from rumi.chats.status import gist
from rumi.platform.texts import telegram as tool_texts
from rumi.platform.untrusted_text import one_line
from rumi.store.journal.matrix import RoomPlace, begin_preview, event_numbered, note_preview
from rumi.store.journal.store import NotOwner
from rumi.store.journal.transaction import JournalMessage
from rumi.texts import Language

logger = logging.getLogger(__name__)

TOOL_CHARS: Final = 120


@dataclass(frozen=True, slots=True)
class GrowingTimes:
    """Times of a growing answer, in seconds.

    A turn that ends within `quick_s` shows none. Then it changes at most once in `every_s`. A typing notice
    lasts `typing_s`, and is renewed earlier. A turn without events for `silence_s` is not shown any longer.
    """

    quick_s: float = 1.5
    every_s: float = 2.5
    again_s: float = 1.0
    typing_s: float = 30.0
    silence_s: float = 1800.0


def sketch(state: TurnState, language: Language) -> str:
    """Return what a turn has said so far in Markdown, and below it the running tool; empty if neither is."""
    said = state.words.strip()
    if len(said) > MOST_CHARS - 500:
        said = f"…\n{said[500 - MOST_CHARS :]}"
    lines = [said] if said else []
    if state.calls:
        started = list(state.calls.values())[-1].what
        name = started.call.name
        file_tool = name in ("read_file", "edit_file", "write_file")
        summary = gist(started.arguments)
        what = summary if file_tool and summary else f"{name}: {summary}" if summary else name
        what = one_line(what, TOOL_CHARS).replace("`", "'")
        lines.append(tool_texts.tool_runs(language, f"`{what}`", name if file_tool and summary else ""))
    elif lines:
        lines.append("…")
    return "\n\n".join(lines)


class GrowingReply:
    """The growing answer of one turn. `event` is its message, None while there is none or nobody knows it."""

    def __init__(
        self,
        wire: AccountWire,
        journal: ActorRef[JournalMessage],
        chat: str,
        state: TurnState,
        times: GrowingTimes,
        lost: Callable[[str], None],
    ) -> None:
        assert state.started is not None
        started = state.started.what
        self.turn = state.turn
        self.message = started.message
        self.event = ""
        self.number = started.preview or 0
        self._wire = wire
        self._journal = journal
        self._chat = chat
        self._state = state
        self._times = times
        self._lost = lost
        self.language: Language = started.language
        self.origin = started.origin
        # A schedule's turn may end silently, so it shows nothing but that Rumi types.
        self._given_up = bool(started.schedule) or not started.message
        self._over = False
        self._done = trio.Event()
        self._ended = trio.Event()
        self._news = trio.Event()
        self._waiting = trio.CancelScope()
        self._last = ""
        self._edits = 0
        self._nonce = token_hex(4)
        self._unsure: tuple[dict[str, Any], str] | None = None
        """An edit of which nobody knows if the server has it, and the id under which it was sent."""

    def happened(self, event: ChatEvent) -> None:
        """Apply an event of the turn."""
        self._state = self._state.apply(event)
        self._news.set()

    def end(self) -> None:
        """Show no more, because the turn is over."""
        self._over = True
        self._done.set()
        self._waiting.cancel()

    async def run(self) -> None:
        """Show the turn until `end` is called. Never raises."""
        try:
            place = await self._wire.place(self._journal, self._chat)
            if place is None:
                return
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._type, place)
                await self._grow(place)
                await self._done.wait()
        except (ActorError, NotOwner, MatrixError) as error:
            logger.info("a growing answer was not shown: %s", error)
            if isinstance(error, MatrixError) and error.gone and not self._over:
                self._lost(error.message)
        except Exception:  # the reply comes nevertheless
            logger.exception("a growing answer failed")
        finally:
            self._over = True
            self._ended.set()

    async def _type(self, place: RoomPlace) -> None:
        try:
            while not self._over:
                try:
                    await self._wire.api.typing(place.room, self._times.typing_s)
                except MatrixError as error:
                    if error.gone and not self._over:
                        self._lost(error.message)
                        return
                with trio.move_on_after(self._times.typing_s * 0.8):
                    await self._done.wait()
        finally:
            with trio.move_on_after(2, shield=True):
                with suppress(MatrixError):  # it ends by itself
                    await self._wire.api.typing(place.room, 0)

    async def _grow(self, place: RoomPlace) -> None:
        await self._rest(self._times.quick_s)
        while not self._over and not self._given_up:
            asking = self._state.question is not None  # nothing is to be seen below a question
            wanted = "" if asking else sketch(self._state, self.language)
            if not wanted or wanted == self._last:
                self._news = trio.Event()
                with trio.CancelScope() as self._waiting, trio.move_on_after(self._times.silence_s) as silent:
                    if not self._over:
                        await self._news.wait()
                if silent.cancelled_caught:
                    return
            elif not self._wire.limits.may_grow:
                await self._rest(self._times.again_s)
            else:
                if await self._show(place, wanted):
                    self._last = wanted
                await self._rest(self._times.every_s)

    async def _rest(self, seconds: float) -> None:
        with trio.CancelScope() as self._waiting:
            if not self._over:
                await trio.sleep(seconds)

    async def _show(self, place: RoomPlace, text: str) -> bool:
        try:
            await self._wire.check(self._chat, place)
            content = content_of(text)
            if not self.number:
                account = self._wire.account.user
                self.number = await self._journal.ask(begin_preview(self.message, account, self._chat))
            if not self.event:
                await self._find(place, content)
                return True
            await self.settle(place)
            self._edits += 1
            txn = f"g{await self._wire.salt(self._journal)}-{self.number}-{self._nonce}-{self._edits}"
            self._unsure = (edit_of(self.event, content), txn)
            await self._wire.send_now(place, *self._unsure)
            self._unsure = None
        except MatrixError as error:
            logger.info("a growing answer was not shown: %s", error.message)
            if error.kind in ("limited", "refused", "token"):
                self._unsure = None
            if error.kind in ("refused", "token"):
                self._given_up = True
            if error.gone and not self._over:
                self._lost(error.message)
            return False
        return True

    async def _find(self, place: RoomPlace, content: dict[str, Any]) -> None:
        self.event = await find_preview(
            self._wire, self._journal, self._chat, place, self.number, content, self.origin
        )

    async def settle(self, place: RoomPlace) -> None:
        """Make sure that no edit can come later: repeat one whose outcome is unknown, under its own id."""
        if self._unsure is not None:
            await self._wire.send_now(place, *self._unsure)
            self._unsure = None

    async def ended(self) -> None:
        """Wait until no call is in progress: after `end`, at most for the time of one."""
        await self._ended.wait()


async def find_preview(
    wire: AccountWire,
    journal: ActorRef[JournalMessage],
    chat: str,
    place: RoomPlace,
    number: int,
    content: dict[str, Any],
    origin: int | None,
) -> str:
    """Return the event with the growing answer that has this number. If it was not sent, it is sent now."""
    if known := await journal.ask(event_numbered(number)):
        return known
    group = wire.account.group(place.room) == chat.partition("_")[0]
    relation = await wire.related(journal, place, origin if group else None)
    event = await wire.send_now(place, {**content, **relation}, f"p{await wire.salt(journal)}-{number}")
    await journal.ask(note_preview(chat, number, wire.account.user, event))
    return event
