"""Shortening of requests that exceed the model's token budget.

A turn loads only as much history as fits, and cuts each new tool result to the remaining budget. This module
handles requests that still do not fit: a request to a fallback with a smaller budget, a request after a
refusal that revealed the limit, or a request with many results. The oldest content is shortened first.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from rumi.models.model import BYTES_PER_TOKEN, PER_PICTURE, Message, ModelRequest, ToolCall, text_tokens
from rumi.models.wire import arguments_object

SHORT_CHARS: Final = 400
"""Number of characters that remain of a shortened result or a shortened argument."""

NOTE_TOKENS: Final = 60
"""Tokens reserved for the note about the omitted part, and for the line that ends a block."""

HISTORY_SHARE: Final = 0.25
"""Before the latest result is cut, earlier exchanges are removed until they take this share of the budget."""

_NOTE_CHARS: Final = 200

_END_OF_BLOCK: Final = re.compile(r"^(</[a-z_]{1,20}>)\Z", re.MULTILINE)
"""Pattern of the last line of a delimited untrusted block; a shortened block must still end with the line."""
_BEGIN_OF_BLOCK: Final = re.compile(r"^<([a-z_]{1,20})(?: [^\n]*)?>$", re.MULTILINE)


_NOTES: Final = re.compile(r"(?:\n\[Note from the program: [^\n]*\])+\Z")


def without_notes(result: str) -> str:
    """Return a tool's result without the notes that Rumi has appended."""
    return _NOTES.sub("", result)


def fitted(request: ModelRequest, max_tokens: int | None) -> ModelRequest:
    """Return the request cut to about `max_tokens`, if possible. With None, return the request unchanged.

    Content is shortened in this order, and only as far as needed: reasoning and results of earlier steps,
    earlier exchanges, long arguments, the latest result, and finally the longest remaining texts. The
    instructions stay complete, and every call keeps its result.
    """
    if max_tokens is None or (excess := request_tokens(request) - max_tokens) <= 0:
        return request
    fit = _Fit(list(request.messages), excess)
    results = [index for index, message in enumerate(fit.messages) if message.role == "tool"]
    for index in _replies(fit.messages)[:-1]:
        fit.change(index, replace(fit.messages[index], reasoning=""))
    for index in results[:-1]:
        fit.change(index, shortened(fit.messages[index], SHORT_CHARS))
    # The messages themselves, because `forget` shifts all indexes.
    latest = [fit.messages[place] for place in results[-1:]]
    fit.forget(int(max_tokens * HISTORY_SHARE))
    for index in _replies(fit.messages):
        calls = tuple(map(_short_call, fit.messages[index].tool_calls))
        fit.change(index, replace(fit.messages[index], tool_calls=calls))
    for message in latest:
        if message in fit.messages:  # `forget` may have removed it with its exchange
            fit.cut(fit.messages.index(message))
    fit.forget(0)
    rest = [index for index, message in enumerate(fit.messages) if message.role != "system"]
    for index in sorted(rest, key=lambda at: -len(fit.messages[at].content)):
        fit.cut(index)
    return replace(request, messages=tuple(fit.messages))


def without_pictures(message: Message, why: str = "it no longer fits") -> Message:
    """Return a message with a note in place of each picture."""
    if not message.pictures:
        return message
    notes = [f"[The picture {picture.path} is left out: {why}.]" for picture in message.pictures]
    return replace(message, content="\n".join(filter(None, (message.content, *notes))), pictures=())


def seen_by(request: ModelRequest, *, takes_pictures: bool) -> ModelRequest:
    """Return the request, with a note in place of each picture that cannot be sent to the model.

    If the model accepts no pictures, all pictures are replaced. Otherwise, all pictures of a message are
    replaced if the bytes of any one of them were not read.
    """
    if not any(message.pictures for message in request.messages):
        return request
    why = "its file was not read" if takes_pictures else "this model takes none"
    messages = (
        message
        if takes_pictures and all(picture.data for picture in message.pictures)
        else without_pictures(message, why)
        for message in request.messages
    )
    return replace(request, messages=tuple(messages))


def cut_to(message: Message, max_tokens: int) -> Message:
    """Return a tool's result cut to about `max_tokens`, but not below its first `SHORT_CHARS` characters."""
    if text_tokens(message.content) + PER_PICTURE * len(message.pictures) <= max_tokens:
        return message
    message = without_pictures(message)
    return shortened(message, max(SHORT_CHARS, _chars(message.content, max_tokens - NOTE_TOKENS)))


def shortened(message: Message, chars: int) -> Message:
    """Return a message cut to its first `chars` characters, with a note about the omitted part."""
    message = without_pictures(message)
    left_out = len(message.content) - chars
    if left_out <= 0:
        return message
    note = f"\n[… {left_out} characters left out: they no longer fit. Ask again for the part that you need …]"
    end = _END_OF_BLOCK.search(without_notes(message.content))
    return replace(message, content=f"{message.content[:chars]}{note}" + (f"\n{end[1]}" if end else ""))


