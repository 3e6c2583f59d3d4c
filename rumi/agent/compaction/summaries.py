"""Summaries by a model: the request, the second attempt, and the cut that replaces an unusable summary."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from rumi.agent.compaction.form import (
    AGAIN,
    INSTRUCTIONS,
    KEEP,
    NOW,
    bounded,
    fits,
    limit_of,
    problem_of,
    words_of,
)
from rumi.agent.compaction.record import RECORD, record_of, without_record
from rumi.models.fitting import messages_tokens
from rumi.models.model import Message, Model, ModelError, ModelRequest, Usage, text_tokens
from rumi.platform.untrusted_text import read_block, untrusted_block

logger = logging.getLogger(__name__)

KEPT_TOKENS: Final = 20_000
"""Maximum number of tokens at the end of a conversation that a summary leaves word for word."""

TRANSCRIPT_SHARE: Final = 0.75
"""Maximum share of the prompt's token budget for the conversation to summarize."""

RECORD_SHARE: Final = 0.5
"""Maximum size of the record, as a share of the limit of the summary."""

ROOMY: Final = (4_000, 12_000)
SHORT: Final = (600, 3_000)
"""Maximum number of characters of a tool result, and of any other message, in the input of a summary.

`SHORT` applies if the conversation does not fit the input with `ROOMY`.
"""

BEGINS: Final = "[Summary of the earlier conversation"
ENDS: Final = "[End of the summary]"
NO_SUMMARY: Final = "[The beginning of this conversation is left out: there is no room for it.]"
GAP: Final = "[… what followed is left out: there is no room for it …]"
CUT: Final = (
    "[A part of this conversation is cut here, because no usable summary of it could be written. Do not "
    "guess what it said: read the files again, or ask the user.]"
)


@dataclass(frozen=True, slots=True)
class Compaction:
    """The text that replaces a part of a conversation, and what writing it has used."""

    text: str
    usage: Usage


async def compact(
    model: Model,
    earlier: str,
    messages: Sequence[Message],
    prompt_tokens: int,
    *,
    cut: bool = False,
    keep: str = "",
) -> Compaction:
    """Return the text that replaces these messages and the text of an `earlier` summary.

    `prompt_tokens` limits the request, and decides the size of the text. `cut` means that the messages end
    within a turn. A summary that is not usable is requested once more, then replaced by a cut that says so.
    `keep` is what the user asks the summary to keep, empty if they do not say.

    Raises:
        ModelError: the model failed.
    """
    limit = limit_of(prompt_tokens)
    asking = _Asking(model, limit, messages_tokens(messages) + text_tokens(earlier))
    summary = await asking.summary(
        _transcript(earlier, messages, int(prompt_tokens * TRANSCRIPT_SHARE), limit, keep)
    )
    return Compaction(_with_record(summary, earlier, messages, limit, cut=cut), asking.usage)


def cut_off(earlier: str, messages: Sequence[Message], prompt_tokens: int, *, cut: bool = False) -> str:
    """Return the text that replaces these messages where no model can summarize them."""
    return _with_record("", earlier, messages, limit_of(prompt_tokens), cut=cut)


def as_message(text: str, *, tainted: bool = False, gap: bool = False, within: bool = False) -> Message:
    """Return the text as a message of a prompt; a tainted text is delimited as untrusted.

    `within` means that the text includes steps of the running turn, whose request follows.
    """
    if not text:
        return Message("user", NO_SUMMARY)
    about = ", and of your steps so far on the request below" if within else ""
    whole = f"{text}\n{GAP}" if gap else text
    if tainted:
        block = untrusted_block("summary of the earlier conversation", whole)
        return Message("user", f"{BEGINS}{about}, which read things from outside]\n{block}")
    return Message("user", f"{BEGINS}{about}]\n{whole}\n{ENDS}")


def is_summary(message: Message) -> bool:
    """Return True if the message is one that `as_message` has made of a text."""
    return message.role == "user" and message.content.startswith(BEGINS)


