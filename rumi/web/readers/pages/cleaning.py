"""Removal of invisible characters from text, and shortening of text at the end of a paragraph."""

import re
import sys
from typing import Final

# Control characters; direction marks; characters without width; tags and supplementary variation selectors,
# which no screen shows and which can hide whole sentences; lone surrogates.
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ufffe\uffff\ufdd0-\ufdef\ud800-\udfff\U000e0000-\U000e0fff]"
)
_REFERENCE: Final = re.compile(r"&#(?:[xX]([0-9a-fA-F]+)|([0-9]+));?")
_LINE_ENDS: Final = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_BEGUN_ADDRESS: Final = re.compile(r"https?://(?:(?!https?://)[^\s<>\"'])*$")
_FENCE: Final = re.compile(r"^ *(`{3,})", re.MULTILINE)


def clean(text: str) -> str:
    """Return the text without control characters and other invisible characters; lines end with newlines."""
    return _UNSEEN.sub("", _LINE_ENDS.sub("\n", text))


def clean_references(markup: str) -> str:
    """Remove from markup the character references that are invalid or stand for invisible characters."""
    return _REFERENCE.sub(lambda found: found[0] if _is_seen(found) else "", markup)


def _is_seen(reference: re.Match[str]) -> bool:
    digits = (reference[1] or reference[2]).lstrip("0")
    if not digits or len(digits) > 7:
        return False
    number = int(digits, 16 if reference[1] else 10)
    return number <= sys.maxunicode and not _UNSEEN.match(chr(number))


def one_line(text: str, most: int = 300) -> str:
    """Clean a text for titles and labels: put it on one line, and cut it to `most` characters."""
    line = " ".join(clean(text).split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def cut_to(text: str, max_chars: int) -> tuple[str, str]:
    """Cut a text to `max_chars` characters, if possible at a paragraph's end; return a note if it was cut.

    A code block that was cut is closed. A URL is never cut in the middle, because its beginning would be a
    different URL.
    """
    if len(text) <= max_chars:
        return text, ""
    body_chars = max(0, max_chars - 8)  # leaves space for the closing fence of a code block
    end = next(
        (
            at
            for at in (text.rfind(sign, body_chars // 2, body_chars + 1) for sign in ("\n\n", "\n", " "))
            if at > 0
        ),
        body_chars,
    )
    kept = text[:end].rstrip()
    if not text[end : end + 1].isspace():
        kept = _BEGUN_ADDRESS.sub("", kept)
    fence = ""
    for found in _FENCE.finditer(kept):
        fence = "" if fence and found[1] == fence else fence or found[1]
    left_out = len(text) - len(kept)
    if fence and len(kept) + len(fence) < max_chars:
        kept += f"\n{fence}"
    return kept, f"{left_out:,} of {len(text):,} characters were left out at the end"
