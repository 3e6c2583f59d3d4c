"""Questions of a turn: messages with two reactions of Rumi, which people press; later they show the verdict.

A question can be answered from the moment when its own event has come back from the server: then it is known
which messages people wrote before it.
"""

import logging
from collections.abc import Awaitable, Callable
from html import escape
from typing import Any, Final

import trio

from actors import ActorRef, Backoff
from rumi.agent.events import ConfirmationAsked
from rumi.channels.matrix.api import MatrixError
from rumi.channels.matrix.formatting import edit_of
from rumi.channels.matrix.wire import AccountWire
from rumi.platform.texts import matrix as matrix_texts
from rumi.platform.texts import questions as question_texts
from rumi.platform.texts.questions import Verdict
from rumi.store.journal.matrix import RoomPlace, note_sent
from rumi.store.journal.transaction import JournalMessage, clean
from rumi.texts import Language

logger = logging.getLogger(__name__)

YES: Final = "✅"
NO: Final = "❌"
_YES: Final = ("✅", "👍", "✔")
_NO: Final = ("❌", "👎", "✖")

MOST_CHARS: Final = 6_000
"""A longer question comes as a file too, before its shortened text."""

FILE_NAME: Final = "question.txt"
ECHO_S: Final = 10.0
"""For how long the question's own event is waited for, in seconds, before its number is taken without it."""

WAITS: Final = Backoff(first_s=1.0, factor=2.0, cap_s=60.0)
VERDICT_ATTEMPTS: Final = 5


def verdict_of(reaction: str) -> bool | None:
    """Return True for a reaction that says yes, False for one that says no; None for others."""
    if reaction.startswith(_YES):
        return True
    return False if reaction.startswith(_NO) else None


def content_of(text: str, hint: str) -> dict[str, Any]:
    """Return a question as a message. Only its first line is prose: nothing below becomes a link."""
    text = clean(text).strip()
    if len(text) > MOST_CHARS:
        half = MOST_CHARS // 2
        text = f"{text[:half]}\n…\n{text[-half:]}"
    first, _, details = text.partition("\n")
    below = f"<pre><code>{escape(details)}</code></pre>" if details else ""
    return {
        "msgtype": "m.text",
        "body": f"{text}\n\n{hint}",
        "format": "org.matrix.custom.html",
        "formatted_body": f"<p>{escape(first)}</p>{below}<p>{escape(hint)}</p>",
        "m.mentions": {},
    }


class RoomQuestion:
    """One question, from asking it until its message shows the verdict.

    `shown` is called with the number of its message when a person can read it. `upload` sends a file.
    """

    def __init__(
        self,
        wire: AccountWire,
        journal: ActorRef[JournalMessage],
        chat: str,
        asked: ConfirmationAsked,
        language: Language,
        origin: int | None,
        *,
        shown: Callable[[str, int], None],
        upload: Callable[[str, str, bytes], Awaitable[None]],
    ) -> None:
        self.id = asked.id
        self._wire = wire
        self._journal = journal
        self.chat = chat
        self._asked = asked
        self._language = language
        self._origin = origin
        self._shown = shown
        self._upload = upload
        self._verdict: Verdict | None = None
        self._ended = trio.Event()
        self._waiting = trio.CancelScope()
        self._came = trio.Event()
        self._file_sent = False

    def end(self, verdict: Verdict) -> None:
        """Set the verdict."""
        if self._verdict is None:
            self._verdict = verdict
            self._ended.set()
            self._waiting.cancel()

    def came(self, number: int) -> None:
        """Record that the question's own event has come back with this number: it can be read now."""
        self._came.set()
        if self._verdict is None:
            self._shown(self.id, number)

    async def run(self) -> None:
        """Ask, wait until `end` is called, and show the verdict. Never raises."""
        try:
            place = await self._wire.place(self._journal, self.chat)
            if place is None:
                return
            event = await self._ask(place)
            if not event:
                return
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._make_readable, event)
                nursery.start_soon(self._offer, place, event)
                await self._ended.wait()
                nursery.cancel_scope.cancel()
            await self._show_verdict(place, event)
        except Exception:  # a question may fail, and its turn goes on
            logger.exception("a question failed")

    async def _ask(self, place: RoomPlace) -> str:
        """Send the question until it is there or has ended; return its event."""
        salt, attempt = await self._wire.salt(self._journal), 0
        content = content_of(self._asked.text, matrix_texts.how_to_answer(self._language))
        group = self._wire.account.group(place.room) == self.chat.partition("_")[0]
        content |= await self._wire.related(self._journal, place, self._origin if group else None)
        while self._verdict is None:
            try:
                whole = clean(self._asked.whole or self._asked.text)
                if not self._file_sent and (self._asked.whole or len(whole) > MOST_CHARS):
                    await self._upload(self.chat, FILE_NAME, whole.encode())
                    self._file_sent = True
                event = await self._wire.send(place, content, f"q{salt}-{self.id}", chat=self.chat)
            except Exception as error:
                if not isinstance(error, MatrixError):
                    raise
                logger.warning("a question was not sent: %s", error.message)
                with trio.CancelScope() as self._waiting:
                    if self._verdict is None:
                        await trio.sleep(max(error.wait_s, WAITS.delay_s(attempt)))
                attempt += 1
            else:
                self._wire.asked.questions[event] = self.id
                return event
        return ""

    async def _make_readable(self, event: str) -> None:
        with trio.move_on_after(ECHO_S):
            await self._came.wait()
            return
        number = await self._journal.ask(note_sent(self.chat, self._wire.account.user, event, self.id))
        self.came(number)

    async def _offer(self, place: RoomPlace, event: str) -> None:
        """Add Rumi's own reactions, which people press. Without them, people type their answer."""
        salt = await self._wire.salt(self._journal)
        for key in (YES, NO):
            reaction = {"m.relates_to": {"rel_type": "m.annotation", "event_id": event, "key": key}}
            for _ in range(2):
                try:
                    await self._wire.send(place, reaction, f"k{salt}-{self.id}-{key == YES:d}", "m.reaction")
                except MatrixError as error:
                    if error.kind == "refused":
                        return
                    await trio.sleep(max(error.wait_s, 1.0))
                else:
                    break

    async def _show_verdict(self, place: RoomPlace, event: str) -> None:
        assert self._verdict is not None
        ending = question_texts.verdict(self._language, self._verdict)
        salt = await self._wire.salt(self._journal)
        content = edit_of(event, content_of(self._asked.text, ending))
        for attempt in range(VERDICT_ATTEMPTS):
            try:
                await self._wire.send(place, content, f"v{salt}-{self.id}")
            except MatrixError as error:
                logger.info("a question kept its text: %s", error.message)
                if error.kind == "refused":
                    return
                await trio.sleep(max(error.wait_s, WAITS.delay_s(attempt)))
            else:
                break
        self._wire.asked.questions.pop(event, None)
