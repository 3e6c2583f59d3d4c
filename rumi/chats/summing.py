"""Conversation memory: the model's summary replaces the part of the history that no longer fits the prompt.

The summary is written in the background after a turn, and replaces the beginning of the session, up to the
end of an exchange or of a step within a long one. Summaries are rare and each covers a large part: see
`rumi.chats.session`. `rumi.agent.compaction` writes and checks them. If the model cannot be reached, the
history is cut.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import trio

from actors import ActorError, ActorRef
from rumi.agent.compaction.summaries import TRANSCRIPT_SHARE, as_message, compact
from rumi.chats.session import ChatSession, merged, over
from rumi.errors import RumiError
from rumi.models.fitting import messages_tokens
from rumi.models.model import Message, Model
from rumi.models.token_budget import context_of, prompt_share
from rumi.store.journal.history import left_out, summarize
from rumi.store.journal.records import HistoryEntry, Summary
from rumi.store.journal.transaction import JournalMessage
from rumi.texts import Language

logger = logging.getLogger(__name__)

SUMMARY_S = 300.0
"""Maximum time for one summary, in seconds.

A small model server takes minutes to read such a long prompt, and no user waits for the summary.
"""

AGAIN_AT = 1.1
"""After a failed attempt, the next one begins when the history has grown by this factor."""


async def sum_up(
    model: Model,
    earlier: Summary | None,
    entries: Sequence[HistoryEntry],
    prompt_tokens: int,
    kept: int = 0,
    keep: str = "",
) -> Summary:
    """Return a summary of these entries and of an `earlier` summary.

    `prompt_tokens` is the token budget of a prompt. `kept` is the number of entries that stay of the last
    turn. `keep` is what the user asks the summary to keep.

    Raises:
        ModelError: the model failed.
    """
    messages = [entry.message for entry in entries]
    before = earlier.text if earlier is not None else ""
    compaction = await compact(model, before, messages, prompt_tokens, cut=kept > 0, keep=keep)
    return replace(over(earlier, entries), text=compaction.text, kept=kept)


def shown(summary: Summary) -> Message:
    """Return the summary as a message of the prompt; a tainted summary is delimited as untrusted."""
    return as_message(summary.text, tainted=summary.tainted, gap=summary.gap)


class Summing:
    """Keeps one chat's history within the prompt's budget, one summary at a time.

    `context_tokens` is the token budget of a model call, prompt and reply together.
    """

    def __init__(
        self,
        chat_session: ChatSession,
        journal: ActorRef[JournalMessage],
        model_for: Callable[[str, Language, str], Model],
        context_tokens: int,
    ) -> None:
        self._chat = chat_session.chat
        self._session = chat_session
        self._journal = journal
        self._model_for = model_for
        self._context_tokens = context_tokens
        self._scope: trio.CancelScope | None = None
        self._again_at = 0.0

    def begin(self) -> bool:
        """Return True if a summary is needed and none is in progress; the caller must then start `run`."""
        # The scope is set here and not in `run`: until that task starts, a second `begin` must be refused
        # and `stop` needs something to cancel.
        if self._scope is not None or not self._due():
            return False
        if self._tokens() < self._again_at:
            return False
        self._scope = trio.CancelScope()
        return True

    async def run(self, language: Language, chosen: str) -> None:
        """Write and apply a summary; then another one if entries added meanwhile make it necessary.

        The model is the one that was `chosen` for the preceding turn. On any failure the history does not
        change, and nothing is raised.
        """
        assert self._scope is not None
        self._again_at = self._tokens() * AGAIN_AT
        try:
            with self._scope:
                done = True
                while done and self._due():
                    done = False
                    with trio.move_on_after(SUMMARY_S):
                        done = await self._sum_up(language, chosen)
                if done:
                    self._again_at = 0.0
        except (RumiError, ActorError) as error:
            logger.info("chat %s: no summary: %s", self._chat, error)
        except Exception as error:  # a summary is only an optimization: its failure must not crash the chat
            logger.warning("chat %s: no summary", self._chat, exc_info=error)
        finally:
            self._scope = None

    def stop(self) -> None:
        """Cancel the summary that is being written, because its session has ended."""
        self._again_at = 0.0
        if self._scope is not None:
            self._scope.cancel()

    async def _sum_up(self, language: Language, chosen: str) -> bool:
        """Write, store and apply one summary; return False if there was nothing to summarize.

        Also return False if the session has ended meanwhile.
        """
        chat_session = self._session
        session, earlier, entries = chat_session.session, chat_session.summary, self._outgrown()
        model = self._model_for(self._chat, language, chosen)
        prompt_tokens = prompt_share(context_of(model, self._context_tokens))
        kept = _kept(entries, chat_session.entries)
        if earlier is not None and earlier.gap:
            most, kept = int(prompt_tokens * TRANSCRIPT_SHARE), 0
            entries = await self._journal.ask(left_out(self._chat, session, most))
        if not entries:
            return False
        summary = await sum_up(model, earlier, entries, prompt_tokens, kept)
        # The history may have been cut while the model wrote. The taint and the URLs of what was cut must
        # not get lost when the new summary replaces the cut's.
        cut = chat_session.summary
        if cut is not None and cut is not earlier:
            summary = replace(summary, tainted=summary.tainted or cut.tainted, links=merged(summary, cut))
        stored = await self._journal.ask(summarize(self._chat, session, summary))
        if stored is None:
            return False
        chat_session.stand_in(session, stored)
        return True

    def _due(self) -> bool:
        summary = self._session.summary
        return bool(self._outgrown()) or (summary is not None and summary.gap)

    def _outgrown(self) -> tuple[HistoryEntry, ...]:
        """Return the oldest entries, which must be summarized, without entries of the running turn."""
        budget, turn, entries = self._session.budget, self._session.turn, self._session.entries
        running = next((n for n, entry in enumerate(entries) if entry.turn == turn), len(entries))
        return budget.outgrown(entries[:running]) if budget is not None else ()

    def _tokens(self) -> int:
        return messages_tokens(entry.message for entry in self._session.entries)


def _kept(outgrown: Sequence[HistoryEntry], entries: Sequence[HistoryEntry]) -> int:
    """Return how many entries stay of the last turn of the `outgrown` beginning of these `entries`."""
    turn = outgrown[-1].turn if outgrown else None
    return sum(entry.turn == turn for entry in entries[len(outgrown) :])
