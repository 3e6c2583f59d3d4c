"""A parser for the parts of an answer to check: code, citations, quotations, file lines and sentences.

This module makes no judgment about these parts. Every function accepts any text, and runs in time
proportional to the length of the text.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

Span: TypeAlias = tuple[int, int]

MOST_QUOTED_CHARS: Final = 2000
"""Maximum length of a quotation in characters; a longer text between two quotation marks is not one."""

_FENCE: Final = re.compile(r"^ {0,3}(?:> ?)?(?:[-*+] +)?(?P<fence>`{3,}|~{3,})", re.MULTILINE)
_BACKTICKS: Final = re.compile(r"`+")
_EMPTY_LINE: Final = re.compile(r"\n[ \t]*\n")

# [7], [1, 2], [1-3], [^7], and 【7†L1】, which some models write. A URL after it was added by the model.
CITATION: Final = re.compile(
    r"(?:\[\^?(?P<numbers>\d{1,3}(?:[ \t]*[,;–-][ \t]*\^?\d{1,3})*)\]"
    r"|【(?P<other>\d{1,3})(?:†[^】\n]{0,80})?】)"
    r"(?:\([^()\s]*\))*"
)
_RANGE: Final = re.compile(r"(\d+)[ \t]*[–-][ \t]*\^?(\d+)")
_NUMBER: Final = re.compile(r"\d+")

_NOT_EMPTY_LINE: Final = r"(?!\n[ \t]*\n)"
_QUOTED: Final = re.compile(
    rf"“(?P<curved>(?:{_NOT_EMPTY_LINE}[^“”]){{1,{MOST_QUOTED_CHARS}}})”"
    rf"|„(?P<low>(?:{_NOT_EMPTY_LINE}[^„“”]){{1,{MOST_QUOTED_CHARS}}})[“”]"
    rf"|«(?P<angled>(?:{_NOT_EMPTY_LINE}[^«»]){{1,{MOST_QUOTED_CHARS}}})»"
    rf'|(?<![\w"])"(?=\S)(?P<straight>(?:{_NOT_EMPTY_LINE}[^"]){{1,{MOST_QUOTED_CHARS}}})(?<=\S)"(?!\w)'
)

_FILE_TYPES: Final = (
    "adoc|bash|bat|c|cc|cfg|conf|cpp|cs|css|csv|cxx|dart|ex|exs|go|h|hh|hpp|hs|html|ini|ipynb|java|js|json|jsx|kt"
    "|lock|lua|m|md|mjs|ml|php|pl|proto|ps1|py|pyi|pyx|r|rb|rs|rst|s|scala|scss|sh|sql|svelte|swift|tex|tf|toml"
    "|ts|tsx|txt|vue|xml|yaml|yml|zig"
)
_FILE_LINE: Final = re.compile(
    r"(?<![\w./:@?&=%#~+-])(?P<path>(?:\./)?(?:[\w.@+-]{1,120}/){0,30}"
    rf"(?:[\w.@+-]{{0,120}}\.(?:{_FILE_TYPES})|Makefile|Dockerfile|LICENSE|README|COPYING))"
    r"(?::|#L|:L)(?P<first>\d{1,7})(?:(?:[-–]|-L|–L)(?P<last>\d{1,7}))?(?![\w/])"
)

_COMMIT: Final = re.compile(r"(?<![\w/.#-])(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}(?![\w/.-]\w|\w)")

_WORD: Final = re.compile(
    "[%€$£¥°±≥≤<>=]|[-+](?=\\d)|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]|[^\\W_]"
    "[^\\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]*"
)
_ADDRESS_OF_LINK: Final = re.compile(r"\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*(?:\s+\"[^\"\n]*\")?\)")
_SAME: Final = str.maketrans(
    {"‐": "-", "‑": "-", "–": "-", "—": " ", "−": "-", "’": "", "'": "", "ʼ": "", "\u00ad": ""}
)


@dataclass(frozen=True, slots=True)
class FileReference:
    """A reference to the lines `first` to `last` of a file. Its span in the answer is `start` to `end`."""

    path: str
    first: int
    last: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Sentence:
    """The span of a sentence. `says` is False if it states nothing, like a heading, a question or a label.

    `inherits` contains the spans of other text whose citations also count for this sentence: the introduction
    of the list, or the head of the table, that contains the sentence.
    """

    start: int
    end: int
    says: bool
    inherits: tuple[Span, ...] = ()


def words_of(text: str) -> str:
    """Normalize a text so that it can be compared: its words, with a space before and after each word.

    Case, white space, punctuation, Markdown, link targets and citations are dropped. Signs before numbers and
    currency signs are retained.
    """
    from unicodedata import normalize

    plain = normalize("NFKC", CITATION.sub(" ", _ADDRESS_OF_LINK.sub("]", text))).translate(_SAME).casefold()
    return f" {' '.join(_WORD.findall(plain))} "


class Spans:
    """Sorted spans that do not overlap."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._starts = [start for start, _ in spans]
        self._ends = [end for _, end in spans]

    def around(self, position: int) -> Span | None:
        """Return the span that contains a position, or None."""
        at = bisect_right(self._starts, position) - 1
        return (self._starts[at], self._ends[at]) if at >= 0 and position < self._ends[at] else None


