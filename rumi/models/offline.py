"""The demo model, named `offline`: not a language model, but a grammar that maps requests to tool calls.

It demonstrates Rumi without an account or a network. It uses the same turns and the same tools as a real
model: it requests one tool call in each reply, reads the results, and answers with them.
"""

import re
import shlex
from collections.abc import Sequence
from html import unescape
from json import dumps
from secrets import token_hex
from typing import Final

import trio

from rumi.models.model import (
    Emit,
    Message,
    ModelRequest,
    Reply,
    TextDelta,
    ToolCall,
    ToolCallNamed,
)
from rumi.models.offline_answers import small_talk, time_now, unclear
from rumi.models.offline_grammar import Step, Unclear, language_of, parse
from rumi.models.offline_research import Research, fenced, is_research
from rumi.models.offline_showing import shown_result
from rumi.platform.untrusted_text import read_block
from rumi.texts import Language, gettext

_PIECES: Final = 200
_PIECE_CHARS: Final = 24
_HANDED_CHARS: Final = 2000
_FACT: Final = re.compile(r"^\s*([-+×])\s+(.+)$", re.MULTILINE)
_CHANNEL: Final = re.compile(r'<channel name="([^"\n]*)">')
_MEMORY: Final = re.compile(r"<memory>(.*?)</memory>", re.DOTALL)


