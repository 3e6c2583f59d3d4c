"""The offline model: not a language model, but a grammar that maps simple requests to tool calls.

The offline model demonstrates Rumi without an account or a network. It uses the same turns and the same tools
as a real model: it requests one tool call in each reply, reads the results, and answers with them.
"""

import re
from collections.abc import Sequence
from html import unescape
from json import dumps
from secrets import token_hex
from typing import Final

import trio

from rumi.models.fitting import request_tokens, without_notes
from rumi.models.model import (
    Emit,
    Message,
    ModelRequest,
    Reply,
    TextDelta,
    ToolCall,
    ToolCallNamed,
    Usage,
)
from rumi.models.offline_grammar import Step, Unclear, language_of, parse
from rumi.models.offline_research import Research, fenced, is_research
from rumi.platform.untrusted_text import read_block
from rumi.texts import Language

_PIECES: Final = 200
_PIECE_CHARS: Final = 24
_HANDED_CHARS: Final = 2000
_FACT: Final = re.compile(r"^\s*([-+×])\s+(.+)$", re.MULTILINE)
_MEMORY: Final = re.compile(r"<memory>(.*?)</memory>", re.DOTALL)
_VERBATIM: Final = frozenset({"bash", "read_file", "edit_file", "recall", "web_fetch", "web_search"})
"""Tools whose results are untrusted; the answer shows their results verbatim, not as Markdown."""

_TEXTS: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "help": (
            "I am the offline model: I do not think, I only map plain requests onto tools. I understand:\n\n"
            "- `run CMD` or `$ CMD`\n- `list files`\n- `read FILE`\n- `look at FILE`\n- `show FILE`\n"
            "- `write FILE: TEXT`\n"
            "- `edit FILE: OLD => NEW`\n- `fetch URL`\n- `download URL as FILE`\n- `search QUERY`\n"
            "- `remember KEY = VALUE`\n"
            "- `forget KEY`\n- `what do you know about me`\n- `what did we say about QUERY`\n"
            "- `use skill NAME: INPUT`\n- `use tool NAME {JSON}`\n"
            "- `remind me WHEN: TEXT`\n- `research QUESTION`\n"
            "- `research repo URL: QUESTION`\n\n"
            "Several steps are joined by `; then `."
        ),
        "unclear": "I did not understand “{step}”, so I did nothing.",
        "no_tool": "The tool {tool} is not available here.",
        "nothing": "I have found nothing so far.",
        "facts": "What I know about you:",
        "no_facts": "I know nothing about you yet.",
        "not_done": "Not done: {step}",
        "handed": "What came with your message, of which I only know how to show it:",
    },
    "es": {
        "help": (
            "Soy el modelo offline: no pienso, solo convierto pedidos simples en herramientas. Entiendo:\n\n"
            "- `ejecuta CMD` o `$ CMD`\n- `lista los archivos`\n- `lee FILE`\n- `mirá FILE`\n"
            "- `mostrá FILE`\n- `escribe FILE: TEXT`\n"
            "- `edita FILE: OLD => NEW`\n- `abre URL`\n- `descargá URL como FILE`\n- `busca QUERY`\n"
            "- `recuerda KEY = VALUE`\n"
            "- `olvida KEY`\n- `qué sabes de mí`\n- `qué dijimos de QUERY`\n"
            "- `usa skill NAME: INPUT`\n- `usa herramienta NAME {JSON}`\n"
            "- `recordame CUÁNDO: TEXT`\n- `investiga PREGUNTA`\n"
            "- `investiga repo URL: PREGUNTA`\n\n"
            "Varios pasos se unen con `; luego `."
        ),
        "unclear": "No entendí «{step}», así que no hice nada.",
        "no_tool": "La herramienta {tool} no está disponible acá.",
        "nothing": "Todavía no encontré nada.",
        "facts": "Lo que sé de vos:",
        "no_facts": "Todavía no sé nada de vos.",
        "not_done": "Sin hacer: {step}",
        "handed": "Lo que vino con tu mensaje, que solo sé mostrar:",
    },
}


