"""How the fake Groq behaves: replies in chunks, failures, hangs and cuts, and which of them when."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rumi.agent.fitting import CHECK

Body = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """A reply in chunks: words, then calls `(name, arguments)`, whose arguments come in two pieces each.

    `pieces` is how many chunks the words come in, `begin_s` the time before anything comes, `pause_s` the
    time before each chunk, `cut_after` the number of chunks after which the connection is cut, `hang_after`
    after which nothing more comes. A `finish_reason` of "" is one that never comes, as with some versions of
    vLLM. `cached` is how much of the prompt was in the server's cache.
    """

    text: str = ""
    calls: Sequence[tuple[str, str]] = ()
    pieces: int = 3
    begin_s: float = 0.0
    pause_s: float = 0.0
    finish_reason: str | None = None
    reasoning: str = ""
    usage: tuple[int, int] = (11, 7)
    cached: int = 0
    cut_after: int | None = None
    hang_after: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Fail:
    """An error status. `body` is JSON, or text where it is a str."""

    status: int
    message: str = "failed"
    code: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: object = None


@dataclass(frozen=True)
class Raw:
    """Bytes in the place of the stream's events. `cut`: the connection ends before the body does."""

    data: bytes
    content_type: str = "text/event-stream"
    pause_s: float = 0.0
    cut: bool = False
    step: int = 0


@dataclass(frozen=True)
class Hang:
    """Nothing at all comes, not even a status."""


@dataclass(frozen=True)
class Drop:
    """The connection is reset before any answer."""


@dataclass(frozen=True)
class Transcript:
    """What is said in a recording, after `pause_s`."""

    text: str
    pause_s: float = 0.0


Behaviour = Answer | Transcript | Fail | Raw | Hang | Drop
Script = Behaviour | Iterable[Behaviour] | Callable[[Body], Behaviour]


def chooser(script: Script) -> Callable[[Body], Behaviour]:
    if isinstance(script, Behaviour):
        return lambda _: script
    if callable(script):
        return script
    rest = iter(script)
    return lambda _: next(rest, Fail(500, "the script has ended"))


def reply_chunks(answer: Answer, reply_id: str, model: str, *, groq: bool, usage: bool) -> list[Body]:
    """The whole stream of a reply: Groq's usage is in the last chunk, OpenAI's in one of its own."""

    def chunk(delta: Body, finish_reason: str | None = None) -> Body:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        head = {"id": reply_id, "object": "chat.completion.chunk", "created": 1_700_000_000, "model": model}
        return {**head, "system_fingerprint": "fp_fake", "choices": [choice]}

    first = chunk({"role": "assistant", "content": ""})
    if groq:
        first["x_groq"] = {"id": "req_fake"}
    chunks = [first]
    if answer.reasoning and groq:
        chunks.append(chunk({"reasoning": answer.reasoning, "channel": "analysis"}))
    elif answer.reasoning:  # llama.cpp and vLLM
        chunks.append(chunk({"reasoning_content": answer.reasoning}))
    size = -(-len(answer.text) // max(answer.pieces, 1)) or 1
    chunks += [chunk({"content": answer.text[at : at + size]}) for at in range(0, len(answer.text), size)]
    for index, (name, _) in enumerate(answer.calls):
        begin = {
            "id": f"{reply_id}-call{index}",
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }
        chunks.append(chunk({"tool_calls": [{"index": index, **begin}]}))
    for half in (0, 1):
        for index, (_, arguments) in enumerate(answer.calls):
            middle = len(arguments) // 2
            part = arguments[middle:] if half else arguments[:middle]
            chunks.append(chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]}))
    reason = (
        ("tool_calls" if answer.calls else "stop") if answer.finish_reason is None else answer.finish_reason
    )
    last = chunk({}, reason or None)
    prompt, completion = answer.usage
    counted: Body = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    if groq:
        times = ("queue_time", "prompt_time", "completion_time", "total_time")
        counted |= dict.fromkeys(times, 0.01) | {"completion_tokens_details": {"reasoning_tokens": 0}}
    if answer.cached:
        counted["prompt_tokens_details"] = {"cached_tokens": answer.cached}
    chunks.append(last)
    if groq:
        last["x_groq"] = {"id": "req_fake", "usage": counted}
    elif usage:
        chunks.append({**chunk({}), "choices": [], "usage": counted})
    return chunks


def whole_reply(answer: Answer, reply_id: str, model: str) -> Body:
    """A reply that is not streamed."""
    *chunks, last = reply_chunks(answer, reply_id, model, groq=True, usage=True)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    message = {"role": "assistant", "content": "".join(delta.get("content", "") for delta in deltas)}
    choice = {"index": 0, "message": message, "finish_reason": last["choices"][0]["finish_reason"]}
    usage = last["x_groq"].pop("usage")
    return {**last, "object": "chat.completion", "choices": [choice], "usage": usage}


def last_user_text(body: Body) -> str:
    """The last user message of a request, other than a request for a check before the end."""
    return next((m["content"] for m in reversed(body["messages"]) if _asks(m)), "")


def _asks(message: Body) -> bool:
    return message["role"] == "user" and not str(message["content"]).startswith(CHECK)


def closes(body: Body) -> bool:
    """Whether a breaker asks for what was found so far."""
    return last_user_text(body).startswith("Stop working now")


def answered_calls(body: Body) -> list[str]:
    """The tool results after the last user message."""
    results: list[str] = []
    for message in reversed(body["messages"]):
        if _asks(message):
            break
        if message["role"] == "tool":
            results.append(message["content"])
    return results[::-1]


def _echo(body: Body) -> Behaviour:
    return Answer(f"you said: {last_user_text(body)}")


def _tool(body: Body) -> Behaviour:
    """A bash call first, then an answer with its output."""
    if results := answered_calls(body):
        return Answer(f"the command said: {results[-1]}")
    if not body.get("tools"):
        return Answer("no tools, no work")
    return Answer(calls=[("bash", '{"command": "echo hola"}')])


def _loop(body: Body) -> Behaviour:
    """The same bash call for ever, until a breaker asks for what was found."""
    if closes(body):
        return Answer("what I found so far")
    return Answer(calls=[("bash", '{"command": "echo hola"}')])


def _page(body: Body) -> Behaviour:
    """A call with a result of 50,000 characters, then an answer that says how much of it came."""
    if results := answered_calls(body):
        return Answer(f"I have read {len(results[-1])} characters")
    return Answer(calls=[("bash", '{"command": "seq 1 10000"}')])


def scripts(pause_s: float = 0.2) -> dict[str, Script]:
    """The behaviours that the program knows."""
    return {
        "ok": Answer("hola"),
        "echo": _echo,
        "tool": _tool,
        "loop": _loop,
        "page": _page,
        "slow": Answer(" ".join(str(number) for number in range(100)), pieces=100, pause_s=pause_s),
        "hang": Hang(),
        "hang-mid": Answer("some words and then nothing", hang_after=3),
        "cut": Answer("some words and then a cut", cut_after=3),
        "drop": Drop(),
        "empty": Answer(""),
        "bad-json": Raw(b"data: {nonsense\n\n"),
        "401": Fail(401, "Invalid API Key", "invalid_api_key"),
        "404": Fail(404, "The model does not exist", "model_not_found"),
        "413": Fail(413, "Request too large", "request_too_large"),
        "429": Fail(429, "Rate limit reached", "rate_limit_exceeded", {"retry-after": "1"}),
        "500": Fail(500, "Internal Server Error"),
    }