def code_in(text: str) -> tuple[list[Span], list[Span]]:
    """Return the spans of code blocks, and of inline code."""
    blocks: list[Span] = []
    opened: re.Match[str] | None = None
    for mark in _FENCE.finditer(text):
        fence = mark["fence"]
        if opened is None:
            line_end = text.find("\n", mark.end())
            if fence[0] == "`" and "`" in text[mark.end() : line_end if line_end >= 0 else len(text)]:
                continue  # inline code
            opened = mark
        elif fence[0] == opened["fence"][0] and len(fence) >= len(opened["fence"]):
            rest = text[mark.end() : _line_end(text, mark.end())]
            if not rest.strip():
                blocks.append((opened.start(), _line_end(text, mark.end())))
                opened = None
    if opened is not None:
        blocks.append((opened.start(), len(text)))
    return blocks, list(_code_in_lines(text, Spans(blocks)))


def _code_in_lines(text: str, blocks: Spans) -> Iterator[Span]:
    ends = [match.start() for match in _EMPTY_LINE.finditer(text)]
    runs = [(run.start(), run.end()) for run in _BACKTICKS.finditer(text) if not blocks.around(run.start())]
    later: dict[tuple[int, int], list[int]] = {}
    for index, (start, end) in enumerate(runs):
        later.setdefault((end - start, bisect_right(ends, start)), []).append(index)
    at = 0
    while at < len(runs):
        start, end = runs[at]
        same = later[end - start, bisect_right(ends, start)]
        nearest = bisect_right(same, at)
        if nearest < len(same):
            yield start, runs[same[nearest]][1]
            at = same[nearest]
        at += 1


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return end if end >= 0 else len(text)


def numbers_of(citation: re.Match[str], known: Sequence[int] = ()) -> list[int]:
    """Return the numbers in a citation. A range means its two ends and the `known` numbers between."""
    # Only known ones: a model may write [1-999].
    said = citation["numbers"] or citation["other"]
    numbers: list[int] = []
    at = 0
    for span in _RANGE.finditer(said):
        numbers += map(int, _NUMBER.findall(said[at : span.start()]))
        first, last = int(span[1]), int(span[2])
        between = [n for n in known if first < n < last]
        numbers += [first, *between, last]
        at = span.end()
    numbers += map(int, _NUMBER.findall(said[at:]))
    return list(dict.fromkeys(numbers))


def citations_in(text: str) -> list[re.Match[str]]:
    """Return the citations outside of code."""
    blocks, inline = map(Spans, code_in(text))
    return [
        match
        for match in CITATION.finditer(text)
        if not blocks.around(match.start()) and not inline.around(match.start())
    ]


