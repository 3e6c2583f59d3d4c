"""Extracts facts from sessions when they end, in the background.

The journal stores the time at which a session ends. So the extractor finds ended sessions even if their chat
is not in memory, or if they ended while no process ran. Extracted facts are stored in the memory before the
journal marks the session as extracted; if the process ends between these two steps, the memory knows that it
already has the facts of the session.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Final, Protocol, TypeAlias

import trio

from actors import Actor, ActorError, ActorRef, Request, answers
from rumi.chats.context import ChatContext
from rumi.errors import RumiError
from rumi.memory.extractor import Extracted
from rumi.memory.messages import Fact
from rumi.memory.rows import facts_of, is_extracted, store_extracted
from rumi.models.model import Message, Model, ModelError
from rumi.models.token_budget import context_of
from rumi.platform.texts.language import known_language
from rumi.platform.zones import local_at
from rumi.store.journal.extraction import (
    find_due_sessions,
    mark_extracted,
    postpone_extraction,
    read_unextracted,
    skip_extraction,
)
from rumi.store.journal.records import SessionExcerpt
from rumi.store.journal.store import NotOwner
from rumi.store.journal.transaction import JournalMessage
from rumi.texts import Language, Text

logger = logging.getLogger(__name__)

AT_ONCE: Final = 4
"""Maximum number of concurrent extractions; it is low because chats need the model more."""

EXTRACT_S: Final = 60.0
"""Maximum time that the model may take for one session, in seconds."""

AGAIN_S: Final = (60.0, 360.0, 2160.0, 12960.0)
"""Pause in seconds after each failed attempt. The last attempt follows the last pause."""

LOOK_S: Final = 300.0
"""Maximum interval between two checks for due sessions, in seconds."""


class Extract(Protocol):
    """A function that extracts facts from a session."""

    async def __call__(
        self,
        model: Model,
        language: Language,
        messages: Sequence[Message],
        known: Sequence[Fact],
        today: date,
    ) -> Extracted:
        """Return the facts in these messages that are not in `known`, and one line that names the subject.

        If the model's answer is unusable, no facts are returned. `today` is the date of the messages.

        Raises:
            ModelError: the model cannot be reached or refuses.
        """
        ...


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """A notification that a session has ended."""


@dataclass(frozen=True, slots=True)
class ExtractNow(Request[int]):
    """A request to extract facts from the due sessions of a chat, or of all chats.

    The reply is the number of new facts. It is sent after one attempt for each session. On cancellation the
    extraction continues in the background.
    """

    chat: str | None = None


ExtractorMessage: TypeAlias = SessionEnded | ExtractNow


@dataclass(eq=False, slots=True)
class _ExtractionAttempt:
    """A running extraction. When `done` is set, `new` is the number of new facts."""

    done: trio.Event = field(default_factory=trio.Event)
    new: int = 0


class FactExtractor(Actor[ExtractorMessage]):
    """Extracts facts from sessions when they are due. After a failure, the actor tries again later.

    Without `extract`, or if the default model is the offline stand-in for a real model, all sessions are
    skipped.
    """

    concurrency = 1000

    def __init__(
        self, journal: ActorRef[JournalMessage], context: ChatContext, extract: Extract | None
    ) -> None:
        self._journal = journal
        self._context = context
        self._extract = extract
        self._attempts: dict[tuple[str, int], _ExtractionAttempt] = {}
        self._limit = trio.CapacityLimiter(AT_ONCE)
        self._woken = trio.Event()

    async def started(self) -> None:
        """Begin to look for sessions that are due, including those that ended in earlier processes."""
        self.start_soon(self._watch)

    async def receive(self, message: ExtractorMessage) -> None:
        """Wake the task that looks for due sessions."""
        self._woken.set()

    def activity(self) -> str:
        """Return the number of running extractions as text; empty if there are none."""
        return Text("learning from {count}", count=len(self._attempts)) if self._attempts else ""

    def metrics(self) -> Mapping[str, object]:
        """Return the number of running extractions."""
        return {"sessions": len(self._attempts)}

    async def _watch(self) -> None:
        most_s = min(LOOK_S, max(1.0, self._context.settings.session.ttl_s))
        while True:
            # Before the look, not after it: a session that ends during the look wakes this task at once.
            self._woken = trio.Event()
            pause_s = most_s
            try:
                pause_s = min(most_s, await self._look())
            except ActorError as error:
                logger.info("what is to be learned cannot be looked up: %r", error)
            with trio.move_on_after(pause_s):
                await self._woken.wait()

    async def _look(self) -> float:
        """Start an extraction for each due session; return the seconds until the next session is due."""
        if not self._context.thinks or self._extract is None:
            await self._journal.ask(skip_extraction(ever=self._extract is None))
            return LOOK_S
        due = await self._journal.ask(find_due_sessions())
        for chat, session in due.now:
            self._begin(chat, session)
        return max(0.0, due.next - self._context.now())

    @answers(ExtractNow)
    async def extract_now(self, message: ExtractNow) -> int:
        """Attempt each due session once; return the number of new facts."""
        new = 0
        begun: set[tuple[str, int]] = set()
        while self._context.thinks and self._extract is not None:
            due = await self._journal.ask(find_due_sessions(message.chat))
            wanted = [key for key in due.now if key not in begun]
            if not wanted:
                break
            # A running extraction may have begun before the latest messages came, so its session is attempted
            # once more after it.
            begun.update(key for key in wanted if key not in self._attempts)
            for attempt in [self._begin(*key) for key in wanted]:
                await attempt.done.wait()
                new += attempt.new
        return new

    def _begin(self, chat: str, session: int) -> _ExtractionAttempt:
        """Start a session's extraction in a separate task, unless one runs already; return the attempt."""
        attempt = self._attempts.get((chat, session))
        if attempt is None:
            attempt = self._attempts[chat, session] = _ExtractionAttempt()
            self.start_soon(self._run_attempt, chat, session, attempt)
        return attempt

    async def _run_attempt(self, chat: str, session: int, attempt: _ExtractionAttempt) -> None:
        try:
            async with self._limit:
                attempt.new = await self._extract_session(chat, session)
        except (ActorError, NotOwner) as error:  # the journal crashed, or another worker owns the session
            logger.info("chat %s: not learned from its session %d: %r", chat, session, error)
        finally:  # also on cancellation: requests wait for `done`
            del self._attempts[chat, session]
            attempt.done.set()

    async def _extract_session(self, chat: str, session: int) -> int:
        """Extract facts from a session; return the number of new facts.

        After a failure the extraction is tried again later. After the last attempt fails, the session is not
        tried again.
        """
        excerpt = await self._journal.ask(read_unextracted(chat, session))
        line = ""
        try:
            new, line = await self._extract_facts(chat, session, excerpt)
        except Exception as error:  # no failure here may affect the chats
            trace = None if isinstance(error, RumiError) else error
            logger.warning("chat %s: not learned from session %d: %s", chat, session, error, exc_info=trace)
            if excerpt.tries < len(AGAIN_S):
                await self._journal.ask(
                    postpone_extraction(chat, session, self._context.now() + AGAIN_S[excerpt.tries])
                )
                self._woken.set()
                return 0
            new = 0
        began = excerpt.began or self._context.now()
        await self._journal.ask(mark_extracted(chat, session, excerpt.upto, line, began))
        return new

    async def _extract_facts(self, chat: str, session: int, excerpt: SessionExcerpt) -> tuple[int, str]:
        """Ask the model for facts and store them; return the number of new facts and the session's subject.

        Raises:
            ModelError: the model cannot be reached, refuses, or does not answer in `EXTRACT_S`.
            MemoryUnavailable: the memory cannot store facts.
        """
        context = self._context
        assert context.memory is not None
        assert self._extract is not None
        # An earlier process may have stored the facts and ended before the journal knew: then the model need
        # not be asked again.
        if not excerpt.messages or await context.memory(is_extracted(chat, session, excerpt.upto)):
            return 0, ""
        language = known_language(excerpt.language) or context.language
        owner = context.ids.owner_of(chat)
        known = await context.memory(facts_of(owner))
        model = context.model_for(chat, language, "")
        messages = _latest(excerpt.messages, context_of(model, self._context.context_tokens) // 2)
        today = local_at(excerpt.began or context.now(), await context.zone(chat)).date()
        found = None
        with trio.move_on_after(EXTRACT_S):
            found = await self._extract(model, language, messages, known, today)
        if found is None:
            raise ModelError(
                "timeout", "The model took longer than {extract_s} s.", extract_s=f"{EXTRACT_S:g}"
            )
        request = store_extracted(owner, chat, session, excerpt.upto, found.facts, excerpt.began)
        return await context.memory(request), found.line


def _latest(messages: Sequence[Message], max_tokens: int) -> tuple[Message, ...]:
    """Return the latest messages that fit into `max_tokens`, but at least one message."""
    kept = 0
    for message in reversed(messages):
        max_tokens -= message.tokens
        if kept and max_tokens < 0:
            break
        kept += 1
    return tuple(messages[-kept:])