class _Fit:
    """A conversation that is being cut. `excess` is the number of tokens above the budget.

    The methods that shorten or remove messages do nothing once there is no excess.
    """

    def __init__(self, messages: list[Message], excess: int) -> None:
        self.messages = messages
        self.excess = excess

    def change(self, index: int, message: Message) -> None:
        """Replace a message if the new message has fewer tokens."""
        saved = self.messages[index].tokens - message.tokens
        if self.excess > 0 and saved > 0:
            self.messages[index] = message
            self.excess -= saved

    def cut(self, index: int) -> None:
        """Shorten a message as far as needed.

        A tool result loses its end; any other message loses its middle.
        """
        message = self.messages[index]
        pictures = PER_PICTURE * len(message.pictures)
        least = max(0, text_tokens(message.content) + pictures - self.excess)
        if message.role == "tool":
            self.change(index, cut_to(message, least))
        else:
            self.change(index, _without_middle(message, least))

    def forget(self, keep_tokens: int) -> None:
        """Remove the oldest exchanges until the request fits or past exchanges take at most `keep_tokens`."""
        first = next((n for n, message in enumerate(self.messages) if message.role != "system"), 0)
        starts = [n for n in range(first, len(self.messages)) if self._begins(n)]
        if len(starts) < 2:
            return
        costs = [message.tokens for message in self.messages]
        left = sum(costs[first : starts[-1]])
        until = first
        for start in starts[1:]:
            if self.excess <= 0 or left <= keep_tokens:
                break
            saved = sum(costs[until:start])
            self.excess, left, until = self.excess - saved, left - saved, start
        del self.messages[first:until]

    def _begins(self, index: int) -> bool:
        """Return True if a user message is at `index` and no user message is directly before it."""
        before = self.messages[index - 1].role if index else "system"
        return self.messages[index].role == "user" and before != "user"


def _replies(messages: Sequence[Message]) -> list[int]:
    return [index for index, message in enumerate(messages) if message.role == "assistant"]


def _chars(text: str, max_tokens: int) -> int:
    """Return the number of characters of `text` that take about `max_tokens`."""
    size = len(text.encode("utf-8", "replace")) or 1
    return max(0, max_tokens * BYTES_PER_TOKEN * len(text) // size)


def _without_middle(message: Message, max_tokens: int) -> Message:
    """Return a message with a note in place of its middle.

    The beginning and the end both stay, because the user's request may be in either part.
    """
    message = without_pictures(message)
    text = message.content
    kept = max(SHORT_CHARS, _chars(text, max_tokens - NOTE_TOKENS))
    left_out = len(text) - kept
    if left_out <= 0:
        return message
    head, tail = text[: kept * 2 // 3], text[len(text) - kept // 3 :]
    # Untrusted text must stay inside its delimiters: reopen the block if its start was in the omitted middle.
    opened = _open_block(text[: len(text) - len(tail)])
    again = f"{opened}\n" if opened != _open_block(head) else ""
    note = f"\n[… {left_out} characters left out: they do not fit …]\n"
    return replace(message, content=f"{head}{note}{again}{tail}")


def _open_block(text: str) -> str:
    """Return the opening line of the text's last block if that block is not closed; otherwise empty."""
    begins = list(_BEGIN_OF_BLOCK.finditer(text))
    if not begins or f"\n</{begins[-1][1]}>" in text[begins[-1].end() :]:
        return ""
    return begins[-1][0]


def _short_call(call: ToolCall) -> ToolCall:
    """Return a past call with its long arguments cut. They are not needed: the call has already run."""
    if len(call.arguments) <= SHORT_CHARS:
        return call
    arguments = arguments_object(call.arguments)
    if arguments is None:
        return replace(call, arguments=call.arguments[:SHORT_CHARS])
    short = {
        name: f"{value[:SHORT_CHARS]}…" if isinstance(value, str) and len(value) > SHORT_CHARS else value
        for name, value in arguments.items()
    }
    return replace(call, arguments=json.dumps(short, ensure_ascii=False))


def in_short(message: Message) -> Message:
    """Return a tool result cut to its beginning and its end, with a note about the omitted part.

    A short result stays unchanged.
    """
    if message.role != "tool":
        return message
    message = without_pictures(message)
    if len(message.content) <= SHORT_CHARS + _NOTE_CHARS:
        return message
    text = without_notes(message.content)
    head, tail = text[: SHORT_CHARS * 2 // 3], text[len(text) - SHORT_CHARS // 3 :]
    if _open_block(text[: len(text) - len(tail)]) != _open_block(head):  # the end of a block that began later
        return shortened(message, SHORT_CHARS)
    left_out = len(message.content) - len(head) - len(tail)
    note = (
        f"\n[… {left_out} characters left out: they no longer fit. Ask again for the part that you need …]\n"
    )
    return replace(message, content=f"{head}{note}{tail}")


def messages_tokens(messages: Iterable[Message]) -> int:
    """Return the estimated total number of tokens of the messages."""
    return sum([message.tokens for message in messages])


def request_tokens(request: ModelRequest) -> int:
    """Return the estimated number of tokens of a whole request, including its tools."""
    return messages_tokens(request.messages) + sum([tool.tokens for tool in request.tools])