def cited_in(text: str) -> list[int]:
    """Return the numbers that a text cites, without duplicates, in order of appearance."""
    return list(dict.fromkeys(n for match in citations_in(text) for n in numbers_of(match)))


def quotations_in(text: str) -> list[tuple[Span, str]]:
    """Return the quotations outside of code.

    Each quotation has the quoted words, and a span that includes the quotation marks.
    """
    blocks, inline = map(Spans, code_in(text))
    found = []
    for match in _QUOTED.finditer(text):
        inside = next(words for words in match.groups() if words is not None)
        if not blocks.around(match.start()) and not inline.around(match.start()):
            found.append((match.span(), inside))
    return found


def file_references_in(text: str) -> list[FileReference]:
    """Return the references to file lines in a text: `path:12`, `path:12-20` or `path#L12`."""
    blocks, _ = code_in(text)
    code_blocks = Spans(blocks)
    return [
        FileReference(
            match["path"].removeprefix("./"),
            int(match["first"]),
            int(match["last"] or match["first"]),
            *match.span(),
        )
        for match in _FILE_LINE.finditer(text)
        if not code_blocks.around(match.start())
    ]


def commits_in(text: str) -> list[tuple[Span, str]]:
    """Return the words that look like commit ids: 7 to 40 hexadecimal digits, with a letter and a digit."""
    blocks, _ = code_in(text)
    code_blocks = Spans(blocks)
    return [
        (match.span(), match[0]) for match in _COMMIT.finditer(text) if not code_blocks.around(match.start())
    ]


# Sentences.

WARNING: Final = "⚠"
"""The first character of warnings that the program adds to an answer, such as a warning about a limit."""


_HEADING: Final = re.compile(r"#{1,6}(?:\s|$)|(?:\*\*|__)[^*_\n]+(?:\*\*|__):?$")
_RULE: Final = re.compile(r"(?:[-*_=] ?){3,}$")
_ITEM: Final = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
_QUOTE_MARK: Final = re.compile(r"\s{0,3}(?:>\s?)+")
_QUOTE_MARKS: Final = re.compile(r"^[ \t]{0,3}(?:> ?)+", re.MULTILINE)
_TABLE_RULE: Final = re.compile(r"\|?(?: *:?-+:? *\|)+(?: *:?-+:?)?$")
_END: Final = re.compile(
    r"(?<![.!?…])(?P<mark>[.!?…]++|[。！？]++)(?P<closing>[\"'”’»)\]*_]*+)"
    r"(?P<cited>(?:[ \t]*(?:\[[\^\d,;–\- \t]+\]|【[^】\n]{1,80}】))*)"
    r"(?P<space>\s+|$|(?<=[。！？])|(?<=\])(?=[A-ZÁÉÍÓÚÑ¿¡]))"
)
_NEXT: Final = re.compile(r"(?:>\s?)*[\"'“‘«(*_`\[]*(?:[^\W_]|[¿¡])")
_WORD_BREAKS: Final = re.compile(r"[\s(\[“«»\"]")
_ABBREVIATIONS: Final = re.compile(
    r"jr|inc|ltd|co|corp|etc|al|p|ed|eds|c|est|dept|gob|uu|ej|[ap]\.m|ph\.d|jan|feb|mar|apr|jun"
    r"|jul|aug|sept?|oct|nov|dec|ene|abr|ago|dic|uds?|sec|para|refs?|rev|hon|pres|tel|ext|min|max|avg|ft|dres"
)
"""Abbreviations that end a sentence only if the next word begins with a capital letter."""

_ALWAYS_INSIDE: Final = re.compile(
    r"dra?|mrs?|ms|prof|sra?|srta|e\.g|i\.e|cf|vs|figs?|núm|num|págs?|pag|pp|arts?|vol|approx|aprox|gral|lic|ing"
    r"|excmo|gen|col|lt|sgt|capt|gov|sen|rep|nos?|nr|av|avda|ca|p\.ej|ch|chap|eqs?|st|mt|ee|[ad]\.c|u\.[sk]"
)
"""Abbreviations whose full stop never ends a sentence."""

