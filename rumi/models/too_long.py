"""How servers say that a request is too large, as a table, and the figures that their sentences contain.

Each row is one wording. The comments name servers that use it; the rows match it from any server, because
proxies pass the sentences of others on. Sources: the servers' documentation and public reports of other
programs, whose users were stuck with these sentences.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, TypeAlias

from rumi.models.model import TooLarge

About: TypeAlias = Literal["prompt", "sum", "reply"]
"""What is too large: the prompt, the prompt plus the longest reply asked for, or that reply alone."""

LEAST_CONTEXT: Final = 1024
"""Smaller numbers in an error text are not taken for the model's context size."""

LEAST_REPLY: Final = 16
"""Smaller numbers are not taken for the longest reply: `max_tokens must be greater than 0`."""

USUAL_REPLY: Final = 4096
"""The longest reply to ask for if a server refuses a longer one and does not say how long it may be."""

MAX_SAID_CHARS: Final = 4000
"""Only the beginning of an error text is searched."""

NEVER: Final = frozenset({401, 402, 403, 404})
"""Statuses that are not about size, whatever the text says."""

CODES: Final = frozenset(
    {
        "context_length_exceeded",  # OpenAI, Groq, Cerebras
        "exceed_context_size_error",  # llama.cpp
        "model_context_window_exceeded",  # Z.ai
        "request_too_large",  # Anthropic
        "input_too_large",  # xAI
        "tokens_limit_reached",  # GitHub Models
        "1261",  # Zhipu
    }
)

_FIGURE: Final = r"\d[\d,]{0,14}"
_GROUPS: Final = {
    "L": f"(?P<limit>{_FIGURE})",
    "S": f"(?P<size>{_FIGURE})",
    "T": f"(?P<total>{_FIGURE})",
    "R": f"(?P<reply>{_FIGURE})",
    "N": _FIGURE,
    "MAX": r"max_?(?:completion_?|output_?|new_?)?tokens",
}

