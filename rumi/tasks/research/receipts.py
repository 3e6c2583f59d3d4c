"""Check of an answer against its sources: citations, quotations, file lines, commits, uncited sentences.

The program checks against the stored texts; the model's opinion of its answer does not count.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from rumi.platform.texts import research as research_texts
from rumi.tasks.research.prose import (
    Sentence,
    Span,
    Spans,
    bare,
    citations_in,
    cited_in,
    code_in,
    commits_in,
    file_references_in,
    numbers_of,
    quotations_in,
    sentences_in,
    words_of,
)
from rumi.tasks.research.sources import Source, SourceText
from rumi.texts import Language, gettext, languages, translate

LEAST_QUOTED_WORDS: Final = 4
"""Minimum number of words in a quotation. Fewer words in quotation marks count as a name or a term."""

MOST_CHARS: Final = 200_000
"""Maximum length of an answer in characters; the rest of the answer is left out."""

_ROUNDS: Final = 30
_SHOWN_UNVERIFIED: Final = 10
_SHOWN_CHARS: Final = 200

_MARKS: Final = tuple(
    translate(language, mark)
    for mark in (research_texts.MISSING_QUOTE, research_texts.MISSING_REFERENCE)
    for language in languages()
)
_ANNOTATIONS: Final = re.compile(rf"(?: \((?:{'|'.join(map(re.escape, _MARKS))})\))*")
_DEFINITION: Final = re.compile(r"^[ \t]{0,3}\[\^?\d{1,3}\]:[ \t]*\S[^\n]*\n?", re.MULTILINE)
_LIST_OF_SOURCES: Final = re.compile(
    r"^[ \t#*_]{0,12}(?:sources?|references?|citations?|bibliography"
    r"|fuentes?|referencias?|citas|bibliograf[íi]a)[ \t:*_]{0,12}$",
    re.IGNORECASE | re.MULTILINE,
)
_LISTED: Final = re.compile(r"[ \t]*(?:[-*+•]|\d{1,3}[.)]|\[\^?\d{1,3}\]|【|https?://|<https?://)")
_SPACES: Final = re.compile(r"[ \t]*")
_ELLIPSIS: Final = re.compile(r"\[\s*(?:\.{3}|…)\s*\]|\(\s*(?:\.{3}|…)\s*\)|\.{3,}|…")
_BRACKETS: Final = str.maketrans("[]【】", "()()")


@dataclass(frozen=True, slots=True)
class CitedSentence:
    """A sentence from an answer, without its citations, and what the sentence cites.

    `sources` contains the numbers of sources. `places` contains commit ids, and file lines as `path:line`.
    """

    sentence: str
    sources: tuple[int, ...]
    places: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """A checked answer, and the results of the check.

    `sources` contains all sources of the research. `removed` contains the cited numbers that have no source.
    `missing_quotes` contains the quotations that no cited source contains. `missing_places` contains the file
    lines, as `path:line`, and the commit ids that do not exist. In `answer`, each missing quotation or place
    is followed by a mark.
    """

    answer: str
    sources: tuple[Source, ...]
    claims: tuple[CitedSentence, ...]
    unverified: tuple[str, ...]
    removed: tuple[int, ...]
    missing_quotes: tuple[str, ...]
    missing_places: tuple[str, ...]

    @property
    def cited(self) -> tuple[int, ...]:
        """Return the sorted numbers that the answer cites."""
        return tuple(sorted(cited_in(self.answer)))

    def text(self, language: Language) -> str:
        """Return the answer for people, with lists of the cited sources and of the uncited sentences."""
        parts = [self.answer, self._listed(language)]
        if self.removed:
            parts.append(research_texts.removed_citations(language, self.removed))
        if self.unverified:
            shown = [f"- {_short(claim)}" for claim in self.unverified[:_SHOWN_UNVERIFIED]]
            more = len(self.unverified) - len(shown)
            shown += [f"- {gettext(language, 'and {count} more', count=more)}"] if more else []
            parts.append("\n".join([f"{gettext(language, 'Without a source')}:", "", *shown]))
        return "\n\n".join(part for part in parts if part)

    def _listed(self, language: Language) -> str:
        if not self.sources:
            return (
                "" if any(claim.places for claim in self.claims) else gettext(language, "No source was read.")
            )
        cited = set(self.cited)
        lines: list[str] = []
        for source in self.sources:
            if source.number in cited:
                named = " — ".join(filter(None, (_plain(source.title), source.address)))
                read = gettext(language, "read on {date}", date=source.read_at[:10])
                lines.append(f"- [{source.number}] {named} ({read})")
        parts = ["\n".join([f"{gettext(language, 'Sources')}:", "", *lines])] if lines else []
        if others := len(self.sources) - len(lines):
            parts.append(research_texts.also_read(language, others))
        return "\n\n".join(parts)

    def end(self, notes: Sequence[str], complete: bool, language: Language) -> tuple[str, str]:
        """Return the final text of a research task for people, and the report as JSON text.

        `complete` is False if a limit ended the research; then the text also contains the notes of the
        research.
        """
        text = self.text(language)
        if not complete and notes:
            listed = "\n".join(f"- {note}" for note in notes)
            text = f"{text}\n\n{gettext(language, 'Incomplete. What was noted until then')}:\n\n{listed}"
        made = {**self.to_json(), "complete": complete, "notes": list(notes)}
        return text, json.dumps(made, ensure_ascii=False)

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON object. The sources are in a separate field, not in the answer."""
        cited = set(self.cited)
        return {
            "answer": self.answer,
            "sources": [{**source.to_json(), "cited": source.number in cited} for source in self.sources],
            "claims": [
                {"sentence": claim.sentence, "sources": list(claim.sources), "places": list(claim.places)}
                for claim in self.claims
            ],
            "unverified": list(self.unverified),
            "removed_citations": list(self.removed),
            "missing_quotes": list(self.missing_quotes),
            "missing_places": list(self.missing_places),
        }


