"""Requests the extraction of facts from a session when it ends, or when a person asks for it or leaves."""

import logging
from contextlib import suppress
from dataclasses import dataclass

from actors import ActorError, ActorRef, ActorStopped, ChildSpec, MailboxFull, Supervisor
from rumi.chats.context import ChatContext
from rumi.chats.fact_extractor import Extract, ExtractNow, ExtractorMessage, FactExtractor, SessionEnded
from rumi.errors import RumiError
from rumi.platform.chat_ids import ChatIds
from rumi.store.journal.extraction import find_due_sessions, request_extraction
from rumi.store.journal.transaction import JournalMessage

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FactExtraction:
    """Requests the extraction of facts from sessions. Does nothing unless `enabled`."""

    journal: ActorRef[JournalMessage]
    ids: ChatIds
    extractor: ActorRef[ExtractorMessage] | None = None
    enabled: bool = False

    async def take_over(self, numbers: frozenset[int]) -> None:
        """From now on, also extract facts from the sessions of chats in these partitions."""
        self.session_ended()

    async def hand_over(self, numbers: frozenset[int], patience_s: float) -> None:
        """Do nothing: extraction may go on, because facts that two workers extract are stored only once."""

    def session_ended(self) -> None:
        """Notify the extractor that a session has ended. Never waits."""
        if self.extractor is not None:
            with suppress(ActorStopped, MailboxFull):  # the extractor also looks every `LOOK_S`
                self.extractor.tell_nowait(SessionEnded())

    async def request_extraction(self, chat: str | None = None) -> bool:
        """Request extraction from the current session of the chat, or of all chats; the session continues.

        Return True if there is anything to extract. Extractions that are unfinished when the process ends are
        done after the next start.
        """
        if self.enabled:
            await self.journal.ask(request_extraction(chat))
        return await self.is_due(chat)

    async def is_due(self, chat: str | None = None) -> bool:
        """Return True if a session of the chat, or of any chat, is due for extraction."""
        return self.enabled and bool((await self.journal.ask(find_due_sessions(chat))).now)

    async def extract_now(self, chat: str | None = None) -> int:
        """Extract facts from all due sessions of the chat, or of all chats; return the number of new facts.

        On cancellation the extraction continues in the background. A failed extraction is repeated later, so
        no expected error is raised.
        """
        if self.extractor is None:
            return 0
        try:
            return await self.extractor.ask(ExtractNow(chat))
        except ActorError as error:
            logger.info("nothing is learned now: %r", error)
            return 0

    async def extract_for_owner(self, owner: str) -> int:
        """Extract facts from all sessions of an owner, even if they continue; return the number of new facts.

        Raises:
            RumiError: no facts could be extracted; another attempt follows later.
        """
        if not self.enabled:
            return 0
        new = 0
        try:
            wanted = await self._sessions_of(owner)
            for chat in sorted({chat for chat, _ in wanted}):
                await self.journal.ask(request_extraction(chat, retry=True))
                new += await self.extract_now(chat)
            failed = not new and wanted & await self._sessions_of(owner)
        except ActorError as error:
            raise RumiError("No facts are extracted now.", "Try again in a moment.") from error
        if failed:
            raise RumiError(
                "No facts could be extracted: the model did not answer.",
                "Rumi tries again later; rumi doctor --online says more.",
            )
        return new

    async def _sessions_of(self, owner: str) -> set[tuple[str, int]]:
        found = await self.journal.ask(find_due_sessions(going_on=True))
        return {key for key in found.now if self.ids.owner_of(key[0]) == owner}


def add_fact_extraction(
    root: Supervisor, journal: ActorRef[JournalMessage], context: ChatContext, extract: Extract | None = None
) -> FactExtraction:
    """Add the fact extractor to the actor tree if there is a memory; return a `FactExtraction`.

    `extract` extracts facts from messages; without it, sessions are skipped.
    """
    if context.memory is None:
        return FactExtraction(journal, context.ids)
    spec = ChildSpec("extractor", lambda: FactExtractor(journal, context, extract), capacity=1024)
    return FactExtraction(journal, context.ids, root.add(spec), context.thinks and extract is not None)