WORDINGS: Final[tuple[tuple[About, str], ...]] = (
    # The prompt and the reply together. Before the others, whose words their sentences contain too.
    ("sum", r"exceed context limit: <S> \+ <R> > <L>"),  # Anthropic
    ("sum", r"context length is <L> tokens.{0,60}requested (?:about )?<T> tokens \(<N>.{0,90}?"
            r"<R> (?:in|for) the (?:completion|output)"),  # OpenAI, DeepSeek, vLLM, OpenRouter
    ("sum", r"context length is <L> tokens.{0,60}requested <R> output tokens and your prompt contains "
            r"(?:at least <N>|<S>) input tokens"),  # vLLM; "at least" is not the prompt's size
    ("sum", r"context length is <L> tokens and your request has <S> input tokens"),  # vLLM
    ("sum", r"context length of <L> tokens\. You requested a total of <T> tokens: <N> tokens from the input "
            r"messages and <R> tokens for the completion"),  # SGLang
    ("sum", r"inputs`? tokens \+ `?max_new_tokens`? must be <= <L>\. Given: <S> `?inputs`? tokens and <R>"),
    ("sum", r"input and maximum output tokens \(<T>\) exceeded this model context window limit \(<L>\)"),

    # The longest reply that was asked for.
    ("reply", r"supports at most <R> (?:completion|output) tokens"),  # OpenAI
    ("reply", r"> <R>, which is the maximum (?:allowed )?number of output tokens"),  # Anthropic
    ("reply", r"range of <MAX>\W{1,3}(?:is|should be) \[\d{1,6}, ?<R>\]"),  # DeepSeek, Qwen
    ("reply", r"<MAX>\b.{0,120}?(?:<=|less than or equal to|lower than|at most|not exceed) ?[`'\"]?<R>"),
    ("reply", r"max tokens must be less than or equal to <R>, the maximum output"),  # Cohere
    ("reply", r"maximum tokens you requested exceeds the model limit of <R>"),  # Bedrock
    ("reply", r"maxOutputTokens value of <N> but the supported range is from \d \(inclusive\) to <R>"),
    ("reply", r"<MAX>\b.{0,60}?(?:between \d{1,6} and|range\D{0,20}\[?\d{1,6} ?(?:,|to|-)) ?<R>"),
    ("reply", r"<MAX>\b.{0,40}?(?:exceeds?|greater than|larger than|more than)\D{0,40}<R>"),
    ("reply", r"<MAX>['\"`]?.{0,12}(?:is too (?:large|high|big)|参数非法)"),  # Zhipu 1214

    # The prompt, with figures.
    ("prompt", r"<S> tokens > <L> maximum"),  # Anthropic
    ("prompt", r"prompt is too long: <S>, model maximum context length: <L>"),  # Fireworks
    ("prompt", r"maximum prompt length is <L> but the request contains <S> tokens"),  # xAI
    ("prompt", r"message \(<S> tokens\) exceeds budget \(<L> tokens\)"),  # xAI
    ("prompt", r"input token count \(<S>\) exceeds the maximum number of tokens allowed \(<L>\)"),  # Gemini
    ("prompt", r"exceeds the maximum number of (?:input )?tokens allowed:? \(?<L>"),  # Gemini
    ("prompt", r"cannot truncate to <L>, required <S>"),  # Gemini
    ("prompt", r"prompt contains <S> tokens.{0,60}too large for model with <L> maximum context"),  # Mistral
    ("prompt", r"too large for model with <L> maximum context"),
    ("prompt", r"context length is <L> tokens.{0,60}(?:resulted in|requested|contains?) <S> tokens"),
    ("prompt", r"input \(<S> tokens\) is longer than the model'?s context length \(<L> tokens\)"),  # SGLang
    ("prompt", r"input (?:length|prompt) \(<S>(?: tokens)?\).{0,20} exceeds? .{0,40}(?:length|limit)"
               r"(?: of)? \(?<L>"),  # SGLang, vLLM
    ("prompt", r"prompt \(length <S>\) is longer than the maximum model length of <L>"),  # vLLM
    ("prompt", r"(?:prompt|input) (?:token )?(?:length|count)(?: of)? \(?<S>(?: tokens)?\)? "
               r"(?:exceeds|cannot exceed) (?:the )?(?:maximum|max|limit)[a-z ]{0,40}\(?<L>"),  # NIM
    ("prompt", r"model token limit: <L> \(requested: <S>\)"),  # Kimi
    ("prompt", r"model token limit: <L>"),
    ("prompt", r"<S> input tokens exceeds the model'?s maximum context length <L>"),  # Zhipu 1210
    ("prompt", r"range of input length should be \[\d{1,3}, ?<L>\]"),  # Qwen
    ("prompt", r"token length exceeds? model limit \(<L>"),  # Qwen
    ("prompt", r"inputs`? must have less than <L> tokens\. Given: <S>"),  # text-generation-inference
    ("prompt", r"request \(<S> tokens\) exceeds the available context size \(<L> tokens\)"),  # llama.cpp
    ("prompt", r"exceeds? the available context size \(<L> tokens\)"),
    ("prompt", r"requested tokens \(<S>\) exceed context window of <L>"),  # llama-cpp-python
    ("prompt", r"keep the first <S> tokens .{0,80}context length of only <L> tokens"),  # LM Studio
    ("prompt", r"reached context length of <L> tokens"),  # LM Studio
    ("prompt", r"prompt has <S> tokens, but the configured context size is <L>"),
    ("prompt", r"exceed the configured limit of <L> tokens\. your messages resulted in <S>"),  # OpenAI
    ("prompt", r"current length is <S> while limit is <L>"),  # Cerebras
    ("prompt", r"tokens in the prompt cannot exceed <L> - received <S>"),  # Cohere
    ("prompt", r"max input tokens: <L>, request input token count: <S>"),  # Bedrock
    ("prompt", r"number of input tokens <S> cannot exceed the total tokens limit <L>"),  # watsonx
    ("prompt", r"input tokens must be no more than <L> but got <S>"),  # Yandex
    ("prompt", r"length of prompt_tokens \(<S>\) must be less than max_seq_len \(<L>\)"),  # SiliconFlow
    ("prompt", r"input length <S> exceeds the (?:maximum|max) (?:input )?length <L>"),  # Volcengine
    ("prompt", r"too large for .{1,80} max size: <L> tokens"),  # GitHub Models
    ("prompt", r"context window exceeds limit"),  # MiniMax, with an error number after it
    ("prompt", r"context (?:length|size|window)\D{0,40}<L>"),

    # Any other sentence with both figures.
    ("prompt", r"\(<S> tokens\).{0,30}(?:maximum|limit|max)\D{0,12}<L>"),
    ("prompt", r"(?:prompt|input|context|tokens|seq_?len)\b[^.]{0,60}?<S>[^.]{0,40}?(?:exceed|(?:greater"
               r"|longer|more|larger) than|over|above|>)[^.]{0,60}?<L>(?! bytes| characters)"),
    ("prompt", r"(?:shorter than|(?:greater|longer) than max_seq_?len) <L>"),  # Cohere, TabbyAPI

    # The prompt, without figures that count tokens.
    ("prompt", r"prompt (?:is )?too long|prompt 超长|prompt tokens too long"),  # Anthropic, Ollama
    ("prompt", r"prompt exceeds max length|tokens in request more than max tokens allowed"),  # Zhipu
    ("prompt", r"input is too long|input tokens? (?:is|are) too long|too many input tokens"),  # Bedrock
    ("prompt", r"exceeds? the context window"),  # OpenAI's responses
    ("prompt", r"reduce the length of the (?:messages|input|prompt)|reduce your (?:message|prompt|input)"),
    ("prompt", r"(?:input|prompt) token count exceeds|exceeds? (?:the )?(?:model'?s )?maximum context"),
    ("prompt", r"greater than the context length|input length exceeds"),  # LM Studio, Ollama
    ("prompt", r"size limit exceeded by <N> tokens|too many tokens|token limit exceeded"),
    ("prompt", r"exceed max message tokens|length limit exceeded"),
    ("prompt", r"(?:messages|input|prompt|content)(?:\[\d+\])?(?:\.(?:content|text)(?:\[\d+\])?){0,3}'?: "
               r"(?:string|array) too long"),  # OpenAI
    ("prompt", r"expected maxlength: \d|max input characters"),  # Bedrock, Baidu: characters
    ("prompt", r"payload size exceeds|max length of current question"),  # Gemini, Baidu
    ("prompt", r"(?:prompt|(?:input|total) tokens|token count|number of tokens)\b[^.]{0,40} exceed"),
    ("prompt", r"input is too large to process|context overflow"),
    ("prompt", r"context (?:length|size|window) (?:has been |was )?exceeded"),
    ("prompt", r"(?:request (?:entity|body)|payload|content|message) (?:is )?too large"),
    ("prompt", r"max_tokens must be at least 1, got -"),  # vLLM: nothing is left for the reply
    ("prompt", r"(?:输入|上下文|文本|长度|tokens?)[^。]{0,16}(?:超过|超出|超限|过长|超长)"),
)  # fmt: skip