_ABOUT_ITSELF: Final = re.compile(
    r"(?:i|i['’]m|i['’]ve|we (?:found|could|did|searched|read)|let me|here (?:is|are)|what i|see)\b"
    r"|(?:none|neither|nothing|no one) (?:of|in) (?:the|these|my) (?:sources?|pages?|results?)\b"
    r"|(?:the|these|my) (?:sources?|pages?|results?|searche?s?)(?: (?:that )?i [a-z]+)? (?:do|does|did)\b"
    r"|(?:there (?:is|are) )?no (?:sources?|pages?|results?|data|information) "
    r"|(?:it|this|that) (?:was|is|could) not (?:be )?(?:found|verified)"
    r"|(?:lo que )?(?:no |tampoco )?(?:encontr[ée]|pude|busqu[ée]|le[íi]|hall[ée]|verifiqu[ée]|revis[ée]"
    r"|consult[ée]|logr[ée])\b"
    r"|(?:no|tampoco) (?:se (?:encontr|pudo|hall)|hay (?:datos|informaci[óo]n|fuentes?|p[áa]ginas?)\b)"
    r"|(?:ver|v[ée]ase)\b|ning(?:una?|ún) (?:de las )?(?:fuentes?|p[áa]ginas?|resultados?)\b"
    r"|(?:las|estas|mis) (?:fuentes|p[áa]ginas|b[úu]squedas)(?: que [a-zé]+)? no\b",
    re.IGNORECASE,
)
"""Beginnings of sentences about the search or the answer itself. Such sentences cannot have a source."""

LEAST_WORDS: Final = 3
"""Minimum number of words in a sentence that needs a source; `Yes.` and `In short.` have fewer."""


def sentences_in(text: str) -> list[Sentence]:
    """Return the sentences outside of code blocks. Citations after a full stop belong to the sentence before.

    A row of a table is one sentence. A sentence does not end within a quotation or within inline code.
    """
    blocks, inline = code_in(text)
    closed = Spans(sorted(_without_overlaps([*inline, *(span for span, _ in quotations_in(text))])))
    found: list[Sentence] = []
    intro: tuple[Span, ...] = ()
    for kind, start, end, head in _passages(text, Spans(blocks)):
        if kind in ("text", "heading"):
            intro = ()
        if kind in ("heading", "row"):
            says = kind == "row" and _states(text[start:end])
            found.append(Sentence(start, end, says, (*head, *intro)))
            continue
        parts = list(_cut(text, start, end, closed))
        warns = text[start:end].lstrip().startswith(WARNING)
        found += [Sentence(*span, not warns and _states(text[slice(*span)]), intro) for span in parts]
        if kind == "text" and parts and _introduces(text[slice(*parts[-1])]):
            intro = (parts[-1],)
    return found


def _passages(text: str, blocks: Spans) -> Iterator[tuple[str, int, int, tuple[Span, ...]]]:
    """Yield headings, list items, table rows and paragraphs, each with its kind and span.

    A table row also has the span of its table's head.
    """
    lines = _lines(text)
    head: tuple[Span, ...] = ()
    pending: tuple[str, int, int] | None = None
    for index, (start, end) in enumerate(lines):
        line = text[start:end]
        quoted = _QUOTE_MARK.match(line)
        begin = start + (quoted.end() if quoted else 0)
        inner = text[begin:end].strip()
        kind = "code" if blocks.around(start) else _kind(text, lines, index, inner, bool(head))
        if pending is not None and kind != "text":
            yield (*pending, ())
            pending = None
        match kind:
            case "row" if not head:
                head = ((start, end),)
                yield "heading", begin, end, ()
            case "row":
                yield "row", begin, end, head
            case "heading":
                yield "heading", begin, end, ()
            case "item":
                mark = _ITEM.match(text, begin, end)
                pending = ("item", mark.end() if mark else begin, end)
            case "text":
                pending = ("text", begin, end) if pending is None else (pending[0], pending[1], end)
        if kind not in ("row", "rule"):
            head = ()
    if pending is not None:
        yield (*pending, ())


