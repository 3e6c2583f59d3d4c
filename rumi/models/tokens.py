"""A cheap, conservative estimate of tokens, with no tokenizer.

The rule: one token for every 3 bytes of UTF-8, rounded up, plus 4 for each message, 8 for each tool
call and 16 for each tool. English runs at 4 to 5 bytes a token, Spanish and code at 3 to 4, Chinese
and Japanese at about 3, so real text is overestimated by a quarter or so, which is the safe side both
for cutting history and for a budget of tokens a minute. Long runs of digits or base64 are the
exception: they can need up to twice what is estimated here.
"""

import json
from collections.abc import Iterable

from rumi.models.types import Message, ModelRequest, ToolSpec

BYTES_PER_TOKEN = 3
PER_MESSAGE = 4
PER_CALL = 8
PER_TOOL = 16


def text_tokens(text: str) -> int:
    """About how many tokens `text` is; 0 for no text."""
    length = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return -(-length // BYTES_PER_TOKEN)


def message_tokens(message: Message) -> int:
    """About how many tokens a message takes in a prompt, its tool calls and what led to them included."""
    total = PER_MESSAGE + text_tokens(message.content) + text_tokens(message.reasoning)
    for call in message.tool_calls:
        total += PER_CALL + text_tokens(call.name) + text_tokens(call.arguments)
    return total


def tool_tokens(tool: ToolSpec) -> int:
    """About how many tokens a tool's description takes in a prompt."""
    schema = json.dumps(tool.parameters, default=dict)
    return PER_TOOL + text_tokens(tool.name) + text_tokens(tool.description) + text_tokens(schema)


def messages_tokens(messages: Iterable[Message]) -> int:
    """About how many tokens these messages take together."""
    return sum(map(message_tokens, messages))


def request_tokens(request: ModelRequest) -> int:
    """About how many tokens a whole request takes, its tools included."""
    return messages_tokens(request.messages) + sum(map(tool_tokens, request.tools))