GENERAL: Final = (
    r"context.{0,20}(?:length|size|window)|too (?:long|large|many tokens)|maximum.{0,20}tokens"
    r"|reduce the length"
)
"""Words that count only with a status that fits, because other errors contain them too."""

_OF_A_FIELD: Final = re.compile(
    r"(?i)\b(?:tools?|functions?)\W|\bnames?\b|tool_call|\bstop\b|metadata|schema"
)
"""Pattern of errors about a field that is too long, which a shorter conversation does not change."""

_WAIT: Final = re.compile(
    r"(?i)throttl|please wait|rate.?limit|too many requests|per (?:min(?:ute)?|day|hour)\b|quota"
)
"""Pattern of rate limits, whose texts mention tokens too. Waiting helps there."""

_A_MINUTE: Final = re.compile(
    r"(?i)tokens per (?:min(?:ute)?|day)\b[^:]{0,40}: *Limit (\d{1,12}),(?: *Used \d{1,12},)?"
    r" *Requested (\d{1,12})"
)
"""Pattern of Groq's and OpenAI's error text, which contains the plan's and the request's tokens."""

_PLAN: Final = re.compile(rf"(?i)rate limit[^.]{{0,80}} of ({_FIGURE}) (?:input |prompt )?tokens per minute")
"""Pattern of Anthropic's error text, which contains only the plan's tokens."""