class Offline:
    """The built-in model `offline`. If it cannot tell the language of a request, it answers in `language`.

    It uses no tokens, and reports none.
    """

    name = "offline"
    takes_pictures = True

    def __init__(self, language: Language = "en") -> None:
        self._language: Language = language

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        """Return the next tool call for the last user message, or the answer when all steps are done.

        This never fails. Cancellation takes effect between two pieces of the answer.
        """
        await trio.lowlevel.checkpoint()
        text = self._researched(request) if is_research(request.tools) else None
        if isinstance(text, tuple):
            return _calling(text, request, emit)
        if text is None:
            work = _Work(request, self._language)
            step = work.next_call()
            if step is not None:
                return _call(step, request, emit)
            text = work.answer()
        size = max(_PIECE_CHARS, -(-len(text) // _PIECES))
        for start in range(0, len(text), size):
            emit(TextDelta(text[start : start + size]))
            await trio.lowlevel.checkpoint()
        return Reply(text, model=self.name)

    def _researched(self, request: ModelRequest) -> tuple[ToolCall, ...] | str:
        """Return the next calls of a research task, or its answer."""
        messages = request.messages[:-1] if request.words_only else request.messages
        research = Research(messages, request.tools)
        calls = () if request.words_only else research.next_calls()
        return calls or research.answer(
            _variant(language_of(research.question) or self._language, self._language)
        )


class _Work:
    """The progress of the work on the last user message: the steps it asks for, and the results so far."""

    def __init__(self, request: ModelRequest, language: Language) -> None:
        self._request = request
        messages = request.messages[:-1] if request.words_only else request.messages
        text, self._handed, self._results = _last_exchange(messages)
        self._steps = parse(text, language)
        self._unclear = next((step for step in self._steps if isinstance(step, Unclear)), None)
        spoken = next((step.language for step in self._steps if isinstance(step, Step)), None)
        self._language = _variant(spoken or language_of(text) or language, language)

    def next_call(self) -> Step | None:
        """Return the step with the next tool call; None if no step is left or its tool is not available."""
        if self._unclear is not None or self._request.words_only:
            return None
        step = self._pending()
        return step if step is not None and self._has(step) else None

    def answer(self) -> str:
        """Return the text of the final answer."""
        language = self._language
        if self._unclear is not None:
            if not self._unclear.text and self._handed:
                return "\n\n".join(self._shown())
            return "\n\n".join([unclear(language, self._unclear.text, self._channel), *self._shown()])
        parts = self._done()
        pending = self._pending()
        if pending is not None:
            if self._request.tools and not self._request.words_only:
                parts.append(gettext(language, "The tool {tool} is not available here.", tool=pending.tool))
            elif parts:
                parts.append(gettext(language, "Not done: {step}", step=pending.text))
            else:
                parts.append(gettext(language, "I have found nothing so far."))
        return "\n\n".join(parts)

    @property
    def _system(self) -> str:
        return "\n".join(m.content for m in self._request.messages if m.role == "system")

    @property
    def _channel(self) -> str:
        named: list[str] = _CHANNEL.findall(self._system)
        return named[-1] if named else ""

    def _pending(self) -> Step | None:
        calls = [step for step in self._steps if isinstance(step, Step) and step.tool is not None]
        return calls[len(self._results)] if len(self._results) < len(calls) else None

    def _has(self, step: Step) -> bool:
        return any(tool.name == step.tool for tool in self._request.tools)

    def _done(self) -> list[str]:
        """Return the steps' results, in order, up to the first step that has not run yet."""
        results = iter(self._results)
        several = len(self._steps) > 1
        parts: list[str] = []
        for step in self._steps:
            if not isinstance(step, Step):
                continue
            if step.tool is None:
                shown = self._said(step)
            else:
                result = next(results, None)
                if result is None:
                    break
                shown = self._result(step, result)
            parts.append(f"**{len(parts) + 1}. {_one_line(step.text)}**\n\n{shown}" if several else shown)
        return parts

    def _result(self, step: Step, result: str) -> str:
        arguments = step.arguments or {}
        command, tool = str(arguments.get("command", "")), step.tool or ""
        shown = shown_result(tool, command, result, self._language)
        if "stdin" in arguments and shown.startswith("`"):
            name = shlex.split(command)[-1]
            return f"{gettext(self._language, 'Written to {name}:', name=name)}\n\n{shown}"
        return shown

    def _said(self, step: Step) -> str:
        """Return the answer to a step without a tool."""
        match step.topic:
            case "facts":
                return self._facts()
            case "time":
                return time_now(self._language, self._system)
            case "sum":
                return step.answer or gettext(self._language, "A number cannot be divided by zero.")
            case "hello" | "thanks" | "help":
                return small_talk(self._language, step.topic, self._channel)

    def _shown(self) -> list[str]:
        """Return the message's untrusted text as a quotation.

        The offline model never looks for requests in untrusted text.
        """
        shown = [fenced(f"{source}:\n\n{_clipped(text)}") for source, text in self._handed]
        said = gettext(self._language, "What came with your message, of which I only know how to show it:")
        return [said, *shown] if shown else []

    def _facts(self) -> str:
        facts: list[str] = []
        for mark, fact in (line for block in _MEMORY.findall(self._system) for line in _FACT.findall(block)):
            if mark != "×":
                facts.append(fact)
            elif fact in facts:
                facts.remove(fact)
        if not facts:
            return gettext(self._language, "I know nothing about you yet.")
        return "\n".join(
            [
                gettext(self._language, "What I know about you:"),
                *(f"- {unescape(fact.strip())}" for fact in facts),
            ]
        )


def _last_exchange(messages: Sequence[Message]) -> tuple[str, list[tuple[str, str]], list[str]]:
    """Return the last text that the user wrote, its untrusted blocks, and the tool results after it."""
    said: list[str] = []
    results: list[str] = []
    for message in reversed(messages):
        if message.role == "user":
            said.append(message.content)
        elif said:
            break
        elif message.role == "tool":
            results.append(message.content)
    words = next((text for text in said if read_block(text) is None), "")
    handed_on = [block for text in reversed(said) if (block := read_block(text)) is not None]
    return words, handed_on, results[::-1]


def _call(step: Step, request: ModelRequest, emit: Emit) -> Reply:
    assert step.tool is not None
    call = ToolCall(f"call_{token_hex(6)}", step.tool, dumps(step.arguments, ensure_ascii=False))
    return _calling((call,), request, emit)


def _calling(calls: tuple[ToolCall, ...], request: ModelRequest, emit: Emit) -> Reply:
    for call in calls:
        emit(ToolCallNamed(call.name))
    return Reply("", calls, "tool_calls", model=Offline.name)


def _variant(spoken: Language, own: Language) -> Language:
    """Return the language to answer in: the regional form of `own` if that is the language spoken."""
    return own if own.partition("_")[0] == spoken else spoken


def _clipped(text: str) -> str:
    return text if len(text) <= _HANDED_CHARS else f"{text[:_HANDED_CHARS]}…"


def _one_line(text: str) -> str:
    first, _, more = text.partition("\n")
    return f"{first}…" if more else first