def check(
    answer: str,
    sources: Sequence[SourceText],
    exists: Callable[[str, int], bool],
    *,
    is_commit: Callable[[str], bool] | None = None,
    language: Language = "en",
    asked: str = "",
) -> Report:
    """Check an answer; return a report whose answer has unconfirmed parts removed or marked.

    Citations keep their numbers. Citations without a source are removed. If the model wrote a list of sources
    at the end, this list is also removed. `exists(path, line)` returns True if a file has that line;
    `is_commit(id)` returns True if that commit exists; without `is_commit`, no commits are checked.
    Quotations from the question `asked` are the user's words and count as found. A second check of the
    report's answer changes nothing.
    """
    read = {source_text.source.number: source_text for source_text in sources}
    checking = _Checking(read, exists, is_commit, language, words_of(asked))
    text = checking.settled(answer[:MOST_CHARS].replace("\r\n", "\n"))
    claims, unverified = checking.claims(text)
    return Report(
        text,
        tuple(source_text.source for source_text in sources),
        claims,
        unverified,
        tuple(sorted(checking.removed)),
        tuple(dict.fromkeys(checking.missing_quotes)),
        tuple(dict.fromkeys(checking.missing_references)),
    )


class _Checking:
    """State of one check: the sources, and the results so far."""

    def __init__(
        self,
        read: Mapping[int, SourceText],
        exists: Callable[[str, int], bool],
        is_commit: Callable[[str], bool] | None,
        language: Language,
        asked: str,
    ) -> None:
        self._read = read
        self._exists = exists
        self._is_commit = is_commit
        self._language = language
        self._asked = asked
        self._words: dict[int, str] = {}
        self._stands: dict[tuple[str, tuple[int, ...]], bool] = {}
        self.removed: set[int] = set()
        self.missing_quotes: list[str] = []
        self.missing_references: list[str] = []

    def settled(self, text: str) -> str:
        """Clean and annotate the text repeatedly until it no longer changes.

        More than one round can be necessary: after text is removed or added, the surrounding text can become
        a new citation or quotation.
        """
        for _ in range(_ROUNDS):
            before = text
            text = self._annotated(self._cleaned(text))
            if text == before:
                return text
        # Only a crafted text gets here. Without brackets it has no citations, so the loop below terminates.
        text = text.translate(_BRACKETS)
        for _ in range(_ROUNDS):
            before, text = text, self._annotated(text)
            if text == before:
                break
        return text

    def _cleaned(self, text: str) -> str:
        text = _without_own_list(text)
        blocks, _ = map(Spans, code_in(text))
        text = _DEFINITION.sub(lambda match: match[0] if blocks.around(match.start()) else "", text)
        parts: list[str] = []
        at = 0
        for citation in citations_in(text):
            numbers = numbers_of(citation, list(self._read))
            known = [number for number in numbers if number in self._read]
            self.removed.update(number for number in numbers if number not in self._read)
            between, at = text[at : citation.start()], citation.end()
            if not known and text[at : at + 1] not in ("[", "【"):
                between = between.rstrip(" \t")
                if between.endswith("\n") and (spaces := _SPACES.match(text, at)):
                    at = spaces.end()
            parts += [between, *(f"[{number}]" for number in known)]
        return "".join([*parts, text[at:]]).strip()

    def _annotated(self, text: str) -> str:
        marks: list[tuple[int, str]] = []
        quotations = quotations_in(text)
        sentences = sentences_in(text)
        starts = Spans([(parsed.start, parsed.end) for parsed in sentences])
        by_start = {parsed.start: parsed for parsed in sentences}
        citing = _Citing(text)
        for (start, end), quoted in quotations:
            around = starts.around(start)
            sentence = by_start[around[0]] if around is not None else None
            if not self._is_said(quoted, citing.by(sentence) if sentence is not None else []):
                marks.append((end, translate(self._language, research_texts.MISSING_QUOTE)))
                self.missing_quotes.append(" ".join(quoted.split()))
        _, inline = code_in(text)
        closed = [Spans([span for span, _ in quotations]), Spans(inline)]
        for (start, end), name, there in self._file_references(text):
            if not there:
                ends = [span[1] for spans in closed if (span := spans.around(start)) is not None]
                marks.append((max([end, *ends]), translate(self._language, research_texts.MISSING_REFERENCE)))
                self.missing_references.append(name)
        return _with_marks(text, marks)

    def _file_references(self, text: str) -> Iterator[tuple[Span, str, bool]]:
        """Yield each file line and commit in a text: its span, its name, and True if it exists."""
        for reference in file_references_in(text):
            for line in dict.fromkeys((reference.first, reference.last)):
                yield (
                    (reference.start, reference.end),
                    f"{reference.path}:{line}",
                    self._exists(reference.path, line),
                )
        if self._is_commit is not None:
            for span, name in commits_in(text):
                yield span, name, self._is_commit(name)

    def claims(self, text: str) -> tuple[tuple[CitedSentence, ...], tuple[str, ...]]:
        """Return the sentences that have citations, and the sentences that have none."""
        claims: list[CitedSentence] = []
        unverified: list[str] = []
        citing = _Citing(text)
        named = [(start, name) for (start, _), name, there in self._file_references(text) if there]
        named.sort(key=itemgetter(0))
        starts = [start for start, _ in named]
        for sentence in sentences_in(text):
            if not sentence.says:
                continue
            part = text[sentence.start : sentence.end]
            cited = tuple(citing.by(sentence))
            first, last = bisect_left(starts, sentence.start), bisect_left(starts, sentence.end)
            references = tuple(dict.fromkeys(name for _, name in named[first:last]))
            if cited or references:
                claims.append(CitedSentence(bare(part), cited, references))
            else:
                unverified.append(bare(part))
        return tuple(claims), tuple(unverified)

    def _is_said(self, quoted: str, cited: Sequence[int]) -> bool:
        """Return True if a cited source contains the quotation; if none is cited, check all sources."""
        parts = [words for part in _ELLIPSIS.split(quoted) if (words := words_of(part)).strip()]
        if sum(len(part.split()) for part in parts) < LEAST_QUOTED_WORDS:
            return True
        key = (quoted, tuple(cited))
        if key not in self._stands:
            self._stands[key] = _in_order(parts, self._asked) or any(
                _in_order(parts, self._words_in(number)) for number in (cited or self._read)
            )
        return self._stands[key]

    def _words_in(self, number: int) -> str:
        if number not in self._words:
            source_text = self._read[number]
            self._words[number] = f"{words_of(source_text.source.title)}\n{words_of(source_text.text)}"
        return self._words[number]