@dataclass(frozen=True, slots=True)
class _Row:
    about: About
    pattern: re.Pattern[str]


def refusal_for_size(status: int, code: str, said: str, error: Mapping[str, object]) -> TooLarge | None:
    """Return what a refusal tells about the size of the request; None if it is about something else.

    `error` is the error object, whose text is `said`. The result has no figures if the server sent none.
    """
    if status in NEVER:
        return None
    said = " ".join(said[:MAX_SAID_CHARS].split())
    if (found := _A_MINUTE.search(said)) is not None:
        # A request above the whole plan never succeeds, so it must not be retried as a rate limit.
        plan, requested = int(found[1]), int(found[2])
        return TooLarge(plan, requested, a_minute=True) if requested > plan else None
    known = status == 413 or code in CODES
    if _WAIT.search(said) and not known:
        return None
    if (limit := _count(error.get("n_ctx"))) is not None:  # llama.cpp
        return TooLarge(limit, _count(error.get("n_prompt_tokens")))
    if (status != 429 or known) and (told := _from_table(said)) is not None:
        return told
    general = status in {400, 422} and not _OF_A_FIELD.search(said) and _general().search(said)
    return TooLarge() if known or general else None


def plan_of(said: str) -> TooLarge | None:
    """Return the tokens per minute of the plan that a rate limit states; None without that figure."""
    found = _PLAN.search(said[:MAX_SAID_CHARS])
    return None if found is None else TooLarge(_number(found[1]), a_minute=True)


def _from_table(said: str) -> TooLarge | None:
    for row in _rows():
        if (found := row.pattern.search(said)) is not None:
            figures = {name: _number(text) for name, text in found.groupdict().items() if text is not None}
            if row.about != "reply" or figures.get("reply", USUAL_REPLY) >= LEAST_REPLY:
                return _told(row.about, figures)
    return None


def _told(about: About, figures: Mapping[str, int]) -> TooLarge:
    if about == "reply":
        return TooLarge(reply=figures.get("reply", USUAL_REPLY))
    size, limit = figures.get("size"), figures.get("limit")
    if limit is not None and limit < LEAST_CONTEXT:
        return TooLarge()
    if about == "prompt" and size is not None and limit is not None and size <= limit:
        size = None  # the sentence counts something else too
    if about == "sum" and size is None and "total" in figures and "reply" in figures:
        size = figures["total"] - figures["reply"]
    return TooLarge(limit, size, with_reply=about == "sum")


@cache
def _rows() -> tuple[_Row, ...]:
    """Compile the table. At the first error and not at the import, which every start would pay for."""

    def pattern(text: str) -> re.Pattern[str]:
        for name, group in _GROUPS.items():
            text = text.replace(f"<{name}>", group)
        return re.compile(text, re.IGNORECASE)

    return tuple(_Row(about, pattern(text)) for about, text in WORDINGS)


@cache
def _general() -> re.Pattern[str]:
    return re.compile(GENERAL, re.IGNORECASE)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _number(text: str) -> int:
    return int(text.replace(",", ""))
