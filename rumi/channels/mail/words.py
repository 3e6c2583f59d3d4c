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
        if _HANDED_ON.fullmatch(short) or _begins_headers(lines, at):
            rest += lines[at:]
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
            below = (line for line in lines[at + count : at + count + 3] if line.strip())
            return count if _QUOTED.match(next(below, ">")) else 0
    return 0


def _begins_headers(lines: Sequence[str], at: int) -> bool:
    """Return True if a block of headers begins here, with which Outlook begins an answered mail."""
    if not _HEADER.fullmatch(lines[at][:_MOST_LINE].strip()):
        return False
    below = [line[:_MOST_LINE].strip() for line in lines[at + 1 : at + 4]]
    return sum(_NEXT_HEADER.fullmatch(line) is not None for line in below) >= 2
