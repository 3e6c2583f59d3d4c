"""Separation of a model's reasoning from its answer, where the server leaves both in one text.

`Thoughts` works on pieces, and holds back reasoning at the beginning of a reply before anyone sees it. The
rest of the work needs the whole text, so `without_thoughts` does it once, at the end of a reply.
"""

import re
from itertools import islice
from typing import Final

_TAGS: Final = (
    ("<think>", "</think>"),  # DeepSeek, Qwen and many others
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),  # Gemini's chat completions
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),  # Magistral
    ("<seed:think>", "</seed:think>"),  # Seed-OSS
    ("◁think▷", "◁/think▷"),  # Kimi
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Cohere
    ("<longcat_think>", "</longcat_think>"),
    ("<|channel>thought\n", "<channel|>"),  # Gemma
)
_CLOSING: Final = dict(_TAGS)
_LONGEST: Final = max(len(opening) for opening, _ in _TAGS)
_OPENING_AT: Final = re.compile("|".join(re.escape(opening) for opening, _ in _TAGS), re.IGNORECASE)
_FORMAT: Final = "<|"
"""The beginning of gpt-oss's own format; such a reply is held back until `clean_text` has read it."""

_ORPHAN: Final = re.compile("|".join(re.escape(closing) for _, closing in _TAGS), re.IGNORECASE)
_BLOCK: Final = re.compile(
    "|".join(
        rf"{re.escape(opening)}(?:(?!{re.escape(opening)})[\s\S])*?{re.escape(closing)}"
        for opening, closing in _TAGS
    ),
    re.IGNORECASE,
)
_FENCE: Final = re.compile(r"^[ \t]*(```|~~~)", re.MULTILINE)
_SENTENCE_ENDS: Final = tuple(".!?…。！？")
_BARE_ANALYSIS: Final = "analysis"
_BARE_FINAL: Final = "assistantfinal"
"""What is left of gpt-oss's format if a server removes only its special tokens."""

_MOST_BLOCKS: Final = 100


class Thoughts:
    """Filter that removes reasoning from the start of an answer that arrives in pieces.

    Tags after the answer's first word are left alone, because an answer may mention such tags. Reasoning
    without an end tag extends to the end of the answer. Text without a tag passes unchanged, piece by piece.
    `begun` is True if the answer began with reasoning. `reasoning` takes the removed text.
    """

    def __init__(self) -> None:
        self._pending = ""
        self._state: str = "beginning"
        self._closing = ""
        self._closing_at = _ORPHAN
        self.begun = False
        self.reasoning: list[str] = []

    def feed(self, piece: str) -> str:
        """Process a piece; return the text that is certain to be part of the answer, not of the reasoning."""
        if self._state == "answer":
            return piece
        self._pending += piece
        while True:
            if self._state == "thoughts":
                end = self._closing_at.search(self._pending)
                if end is None:
                    # Reasoning may be long: keep only the characters that may begin the end tag.
                    kept = len(self._closing) - 1
                    self._think(self._pending[:-kept])
                    self._pending = self._pending[-kept:]
                    return ""
                self._think(self._pending[: end.start()])
                self._pending, self._state = self._pending[end.end() :], "beginning"
            start = self._pending.lstrip()
            if (opening := _OPENING_AT.match(start)) is None:
                break
            tag = next(tag for tag in _CLOSING if tag.lower() == opening[0].lower())
            self._closing = _CLOSING[tag]
            self._closing_at = re.compile(re.escape(self._closing), re.IGNORECASE)
            self._pending, self._state, self.begun = start[opening.end() :], "thoughts", True
        if start.startswith(_FORMAT) or (len(start) < _LONGEST and _may_open(start)):
            return ""
        return self._answer(start if self.begun else self._pending)

    def end(self) -> str:
        """Return the text that is still buffered at the end of the answer, if it is not reasoning."""
        if self._state == "thoughts":
            self._think(self._pending)
            self._pending = ""
        words = self._pending.lstrip() if self.begun else self._pending
        return self._answer(words)

    def _think(self, text: str) -> None:
        if text:
            self.reasoning.append(text)

    def _answer(self, words: str) -> str:
        self._pending, self._state = "", "answer"
        return words


def _may_open(start: str) -> bool:
    """Return True if a text may be the beginning of a tag; only whitespace may be, too."""
    return any(tag[: len(start)].lower() == start.lower() for tag in _CLOSING)


def without_thoughts(text: str, *, begun: bool, separate: bool) -> tuple[str, str]:
    """Return the answer in a reply's whole text, and the reasoning that was between or before its words.

    `begun` says that the reply began with reasoning. Then further reasoning is removed, too, if it has an end
    tag, is not in code, and begins a line or has text after it. Otherwise the text before an end tag without
    a start tag is reasoning: some prompts contain the start tag, so the reply has only the end. That is
    certain only if the tag begins or ends a line, or stands between a sentence or word and the next one
    without a space, is neither announced by a colon nor in code, and if the server sends no reasoning
    `separate`ly.
    """
    if begun:
        return _without_blocks(text)
    if text.startswith(_BARE_ANALYSIS) and _BARE_FINAL in text:
        before, _, after = text.partition(_BARE_FINAL)
        return after.lstrip(), before.removeprefix(_BARE_ANALYSIS).strip()
    if (end := _ORPHAN.search(text)) is None:
        return text, ""
    before, after = text[: end.start()], text[end.end() :]
    if not before.strip():  # the server took the reasoning out, and left the tag
        return after.lstrip(), ""
    if separate:
        return text, ""
    begins_a_line = not before.rpartition("\n")[2].strip() and "\n" in before
    ends_a_line = after[:1] in ("", "\n", "\r")
    ends_a_sentence = before.endswith(_SENTENCE_ENDS) and after[:1] not in tuple(" .,;:)")
    ends_a_word = before[-1:].isalnum() and after[:1].isalnum()
    if not (begins_a_line or ends_a_line or ends_a_sentence or ends_a_word) or before.rstrip().endswith(
        (":", "：")
    ):
        return text, ""
    if in_code(before) or _OPENING_AT.search(before):
        return text, ""
    return after.lstrip(), before.strip()


def _without_blocks(text: str) -> tuple[str, str]:
    kept, removed, at = [], [], 0
    for block in islice(_BLOCK.finditer(text), _MOST_BLOCKS):
        before, after = text[: block.start()], text[block.end() :]
        begins_a_line = not before.rpartition("\n")[2].strip()
        if in_code(before) or not (begins_a_line or after.strip()):
            continue
        kept.append(text[at : block.start()])
        removed.append(_ORPHAN.sub("", _OPENING_AT.sub("", block[0])).strip())
        space = after if begins_a_line else after.partition("\n")[0]
        at = block.end()
        if begins_a_line or before[-1:].isspace():
            at += len(space) - len(space.lstrip())
    return "".join((*kept, text[at:])), "\n".join(removed)


def in_code(before: str) -> bool:
    """Return True if the end of a text is in a fenced block or between backticks."""
    line = before.rpartition("\n")[2]
    return len(_FENCE.findall(before)) % 2 == 1 or line.count("`") % 2 == 1
