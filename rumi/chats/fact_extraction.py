"""Has sessions learned from: when one ends, when a person asks for it, and when a person leaves a chat."""

import logging
from contextlib import suppress
from dataclasses import dataclass

from actors import ActorError, ActorRef, ActorStopped, ChildSpec, MailboxFull, Supervisor
from rumi.chats.context import ChatContext
from rumi.chats.fact_extractor import Extract, ExtractNow, ExtractorMessage, FactExtractor, SessionEnded
from rumi.errors import RumiError
from rumi.platform.chat_ids import ChatIds
from rumi.store.journal.extraction import FindDueSessions, RequestExtraction
from rumi.store.journal.transaction import JournalMessage

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FactExtraction:
    """Asks for sessions to be learned from. If nothing `learns`, all of it does nothing."""

    journal: ActorRef[JournalMessage]
    ids: ChatIds
    extractor: ActorRef[ExtractorMessage] | None = None
    enabled: bool = False

    async def take_over(self, numbers: frozenset[int]) -> None:
        """Learn from the sessions of these partitions as well."""
        self.session_ended()

    async def hand_over(self, numbers: frozenset[int], patience_s: float) -> None:
        """Nothing is to be done: what another worker has learned first is learned once."""

    def session_ended(self) -> None:
        """Tell the extractor that a session has ended. Never waits."""
        if self.extractor is not None:
            with suppress(ActorStopped, MailboxFull):  # it looks by itself now and then
                self.extractor.tell_nowait(SessionEnded())

    async def request_extraction(self, chat: str | None = None) -> bool:
        """Have the session of the chat, or of all chats, learned from although it goes on; whether there is
        anything to learn. What is not done when the program ends is done at the next start."""
        if self.enabled:
            await self.journal.ask(RequestExtraction(chat))
        return await self.is_due(chat)

    async def is_due(self, chat: str | None = None) -> bool:
        """Return True if there is anything to learn now, from the chat or from any."""
        return self.enabled and bool((await self.journal.ask(FindDueSessions(chat))).now)

    async def extract_now(self, chat: str | None = None) -> int:
        """Wait for what is due to be learned from; how many facts are new. Cancelled, it goes on behind.

        What cannot be done now is done later, so nothing is raised.
        """
        if self.extractor is None:
            return 0
        try:
            return await self.extractor.ask(ExtractNow(chat))
        except ActorError as error:
            logger.info("nothing is learned now: %r", error)
            return 0

    async def extract_for_owner(self, owner: str) -> int:
        """The same, of all that an owner has said so far, also where the session goes on.

        Raises:
            RumiError: nothing could be learned, and it is tried again later.
        """
        if not self.enabled:
            return 0
        new = 0
        try:
            wanted = await self._sessions_of(owner)
            for chat in sorted({chat for chat, _ in wanted}):
                await self.journal.ask(RequestExtraction(chat, retry=True))
                new += await self.extract_now(chat)
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
        found = await self.journal.ask(FindDueSessions(going_on=True))
        return {key for key in found.now if self.ids.owner_of(key[0]) == owner}


def add_fact_extraction(
    root: Supervisor, journal: ActorRef[JournalMessage], context: ChatContext, extract: Extract | None = None
) -> FactExtraction:
    """Add what learns from sessions, where there is a memory, and return what asks for it.

    `extract` draws facts from what was said. Without, sessions are not learned from.
    """
    if context.memory is None:
        return FactExtraction(journal, context.ids)
    spec = ChildSpec("extractor", lambda: FactExtractor(journal, context, extract), capacity=1024)
    return FactExtraction(journal, context.ids, root.add(spec), context.thinks and extract is not None)
