"""What a person says in a mail: their own words, apart from what they quote, hand on or sign with."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_QUOTED: Final = re.compile(r"[ \t]{0,3}>")
_MOST_CHARS: Final = 200_000
_MOST_LINE: Final = 400

# "On Monday, Ana wrote:" in the languages of common programs. It stands above a quotation.
_WROTE: Final = re.compile(
    r"(?:on|am|le|el|il|em|op|den|w dniu|dne|på|kl\.)\b.{4,300}"
    r"(?:wrote|schrieb|a écrit|escribi[oó]|ha scritto|escreveu|schreef|skrev|napisał\(a\)|napsal\(a\))"
    r".{0,80}:",
    re.IGNORECASE,
)
_HANDED_ON: Final = re.compile(
    r"-{2,}\s*(?:forwarded message|original message|mensaje (?:original|reenviado)|mensagem original"
    r"|mensagem encaminhada|ursprüngliche nachricht|weitergeleitete nachricht|message d'origine"
    r"|message transféré|messaggio originale)\s*-{2,}"
    r"|begin forwarded message:|inicio del mensaje reenviado:|início da mensagem reencaminhada:|_{20,}",
    re.IGNORECASE,
)
_HEADER: Final = re.compile(r"\*{0,2}(?:from|von|de|da|van|från)\*{0,2}:\*{0,2} .{1,300}", re.IGNORECASE)
_NEXT_HEADER: Final = re.compile(
    r"\*{0,2}(?:sent|date|to|subject|gesendet|datum|an|betreff|envoyé|à|objet|enviado(?: el)?|fecha|para"
    r"|asunto|data|assunto|inviato|oggetto)\*{0,2}:\*{0,2} ?.{0,300}",
    re.IGNORECASE,
)
_LABEL: Final = re.compile(r"\*{0,2}[^\W\d_][^\n:*]{0,24}\*{0,2}:\*{0,2} ?.{0,300}")
_RULE: Final = re.compile(r"-{3,}")
_PHONE: Final = re.compile(
    r"(?:sent from my \w.{0,40}|enviado desde mi \w.{0,40}|enviado do meu \w.{0,40}"
    r"|von meinem .{1,40} gesendet|get outlook for .{1,20})",
    re.IGNORECASE,
)
_OF_OTHERS: Final = re.compile(r"\s*(?:re|fwd?|aw|wg|rv|enc|res|tr|sv|vs)\s*(?:\[\d+\])?\s*:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class OwnWords:
    """A mail's text: what its sender wrote, and the rest, which counts as the words of others."""

    own: str
    rest: str = ""


def words_of(text: str) -> OwnWords:
    """Split the text of a mail. The order of the lines stays.

    Lines that are quoted, and everything below a mark of a forwarded or answered mail, are the rest. What
    stands below the line `-- `, the signature, is left out. In doubt a line belongs to the rest.
    """
    lines = text[:_MOST_CHARS].replace("\r\n", "\n").split("\n")
    own: list[str] = []
    rest: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        short = line[:_MOST_LINE].strip()
        if line.rstrip("\r") == "-- " or line == "--":
            rest += [one for one in lines[at + 1 :] if _QUOTED.match(one)]
            break
        if _HANDED_ON.fullmatch(short) or _begins_headers(lines, at) or _begins_bare_quotation(lines, at):
            rest += lines[at:]
            while own and (not own[-1].strip() or _RULE.fullmatch(own[-1].strip())):
                own.pop()
            break
        if _QUOTED.match(line):
            rest.append(line)
        elif lines_above := _attribution(lines, at):
            rest += lines[at : at + lines_above]
            at += lines_above - 1
        elif not _PHONE.fullmatch(short):
            own.append(line)
        at += 1
    return OwnWords("\n".join(own).strip(), "\n".join(rest).strip())


def own_subject(subject: str, *, answers: bool) -> str:
    """Return a subject if it is its sender's own words: not that of a mail that is answered or handed on."""
    return "" if answers or _OF_OTHERS.match(subject) else " ".join(subject.split())


def answer_subject(subject: str) -> str:
    """Return the subject of the answer to a mail."""
    subject = " ".join(subject.split())[:200]
    if not subject:
        return "Rumi"
    return subject if re.match(r"re\s*:", subject, re.IGNORECASE) else f"Re: {subject}"


def _attribution(lines: Sequence[str], at: int) -> int:
    """Return how many lines say who wrote the quotation that follows; 0 if none does."""
    for count in (1, 2, 3):
        found = " ".join(line.strip() for line in lines[at : at + count])
        if len(found) <= _MOST_LINE and _WROTE.fullmatch(found):
            return count if _is_quoted(lines, at + count) else 0
    return 0


def _begins_bare_quotation(lines: Sequence[str], at: int) -> bool:
    """Return True if a line with an address says who wrote what follows, and that has no marks.

    Some programs mark quotations by their form only.
    """
    for count in (1, 2, 3):
        found = " ".join(line.strip() for line in lines[at : at + count])
        if "@" in found and len(found) <= _MOST_LINE and _WROTE.fullmatch(found):
            return not _is_quoted(lines, at + count)
    return False


def _is_quoted(lines: Sequence[str], at: int) -> bool:
    """Return True if the next lines are marked as a quotation, or if there are none."""
    below = (line for line in lines[at : at + 3] if line.strip())
    return _QUOTED.match(next(below, ">")) is not None


def _begins_headers(lines: Sequence[str], at: int) -> bool:
    """Return True if a block of headers begins here, with which Outlook begins an answered mail.

    In other languages than the known ones, four lines with labels count below a rule or with an address.
    """
    first = lines[at][:_MOST_LINE].strip()
    below = [line[:_MOST_LINE].strip() for line in lines[at + 1 : at + 4]]
    if _HEADER.fullmatch(first) and sum(_NEXT_HEADER.fullmatch(line) is not None for line in below) >= 2:
        return True
    if len(below) < 3 or not all(map(_LABEL.fullmatch, (first, *below))):
        return False
    above = next((line.strip() for line in reversed(lines[max(0, at - 3) : at]) if line.strip()), "")
    return "@" in first or _RULE.fullmatch(above) is not None
