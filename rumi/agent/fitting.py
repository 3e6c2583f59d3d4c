"""Keeping a conversation within what a model takes, when a turn's own results have grown too long.

History is cut at whole exchanges before the turn. What the turn adds cannot be cut that way: every call
needs its result. So results are shortened, the oldest first, to their beginning.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from rumi.models import Message, message_tokens

SHORT_CHARS = 400
END_OF_BLOCK = re.compile(r"</[a-z_]{1,20}>")
"""The last line of a result that is a block of strangers' words: it stays closed."""
LATEST_SHARE = 0.5
"""How much of the room the latest result may take for itself."""


def fit(messages: Sequence[Message], max_tokens: int) -> tuple[Message, ...]:
    """The same conversation in about `max_tokens`, if shortening results can do it.

    The latest result is kept longest: the model has not seen it yet.
    """
    fitted = list(messages)
    total = sum(message_tokens(message) for message in fitted)
    results = [place for place, message in enumerate(fitted) if message.role == "tool"]
    for place in results:
        if total <= max_tokens:
            break
        latest = place == results[-1]
        chars = max(SHORT_CHARS, int(max_tokens * LATEST_SHARE)) if latest else SHORT_CHARS
        shorter = _shortened(fitted[place], chars)
        total += message_tokens(shorter) - message_tokens(fitted[place])
        fitted[place] = shorter
    return tuple(fitted)


def _shortened(message: Message, chars: int) -> Message:
    left_out = len(message.content) - chars
    if left_out <= 0:
        return message
    note = f"\n[… {left_out} characters left out: they no longer fit. Ask again for the part that you need …]"
    end = message.content.rsplit("\n", 1)[-1]
    if not END_OF_BLOCK.fullmatch(end):
        end = ""
    return replace(message, content=f"{message.content[:chars]}{note}" + (f"\n{end}" if end else ""))
