"""Meaning of the reasons that servers give for the end of a reply.

The reasons come from the public references of OpenAI, Azure, Anthropic, Gemini, Vertex AI, Mistral, Cohere,
DeepSeek, Zhipu, MiniMax, Bedrock, OpenRouter, Groq, vLLM, SGLang, llama.cpp and Ollama. A reason that no row
knows is `unknown`: its answer is shown with the reason.
"""

import re
from functools import lru_cache
from typing import Final, Literal, TypeAlias

Ending: TypeAlias = Literal["stop", "tool_calls", "length", "filtered", "malformed", "failed", "unknown"]

_ROWS: Final[tuple[tuple[Ending, str], ...]] = (
    # The first row that matches decides: `malformed_function_call` is no call, `error_limit` no length.
    ("malformed", r"malformed|unexpected_tool|too_many_tool|invalid_tool|invalid_function|missing_thought"),
    ("filtered", r"filter|refus|safety|sensitive|recitation|prohibit|blocklist|block_?reason|blocked|spii"
                 r"|moderation|guardrail|toxic|violation|policy|harm|inspection|risk|^language$|flagged"),
    ("failed", r"error|fail|abort|cancel|timeout|time_?out|timed_out|network|interrupt|insufficient"
               r"|unavailable|overload|exception|disconnect|^(un)?load$|^other$|incomplete|repetition|rate_limit|quota|exhaust|killed|crash|^user_"),
    ("length", r"length|max_?(new_)?tokens|max_?output|token_?limit|context_window|context_full|truncat"
               r"|^limit(ed)?$|pause_turn"),
    ("tool_calls", r"tool|function|^action$"),
    ("stop", r"^stop|stop$|stop_?seq|^eos|^end|end_?turn|complete|^finish|^done|^success|^normal|^ok$"
             r"|^finish_reason_unspecified$"),
)  # fmt: skip
_PATTERNS: Final = tuple((ending, re.compile(pattern)) for ending, pattern in _ROWS)
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@lru_cache(256)
def ending_of(reason: str) -> Ending:
    """Return what a server's reason means, in any spelling: `MAX_TOKENS`, `maxTokens` or `max-tokens`."""
    name = _CAMEL.sub("_", reason.strip()).lower().replace("-", "_").replace(" ", "_")
    return next((ending for ending, pattern in _PATTERNS if pattern.search(name)), "unknown")