class Offline:
    """The built-in model `offline`. If it cannot tell the language of a request, it answers in `language`.

    The usage counts are estimates (see `Message.tokens`), not real tokens.
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
        return Reply(text, usage=_usage(request, Message("assistant", text)), model=self.name)

    def _researched(self, request: ModelRequest) -> tuple[ToolCall, ...] | str:
        """Return the next calls of a research task, or its answer."""
        messages = request.messages[:-1] if request.words_only else request.messages
        research = Research(messages, request.tools)
        calls = () if request.words_only else research.next_calls()
        return calls or research.answer(language_of(research.question) or self._language)


class _Work:
    """The progress of the work on the last user message: the steps it asks for, and the results so far."""

    def __init__(self, request: ModelRequest, language: Language) -> None:
        self._request = request
        messages = request.messages[:-1] if request.words_only else request.messages
        text, self._handed, self._results = _last_exchange(messages)
        self._steps = parse(text)
        self._unclear = next((step for step in self._steps if isinstance(step, Unclear)), None)
        spoken = next((step.language for step in self._steps if isinstance(step, Step)), None)
        self._texts = _TEXTS[spoken or language_of(text) or language]

    def next_call(self) -> Step | None:
        """Return the step with the next tool call; None if no step is left or its tool is not available."""
        if self._unclear is not None or self._request.words_only:
            return None
        step = self._pending()
        return step if step is not None and self._has(step) else None

    def answer(self) -> str:
        """Return the text of the final answer."""
        if self._unclear is not None:
            said = [self._texts["help"], *self._shown()]
            if len(self._steps) > 1:
                said.insert(0, self._texts["unclear"].format(step=self._unclear.text))
            return "\n\n".join(said)
        parts = self._done()
        pending = self._pending()
        if pending is not None:
            if self._request.tools and not self._request.words_only:
                parts.append(self._texts["no_tool"].format(tool=pending.tool))
            elif parts:
                parts.append(self._texts["not_done"].format(step=pending.text))
            else:
                parts.append(self._texts["nothing"])
        return "\n\n".join(parts)

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
                shown = self._facts()
            else:
                result = next(results, None)
                if result is None:
                    break
                shown = fenced(result) if step.tool in _VERBATIM or "__" in step.tool else result
            parts.append(f"**{len(parts) + 1}. {_one_line(step.text)}**\n\n{shown}" if several else shown)
        return parts

    def _shown(self) -> list[str]:
        """Return the message's untrusted text as a quotation.

        The offline model never looks for requests in untrusted text.
        """
        shown = [fenced(f"{source}:\n\n{_clipped(text)}") for source, text in self._handed]
        return [self._texts["handed"], *shown] if shown else []

    def _facts(self) -> str:
        prompt = "\n".join(m.content for m in self._request.messages if m.role == "system")
        facts: list[str] = []
        for mark, fact in (line for block in _MEMORY.findall(prompt) for line in _FACT.findall(block)):
            if mark != "×":
                facts.append(fact)
            elif fact in facts:
                facts.remove(fact)
        if not facts:
            return self._texts["no_facts"]
        return "\n".join([self._texts["facts"], *(f"- {unescape(fact.strip())}" for fact in facts)])


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
            results.append(without_notes(message.content))
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
    return Reply(
        "", calls, "tool_calls", _usage(request, Message("assistant", tool_calls=calls)), Offline.name
    )


def _usage(request: ModelRequest, message: Message) -> Usage:
    return Usage(request_tokens(request), message.tokens)


def _clipped(text: str) -> str:
    return text if len(text) <= _HANDED_CHARS else f"{text[:_HANDED_CHARS]}…"


def _one_line(text: str) -> str:
    first, _, more = text.partition("\n")
    return f"{first}…" if more else first
