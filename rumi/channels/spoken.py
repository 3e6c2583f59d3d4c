"""The part of an answer that is spoken: its sentences, without code, addresses and tables."""

import re
import unicodedata
from typing import TYPE_CHECKING, Final

from rumi.channels.markdown import parser
from rumi.texts import Language, gettext

if TYPE_CHECKING:
    from markdown_it.token import Token

CODE_CHARS: Final = 24
"""Maximum length of code within a sentence that is still spoken, such as a name of a file."""

READ_CHARS: Final = 8_000
"""Only so much of an answer is read: parsing a longer hostile text would block the process for seconds."""

_ADDRESS: Final = re.compile(r"(?:https?://|www\.)[^\s<>()]*[^\s<>().,;:!?]|\b[\w.+-]+@[\w-]+\.[\w.-]*\w")
_SENTENCE_END: Final = re.compile(r"[.!?…:。！？]+[\"'»”)]*(?=\s|$)")
_SIGNS: Final = frozenset({"So", "Sk", "Co", "Cs", "Cn"})
_JOINERS: Final = "\u200d\ufe0e\ufe0f\u20e3"


def speakable(text: str, most_chars: int, language: Language) -> str:
    """Return the text to speak for an answer in Markdown; empty if nothing of it can be spoken.

    Code blocks, tables, pictures and addresses are left out, and so is what comes after about `most_chars`
    characters. If something is left out, the last sentence says that the text has more. The result depends
    only on the arguments.
    """
    reader = _Reader()
    reader.read(parser().parse(text[:READ_CHARS]))
    paragraphs = [paragraph for line in reader.paragraphs if (paragraph := _ended(_clean(line)))]
    spoken, cut = _bounded(paragraphs, most_chars)
    if not spoken:
        return ""
    more = cut or reader.left_out or len(text) > READ_CHARS
    return f"{spoken} {gettext(language, 'There is more in the text.')}" if more else spoken


class _Reader:
    """Collects the paragraphs of a parsed text. `left_out` is True if something in it cannot be spoken."""

    def __init__(self) -> None:
        self.paragraphs: list[str] = []
        self.left_out = False
        self._in_table = 0

    def read(self, tokens: "list[Token]") -> None:
        for token in tokens:
            match token.type:
                case "table_open":
                    self._in_table += 1
                    self.left_out = True
                case "table_close":
                    self._in_table -= 1
                case "fence" | "code_block":
                    self.left_out = True
                case "inline" if not self._in_table:
                    self.paragraphs.append(self._inline(token.children or []))

    def _inline(self, tokens: "list[Token]") -> str:
        text = ""
        for token in tokens:
            match token.type:
                case "text":
                    text += self._without_addresses(token.content)
                case "softbreak" | "hardbreak":
                    text += "\n"
                case "code_inline" if len(token.content) <= CODE_CHARS:
                    text += self._without_addresses(token.content)
                case "code_inline" | "image":
                    self.left_out = True
                case "link_open":
                    self.left_out = True
        return text

    def _without_addresses(self, text: str) -> str:
        words = _ADDRESS.sub("", text)
        self.left_out |= words != text
        return words


def _clean(text: str) -> str:
    """Return a text without emoji and without signs that a voice would name."""
    kept = "".join(c for c in text if c not in _JOINERS and unicodedata.category(c) not in _SIGNS)
    lines = (" ".join(re.sub(r"\(\s*\)|\[\s*\]|[*_#|]+", " ", line).split()) for line in kept.splitlines())
    return re.sub(r" +(?=[.,;:!?])", "", " ".join(filter(None, lines)))


def _ended(paragraph: str) -> str:
    """Return a paragraph with a mark at its end, so that a voice pauses; empty if it has no words."""
    if not any(c.isalnum() for c in paragraph):
        return ""
    return paragraph if unicodedata.category(paragraph[-1]).startswith("P") else f"{paragraph}."


def _bounded(paragraphs: list[str], most_chars: int) -> tuple[str, bool]:
    """Return the first paragraphs with at most `most_chars` characters, and whether something is left out.

    The cut is at the end of a sentence if there is one, otherwise at the end of a word.
    """
    whole = " ".join(paragraphs)
    if len(whole) <= most_chars:
        return whole, False
    head = whole[: most_chars + 1]
    ends = [found.end() for found in _SENTENCE_END.finditer(head) if found.end() <= most_chars]
    if ends:
        return head[: ends[-1]], True
    word = head.rfind(" ")
    return f"{head[: word if word > 0 else most_chars].rstrip()}…", True