def text_in(message: Message) -> str:
    """Return the text of a message that `as_message` has made."""
    block = read_block(message.content)
    if block is not None:
        return block[1]
    return message.content.partition("\n")[2].removesuffix(ENDS).rstrip()


def _with_record(summary: str, earlier: str, messages: Sequence[Message], limit: int, *, cut: bool) -> str:
    """Return the whole text. An unusable summary is empty: then the earlier one stays, with a note."""
    if not summary:
        before = bounded(without_record(earlier).replace(CUT, "").strip(), limit)
        summary = f"{before}\n{CUT}" if before else CUT
    record = record_of(messages, earlier, cut=cut).text(int(limit * RECORD_SHARE))
    return "\n\n".join(filter(None, (summary.replace(RECORD, ""), record)))


@dataclass(slots=True)
class _Asking:
    """The requests for one summary of at most `limit` tokens, which replaces `replaced` tokens."""

    model: Model
    limit: int
    replaced: int
    usage: Usage = field(default_factory=Usage)

    async def summary(self, transcript: str) -> str:
        """Return a usable summary, at most `limit` tokens long; empty if two attempts were not usable."""
        messages = (Message("system", INSTRUCTIONS), Message("user", transcript))
        first = await self._written(messages)
        problem = self._problem(first)
        if not problem:
            return first
        request = AGAIN.format(problem=problem, words=words_of(self.limit))
        again = (Message("assistant", bounded(first, self.limit) or "-"), Message("user", request))
        second = ""
        try:
            second = await self._written((*messages, *again))
        except ModelError as error:
            if problem_of(first, self.limit, self.replaced):
                raise  # the history stays as it is, and a later attempt may succeed
            logger.info("a summary was not made shorter: %s", error)
        for text in (second, first):
            if not problem_of(text, self.limit, self.replaced):
                return bounded(text, self.limit)
        logger.warning("a summary was not usable: %s", self._problem(second))
        return ""

    def _problem(self, text: str) -> str:
        """Return why the text is not used as it is; empty if it is."""
        if problem := problem_of(text, self.limit, self.replaced):
            return problem
        return "" if fits(text, self.limit) else f"it is too long: {len(text.split())} words"

    async def _written(self, messages: tuple[Message, ...]) -> str:
        reply = await self.model.reply(
            ModelRequest(messages, temperature=0.2, effort="low"), lambda event: None
        )
        self.usage += reply.usage
        return reply.text.strip()


def _transcript(
    earlier: str, messages: Sequence[Message], max_tokens: int, limit: int, keep: str = ""
) -> str:
    """Return the conversation as lines; omit its middle if it is too long for one request."""
    first = [f"Earlier summary: {without_record(earlier)}"] if earlier else []
    last = NOW.format(words=words_of(limit)) + (KEEP.format(keep=keep) if keep else "")
    left = max_tokens - sum(map(text_tokens, (*first, last)))
    lines = _all_lines(messages, *ROOMY)
    if sum(text_tokens(line) + 1 for line in lines) > left:
        lines = _all_lines(messages, *SHORT)
    kept: list[str] = []
    for line in reversed(lines):
        left -= text_tokens(line) + 1
        if left < 0:
            kept.append("[… something is left out here …]")
            break
        kept.append(line)
    return "\n".join([*first, *kept[::-1], last])


def _all_lines(messages: Sequence[Message], result_chars: int, message_chars: int) -> list[str]:
    return [line for message in messages for line in _lines(message, result_chars, message_chars)]


def _lines(message: Message, result_chars: int, message_chars: int) -> list[str]:
    if message.role == "system":  # a prompt note: the next full note repeats what is still valid
        return []
    who = {"user": "User", "assistant": "You", "tool": "Result"}[message.role]
    most = result_chars if message.role == "tool" else message_chars
    said = [f"{who}: {_short(message.content, most)}"] if message.content.strip() else []
    return said + [
        f"You called {call.name}: {_short(call.arguments, result_chars)}" for call in message.tool_calls
    ]


def _short(text: str, most: int) -> str:
    """Return the beginning and the end of a text: errors are at the end of results."""
    return text if len(text) <= most else f"{text[: most // 2]} […] {text[-most // 2 :]}"
