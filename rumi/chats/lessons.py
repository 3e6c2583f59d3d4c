"""Has sessions learned from: when one ends, when a person asks for it, and when a person leaves a chat."""

import logging
from contextlib import suppress
from dataclasses import dataclass

from actors import ActorError, ActorRef, ActorStopped, ChildSpec, MailboxFull, Supervisor
from rumi.chats.context import ChatContext
from rumi.chats.learning import Extract, ExtractorMessage, FactExtractor, LearnNow, Look
from rumi.errors import RumiError
from rumi.platform.chat_ids import ChatIds
from rumi.store.journal.lessons import AskToLearn, ToLearn
from rumi.store.journal.transaction import JournalMessage

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Lessons:
    """Asks for sessions to be learned from. If nothing `learns`, all of it does nothing."""

    journal: ActorRef[JournalMessage]
    ids: ChatIds
    extractor: ActorRef[ExtractorMessage] | None = None
    learns: bool = False

    async def take_over(self, numbers: frozenset[int]) -> None:
        """Learn from the sessions of these partitions as well."""
        self.look()

    async def hand_over(self, numbers: frozenset[int], patience_s: float) -> None:
        """Nothing is to be done: what another worker has learned first is learned once."""

    def look(self) -> None:
        """Tell the extractor that a session has ended. Never waits."""
        if self.extractor is not None:
            with suppress(ActorStopped, MailboxFull):  # it looks by itself now and then
                self.extractor.tell_nowait(Look())

    async def ask_to_learn(self, chat: str | None = None) -> bool:
        """Have the session of the chat, or of all chats, learned from although it goes on; whether there is
        anything to learn. What is not done when the program ends is done at the next start."""
        if self.learns:
            await self.journal.ask(AskToLearn(chat))
        return await self.has_to_learn(chat)

    async def has_to_learn(self, chat: str | None = None) -> bool:
        """Return True if there is anything to learn now, from the chat or from any."""
        return self.learns and bool((await self.journal.ask(ToLearn(chat))).now)

    async def learn_now(self, chat: str | None = None) -> int:
        """Wait for what is due to be learned from; how many facts are new. Cancelled, it goes on behind.

        What cannot be done now is done later, so nothing is raised.
        """
        if self.extractor is None:
            return 0
        try:
            return await self.extractor.ask(LearnNow(chat))
        except ActorError as error:
            logger.info("nothing is learned now: %r", error)
            return 0

    async def learn_of(self, owner: str) -> int:
        """The same, of all that an owner has said so far, also where the session goes on.

        Raises:
            RumiError: nothing could be learned, and it is tried again later.
        """
        if not self.learns:
            return 0
        new = 0
        try:
            wanted = await self._sessions_of(owner)
            for chat in sorted({chat for chat, _ in wanted}):
                await self.journal.ask(AskToLearn(chat, retry=True))
                new += await self.learn_now(chat)
            failed = not new and wanted & await self._sessions_of(owner)
        except ActorError as error:
            raise RumiError("No facts are extracted now.", "Try again in a moment.") from error
        if failed:
            raise RumiError(
                "No facts could be extracted: the model did not answer.",
                "Rumi tries again by itself; rumi doctor --online says more.",
            )
        return new

    async def _sessions_of(self, owner: str) -> set[tuple[str, int]]:
        found = await self.journal.ask(ToLearn(going_on=True))
        return {key for key in found.now if self.ids.owner_of(key[0]) == owner}


def add_lessons(
    root: Supervisor, journal: ActorRef[JournalMessage], context: ChatContext, extract: Extract | None = None
) -> Lessons:
    """Add what learns from sessions, where there is a memory, and return what asks for it.

    `extract` draws facts from what was said. Without, sessions are not learned from.
    """
    if context.memory is None:
        return Lessons(journal, context.ids)
    spec = ChildSpec("extractor", lambda: FactExtractor(journal, context, extract), capacity=1024)
    return Lessons(journal, context.ids, root.add(spec), context.thinks and extract is not None)
