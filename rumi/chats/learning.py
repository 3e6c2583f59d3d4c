"""Extracts facts from sessions when they end, in the background.

When a session ends is a date in the journal, so an end is met whether its chat is in memory or not, and
also when it came while no process ran. What was learned is stored before the journal hears of it; if the
process ends in between, the memory knows that it has it already.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import trio

from actors import Actor, ActorError, ActorStopped, MailboxFull, Request, answers
from rumi.errors import RumiError
from rumi.journal import AskToLearn, LearnedFrom, LearnNothing, Lesson, PutOff, Study, ToLearn
from rumi.memory import Facts, Learn, Learned
from rumi.models import Message, ModelError, context_of, message_tokens
from rumi.texts import Language

if TYPE_CHECKING:
    from rumi.chats.services import ChatServices

logger = logging.getLogger(__name__)

AT_ONCE: Final = 4
"""Sessions that are learned from at the same time: the model is for the chats first."""

EXTRACT_S: Final = 60.0
"""How long the model may take for one session."""

AGAIN_S: Final = (60.0, 360.0, 2160.0, 12960.0)
"""How long after each try in vain the next one comes. There is one more than that."""

LOOK_S: Final = 300.0
"""How often it is looked for what is due, at least."""


@dataclass(frozen=True, slots=True)
class Look:
    """A session has ended."""


@dataclass(frozen=True, slots=True)
class LearnNow(Request[int]):
    """Learn from what is due of a chat, or of all chats; how many facts are new.

    Answered when all of it was tried once. Cancelled, the work goes on behind.
    """

    chat: str | None = None


ExtractorMessage: TypeAlias = Look | LearnNow


@dataclass(eq=False, slots=True)
class _Try:
    """A session that is being learned from. `new` is how many facts came of it when `done` is set."""

    done: trio.Event = field(default_factory=trio.Event)
    new: int = 0


class FactExtractor(Actor[ExtractorMessage]):
    """Learns from sessions as they come due. Nothing that fails in it is a crash: it is tried again later."""

    concurrency = 1000

    def __init__(self, services: "ChatServices") -> None:
        self._services = services
        self._tries: dict[tuple[str, int], _Try] = {}
        self._limit = trio.CapacityLimiter(AT_ONCE)
        self._woken = trio.Event()

    async def started(self) -> None:
        """Begin to look for what is due: earlier processes' sessions too."""
        self.start_soon(self._watch)

    async def receive(self, message: ExtractorMessage) -> None:
        """Wake up."""
        self._woken.set()

    def activity(self) -> str:
        """Return how many sessions it learns from."""
        return f"learning from {len(self._tries)}" if self._tries else ""

    def metrics(self) -> Mapping[str, object]:
        """Return how many sessions it learns from."""
        return {"sessions": len(self._tries)}

    async def _watch(self) -> None:
        most_s = min(LOOK_S, max(1.0, self._services.limits.session_ttl_s))
        while True:
            self._woken = trio.Event()
            pause_s = most_s
            try:
                pause_s = min(most_s, await self._look())
            except ActorError as error:
                logger.info("what is to be learned cannot be looked up: %r", error)
            with trio.move_on_after(pause_s):
                await self._woken.wait()

    async def _look(self) -> float:
        """Begin with what is due; how many seconds until the next is, as far as is known now."""
        services = self._services
        if not services.learns:
            await services.journal.ask(LearnNothing(ever=services.extract is None))
            return LOOK_S
        due = await services.journal.ask(ToLearn())
        for chat, session in due.now:
            self._begin(chat, session)
        return max(0.0, due.next - services.now())

    @answers(LearnNow)
    async def learn_now(self, message: LearnNow) -> int:
        """Try all that is due once."""
        new = 0
        begun: set[tuple[str, int]] = set()
        while self._services.learns:
            due = await self._services.journal.ask(ToLearn(message.chat))
            wanted = [key for key in due.now if key not in begun]
            if not wanted:
                break
            # Of those that others had begun, something may be left that came too late for them.
            begun.update(key for key in wanted if key not in self._tries)
            for attempt in [self._begin(*key) for key in wanted]:
                await attempt.done.wait()
                new += attempt.new
        return new

    def _begin(self, chat: str, session: int) -> _Try:
        """Learn from a session in a task of its own, if none does yet."""
        attempt = self._tries.get((chat, session))
        if attempt is None:
            attempt = self._tries[chat, session] = _Try()
            self.start_soon(self._try, chat, session, attempt)
        return attempt

    async def _try(self, chat: str, session: int, attempt: _Try) -> None:
        try:
            async with self._limit:
                attempt.new = await self._learn(chat, session)
        except ActorError as error:  # the journal is gone, and this actor will restart after it
            logger.info("chat %s: not learned from its session %d: %r", chat, session, error)
        finally:
            del self._tries[chat, session]
            attempt.done.set()

    async def _learn(self, chat: str, session: int) -> int:
        """Learn from a session; how many facts are new. What keeps from it puts it off, or ends it."""
        journal = self._services.journal
        lesson = await journal.ask(Study(chat, session))
        done = LearnedFrom(chat, session, lesson.upto)
        try:
            new = await self._draw(chat, session, lesson)
        except Exception as error:  # whatever it is, the chats must not suffer from it
            trace = None if isinstance(error, RumiError) else error
            logger.warning("chat %s: not learned from session %d: %s", chat, session, error, exc_info=trace)
            if lesson.tries < len(AGAIN_S):
                await journal.ask(PutOff(chat, session, self._services.now() + AGAIN_S[lesson.tries]))
                self._woken.set()
                return 0
            new = 0
        await journal.ask(done)
        return new

    async def _draw(self, chat: str, session: int, lesson: Lesson) -> int:
        """Ask the model, and store what it says.

        Raises:
            ModelError: the model cannot be reached, refuses, or is silent.
            MemoryUnavailable: nothing can be stored.
        """
        services = self._services
        assert services.memory is not None
        assert services.extract is not None
        if not lesson.messages or await services.memory(Learned(chat, session, lesson.upto)):
            return 0
        language: Language = (
            "es" if lesson.language == "es" else "en" if lesson.language else services.language
        )
        owner = services.ids.owner_of(chat)
        known = await services.memory(Facts(owner))
        model = services.model_for(chat, language)
        messages = _latest(lesson.messages, context_of(model, services.limits.context_tokens) // 2)
        facts = None
        with trio.move_on_after(EXTRACT_S):
            facts = await services.extract(model, language, messages, known)
        if facts is None:
            raise ModelError("timeout", f"The model took longer than {EXTRACT_S:g} s.")
        return await services.memory(Learn(owner, chat, session, lesson.upto, tuple(facts), lesson.began))


def _latest(messages: Sequence[Message], max_tokens: int) -> tuple[Message, ...]:
    """The latest messages that fit, and at least one."""
    kept = 0
    for message in reversed(messages):
        max_tokens -= message_tokens(message)
        if kept and max_tokens < 0:
            break
        kept += 1
    return tuple(messages[-kept:])


async def learn_now(services: "ChatServices", chat: str | None = None) -> int:
    """Have what is due learned from; how many facts are new. Cancelled, the work goes on behind.

    What cannot be done now is done later, so nothing is raised.
    """
    if services.extractor is None:
        return 0
    try:
        return await services.extractor.ask(LearnNow(chat))
    except ActorError as error:
        logger.info("nothing is learned now: %r", error)
        return 0


async def learn_of(services: "ChatServices", owner: str) -> int:
    """Have all learned from that an owner has said so far, also where the session goes on; as `learn_now`.

    Raises:
        RumiError: nothing could be learned, and it is tried again later.
    """

    async def sessions() -> set[tuple[str, int]]:
        found = await services.journal.ask(ToLearn(going_on=True))
        return {key for key in found.now if services.ids.owner_of(key[0]) == owner}

    if not services.learns:
        return 0
    new = 0
    try:
        wanted = await sessions()
        for chat in sorted({chat for chat, _ in wanted}):
            await services.journal.ask(AskToLearn(chat, retry=True))
            new += await learn_now(services, chat)
        failed = not new and wanted & await sessions()
    except ActorError as error:
        raise RumiError("No facts are extracted now.", "Try again in a moment.") from error
    if failed:
        raise RumiError(
            "No facts could be extracted: the model did not answer.",
            "Rumi tries again by itself; rumi doctor --online says more.",
        )
    return new


def look(services: "ChatServices") -> None:
    """Tell the extractor that a session has ended. Never waits."""
    if services.extractor is not None:
        with suppress(ActorStopped, MailboxFull):  # it looks by itself now and then
            services.extractor.tell_nowait(Look())
