"""Conversation memory: what no longer fits into the prompt is told in a summary, made by the model.

It is made in the background when a turn has ended, and stands for whole exchanges from the beginning of the
session. It is made seldom, and of much: see `rumi.chats.session`. Where it cannot be made the history is cut.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import trio

from actors import ActorError, ActorRef
from rumi.chats.session import ChatSession, merged, over
from rumi.chats.summary_text import INSTRUCTIONS, SHORTER, bounded, fits
from rumi.errors import RumiError
from rumi.models.fitting import messages_tokens
from rumi.models.model import Message, Model, ModelError, ModelRequest, text_tokens
from rumi.models.token_budget import context_of, prompt_share
from rumi.platform.texts.language import Language
from rumi.platform.untrusted_text import untrusted_block
from rumi.store.journal.history import LeftOut, Summarize
from rumi.store.journal.records import HistoryEntry, Summary
from rumi.store.journal.transaction import JournalMessage

logger = logging.getLogger(__name__)

SUMMARY_S = 300.0
"""How long the model may take for it: a small server reads so much for minutes, and nobody waits for it."""

AGAIN_AT = 1.1
"""After a try in vain the next one comes when the history has grown so many times."""

TRANSCRIPT_SHARE = 0.75
"""How much of the room for a prompt the conversation may take that a summary is made of."""

RESULT_CHARS = 600
"""How much of a tool's result the summary is made of."""
MESSAGE_CHARS = 3000
"""How much of any other message."""

NO_SUMMARY = "[The beginning of this conversation is left out: there is no room for it.]"
GAP = "[… what followed is left out: there is no room for it …]"


async def sum_up(
    model: Model, earlier: Summary | None, entries: Sequence[HistoryEntry], max_tokens: int
) -> Summary:
    """A summary of whole exchanges, and of what an earlier one stands for. `max_tokens` is for the request.

    Raises:
        RumiError: the model failed, or said nothing.
    """
    transcript = _transcript(earlier, entries, max_tokens)
    messages = (Message("system", INSTRUCTIONS), Message("user", transcript))
    text = await _written(model, messages)
    if not text:
        raise RumiError("The model's summary is empty.")
    if not fits(text):
        again = Message("user", SHORTER.format(words=len(text.split())))
        try:
            shorter = await _written(model, (*messages, Message("assistant", bounded(text)), again))
        except ModelError as error:  # it is too long, and better than none
            logger.info("a summary was not made shorter: %s", error)
        else:
            text = shorter or text
    return replace(over(earlier, entries), text=bounded(text))


async def _written(model: Model, messages: tuple[Message, ...]) -> str:
    request = ModelRequest(messages, temperature=0.2, effort="low")
    return (await model.reply(request, lambda event: None)).text.strip()


def shown(summary: Summary) -> Message:
    """The summary as the prompt has it. Where something from outside went into it, it is data."""
    if not summary.text:
        return Message("user", NO_SUMMARY)
    gap = f"\n{GAP}" if summary.gap else ""
    if summary.tainted:
        text = untrusted_block("summary of the earlier conversation", summary.text + gap)
        return Message(
            "user", f"[Summary of the earlier conversation, which read things from outside]\n{text}"
        )
    return Message(
        "user", f"[Summary of the earlier conversation]\n{summary.text}{gap}\n[End of the summary]"
    )


def _transcript(earlier: Summary | None, entries: Sequence[HistoryEntry], max_tokens: int) -> str:
    """The conversation in lines, its middle left out where it is too long for one request."""
    first = [f"Earlier summary: {earlier.text}"] if earlier else []
    lines = [line for entry in entries for line in _lines(entry.message)]
    left = max_tokens - sum(map(text_tokens, first))
    kept: list[str] = []
    for line in reversed(lines):
        left -= text_tokens(line) + 1
        if left < 0:
            kept.append("[… something is left out here …]")
            break
        kept.append(line)
    return "\n".join(first + kept[::-1])


def _lines(message: Message) -> list[str]:
    if message.role == "system":  # the program's own: what still holds is told again
        return []
    who = {"user": "User", "assistant": "You", "tool": "Result"}[message.role]
    most = RESULT_CHARS if message.role == "tool" else MESSAGE_CHARS
    said = [f"{who}: {_short(message.content, most)}"] if message.content.strip() else []
    return said + [
        f"You called {call.name}: {_short(call.arguments, RESULT_CHARS)}" for call in message.tool_calls
    ]


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} […]"


class Summing:
    """Keeps one chat's history within its prompt, one summary at a time.

    `context_tokens` is the most that a model is given, prompt and reply together.
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
        """Return True if a summary is needed and none is being made: the caller then starts `run`."""
        if self._scope is not None or not self._due():
            return False
        if self._tokens() < self._again_at:
            return False
        self._scope = trio.CancelScope()
        return True

    async def run(self, language: Language, chosen: str) -> None:
        """Make the summary, and let it stand; then one of what came meanwhile, if that is needed already.

        The model is the one that was `chosen` for the turn before it.

        Whatever goes wrong, the history is as it was.
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
        except Exception as error:  # what is only kept shorter by it must not take the chat along
            logger.warning("chat %s: no summary", self._chat, exc_info=error)
        finally:
            self._scope = None

    def stop(self) -> None:
        """The session is over: what is being made is of no use any more."""
        self._again_at = 0.0
        if self._scope is not None:
            self._scope.cancel()

    async def _sum_up(self, language: Language, chosen: str) -> bool:
        """Return True if there is one; not where the session has ended."""
        chat_session = self._session
        session, earlier, entries = chat_session.session, chat_session.summary, self._outgrown()
        model = self._model_for(self._chat, language, chosen)
        most = int(prompt_share(context_of(model, self._context_tokens)) * TRANSCRIPT_SHARE)
        if earlier is not None and earlier.gap:
            entries = await self._journal.ask(LeftOut(self._chat, session, most))
        if not entries:
            return False
        summary = await sum_up(model, earlier, entries, most)
        cut = chat_session.summary  # another one, where history was cut meanwhile
        if cut is not None and cut is not earlier:
            summary = replace(summary, tainted=summary.tainted or cut.tainted, links=merged(summary, cut))
        stored = await self._journal.ask(Summarize(self._chat, session, summary))
        if stored is None:
            return False
        chat_session.stand_in(session, stored)
        return True

    def _due(self) -> bool:
        summary = self._session.summary
        return bool(self._outgrown()) or (summary is not None and summary.gap)

    def _outgrown(self) -> tuple[HistoryEntry, ...]:
        """Return what should be summed up of the turns that have ended."""
        budget, turn, entries = self._session.budget, self._session.turn, self._session.entries
        running = next((n for n, entry in enumerate(entries) if entry.turn == turn), len(entries))
        return budget.outgrown(entries[:running]) if budget is not None else ()

    def _tokens(self) -> int:
        return messages_tokens(entry.message for entry in self._session.entries)
