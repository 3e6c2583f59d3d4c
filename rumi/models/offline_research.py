"""Research by the demo model: searches for the question, reads the first pages, and cites them.

The demo model does not think: it does not know whether a page answers the question.
"""

import re
from collections.abc import Sequence
from json import dumps
from secrets import token_hex
from typing import Final

from rumi.models.fitting import without_notes
from rumi.models.model import Message, ToolCall, ToolSpec
from rumi.platform.untrusted_text import read_block
from rumi.texts import Language, gettext

PAGES: Final = 3
SENTENCES: Final = 2
_QUERY_CHARS: Final = 400
_SENTENCE_CHARS: Final = 300
_LEAST_WORDS: Final = 4

_FENCES: Final = re.compile(r"`{3,}")

_WEB: Final = frozenset({"web_search", "web_fetch", "note"})
_REPOSITORY: Final = frozenset({"git_log", "git_show", "note"})

_ADDRESS: Final = re.compile(r"^ {3}(https?://\S+)$", re.MULTILINE)
_NUMBER: Final = re.compile(r"source \[(\d+)\] · ")
_TITLE: Final = re.compile(r"\Atitle: .*\n")
_BEGINNING: Final = "The beginning:\n"
_MARKDOWN: Final = re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)|\[\^?\d{1,3}\]|[*_`]{1,3}")
_NO_PROSE: Final = re.compile(r"\s*(?:[#>|`~=-]|[*+] |\d+[.)] |\[…)")
_SENTENCE: Final = re.compile(r"\S.{10,}?[.!?](?=\s|$)")


def is_research(tools: Sequence[ToolSpec]) -> bool:
    """Return True if the tools are those of a research task, not those of a chat."""
    names = {tool.name for tool in tools}
    return "bash" not in names and (names >= _WEB or names >= _REPOSITORY)


class Research:
    """The progress of a research task: the question, its untrusted blocks, and the results so far."""

    def __init__(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> None:
        self._names = {tool.name for tool in tools}
        self._results: list[str] = []
        self._handed_over: list[str] = []
        self.question = ""
        for message in reversed(messages):
            if message.role == "tool" and not self.question:
                self._results.insert(0, without_notes(message.content))
            elif message.role == "user" and read_block(message.content) is not None:
                self._handed_over.insert(0, message.content)
            elif message.role == "user" and not self.question:
                self.question = message.content

    def next_calls(self) -> tuple[ToolCall, ...]:
        """Return the next tool calls; none if it is time to answer."""
        if self._handed_over:
            return ()
        if "web_search" not in self._names:
            return () if self._results else (_call("git_log"),)
        if not self._results:
            return (_call("web_search", query=" ".join(self.question.split())[:_QUERY_CHARS]),)
        if len(self._results) > 1:
            return ()
        found = dict.fromkeys(_ADDRESS.findall(self._results[0]))
        return tuple(_call("web_fetch", url=url) for url in list(found)[:PAGES])

    def answer(self, language: Language) -> str:
        """Return the answer: the first sentences of the pages, each sentence with its source."""
        said = [
            f"- {sentence}" for text in (*self._handed_over, *self._results) for sentence in _beginning(text)
        ]
        if said:
            intro = gettext(
                language,
                "I am a demo and not a language model, so this is only how the pages that I read begin:",
            )
            return "\n".join([intro, "", *said])
        if "web_search" not in self._names and self._results:
            intro = gettext(language, "I am a demo. The history:")
            block = read_block(self._results[0])
            return f"{intro}\n\n{fenced(block[1] if block is not None else self._results[0])}"
        return gettext(language, "I found no page with text.")


def _beginning(text: str) -> list[str]:
    """Return a page's first sentences, each with the page's number; empty if `text` is not a source."""
    number, block = _NUMBER.match(text), read_block(text)
    if number is None or block is None:
        return []
    body = _TITLE.sub("", block[1], count=1)
    body = body.partition(_BEGINNING)[2] or body
    return [f"{sentence} [{number[1]}]" for sentence in _sentences(body)]


def _sentences(text: str) -> list[str]:
    """Return the first sentences of a Markdown text, without markup."""
    found: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
        if _NO_PROSE.match(paragraph):
            continue
        plain = " ".join(_MARKDOWN.sub(lambda match: match[1] or "", paragraph).split())
        for sentence in _SENTENCE.findall(plain):
            if len(sentence.split()) >= _LEAST_WORDS:
                found.append(
                    sentence if len(sentence) <= _SENTENCE_CHARS else f"{sentence[:_SENTENCE_CHARS]}…"
                )
            if len(found) == SENTENCES:
                return found
    return found


def _call(name: str, **arguments: str) -> ToolCall:
    return ToolCall(f"call_{token_hex(6)}", name, dumps(arguments, ensure_ascii=False))


def fenced(output: str) -> str:
    """Return an output as a code block; the block's fence is longer than any fence in the output."""
    longest = max((len(fence) for fence in _FENCES.findall(output)), default=2)
    fence = "`" * (longest + 1)
    end = "" if output.endswith("\n") else "\n"
    return f"{fence}\n{output}{end}{fence}"