def _without_own_list(text: str) -> str:
    """Return the answer without lists of sources at its end, because the program writes its own list."""
    end = len(text)
    for title in reversed(list(_LIST_OF_SOURCES.finditer(text))):
        below = [line for line in text[title.end() : end].split("\n") if line.strip()]
        if not below or not all(map(_LISTED.match, below)):
            break
        end = title.start()
    return text[:end]


class _Citing:
    """Index of the citations in a text. It finds the numbers that a sentence cites."""

    def __init__(self, text: str) -> None:
        found = citations_in(text)
        self._starts = [match.start() for match in found]
        self._numbers = [numbers_of(match) for match in found]

    def by(self, sentence: Sentence) -> list[int]:
        """Return the numbers that a sentence cites, or else those that it inherits; see `Sentence`."""
        own = self._in((sentence.start, sentence.end))
        return own or [number for span in sentence.inherits for number in self._in(span)]

    def _in(self, span: Span) -> list[int]:
        first, last = bisect_left(self._starts, span[0]), bisect_left(self._starts, span[1])
        return list(dict.fromkeys(number for numbers in self._numbers[first:last] for number in numbers))


def _in_order(parts: Sequence[str], words: str) -> bool:
    """Return True if `words` contains the parts of a quotation in order.

    Each part begins and ends with a space.
    """
    at = 0
    for part in parts:
        found = words.find(part, at)
        if found < 0:
            return False
        at = found + len(part) - 1
    return True


def _with_marks(text: str, marks: Sequence[tuple[int, str]]) -> str:
    pieces: list[str] = []
    at = 0
    for position, mark in _by_position(marks):
        there = _ANNOTATIONS.match(text, position)
        end = there.end() if there is not None else position
        new = "".join(f" ({number})" for number in mark if f"({number})" not in text[position:end])
        pieces += [text[at:end], new]
        at = end
    return "".join([*pieces, text[at:]])


def _by_position(marks: Sequence[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    by_position: dict[int, list[str]] = {}
    for position, mark in marks:
        if mark not in by_position.setdefault(position, []):
            by_position[position].append(mark)
    yield from sorted(by_position.items())


def _plain(title: str) -> str:
    """Return a title with its Markdown characters escaped."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", title)


def _short(sentence: str) -> str:
    return sentence if len(sentence) <= _SHOWN_CHARS else f"{sentence[:_SHOWN_CHARS]}…"