def _lines(text: str) -> list[Span]:
    lines: list[Span] = []
    at = 0
    for line in text.split("\n"):
        lines.append((at, at + len(line)))
        at += len(line) + 1
    return lines


def _kind(text: str, lines: Sequence[Span], index: int, inner: str, in_table: bool) -> str:
    if not inner:
        return "blank"
    if "|" in inner and _TABLE_RULE.match(inner):
        return "rule"
    if _HEADING.match(inner) or _RULE.match(inner):
        return "heading"
    if "|" in inner and (in_table or _heads(text, lines, index)):
        return "row"
    return "item" if _ITEM.match(f"{inner} ") else "text"


def _heads(text: str, lines: Sequence[Span], index: int) -> bool:
    """Return True if a line is the head of a table, which means that a line of dashes follows it."""
    if index + 1 >= len(lines):
        return False
    below = text[slice(*lines[index + 1])].strip()
    return "|" in below and bool(_TABLE_RULE.match(below))


def _without_overlaps(spans: Sequence[Span]) -> Iterator[Span]:
    end = -1
    for span in sorted(spans):
        if span[0] >= end:
            end = span[1]
            yield span


def _cut(text: str, start: int, end: int, closed: Spans) -> Iterator[Span]:
    at = start
    for stop in _END.finditer(text, start, end):
        if stop.start() < at:
            continue
        inside = closed.around(stop.start("mark"))
        if inside is not None and stop.end("closing") < inside[1]:
            continue
        after = _NEXT.match(text, stop.end(), end)
        if after is not None and not _ends(text, at, stop, after):
            continue
        if after is None and text[stop.end() : end].strip():
            continue
        yield from _trimmed(text, at, stop.end("cited"))
        at = stop.end()
    yield from _trimmed(text, at, end)


def _ends(text: str, start: int, stop: re.Match[str], after: re.Match[str]) -> bool:
    """Return True if a full stop ends a sentence, not just an abbreviation, an initial or a number."""
    first = after[0].lstrip("> \"'“‘«(*_`[")[:1]
    if stop["cited"] and stop["mark"] != "…":
        return True
    if stop["mark"] != ".":
        return not first.islower()
    before = text[max(start, stop.start() - 40) : stop.start()]
    word = _WORD_BREAKS.split(before)[-1].strip("*_").casefold()
    if stop["closing"].strip("*_"):
        return not first.islower()
    if _ALWAYS_INSIDE.fullmatch(word) or (len(word) == 1 and word.isalpha()):
        return False
    if _ABBREVIATIONS.fullmatch(word):
        return first.isupper()
    return not first.islower()


def _trimmed(text: str, start: int, end: int) -> Iterator[Span]:
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    end = start + len(part.strip())
    if end > start:
        yield start, end


def _introduces(sentence: str) -> bool:
    return CITATION.sub("", sentence).rstrip(" *_").endswith(":")


def bare(sentence: str) -> str:
    """Return a sentence on one line, without its citations. The cells of a table row are joined by dots."""
    _, inline = code_in(sentence)
    code = Spans(inline)
    plain = CITATION.sub(lambda match: match[0] if code.around(match.start()) else "", sentence).strip()
    plain = _QUOTE_MARKS.sub("", plain)
    if plain.startswith("|") or " | " in plain:
        plain = " · ".join(cell.strip() for cell in plain.strip("|").split("|") if cell.strip())
    return re.sub(r"\s+([.,;:!?])", r"\1", " ".join(plain.split()))


def _states(sentence: str) -> bool:
    """Return True if a sentence states something that a source can confirm."""
    plain = bare(sentence).strip("*_ ")
    if plain.endswith((":", "?", "？")) or _introduces(sentence):
        return False
    if len(_WORD.findall(plain.replace("'", ""))) < LEAST_WORDS:
        return False
    return bool(CITATION.search(sentence)) or not _ABOUT_ITSELF.match(plain.lstrip("\"'“«(*_¡ "))
