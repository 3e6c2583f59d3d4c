"""Cleans untrusted text before printing: the text may contain escape sequences that a terminal would obey."""

import re

_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement, modes
    # OSC, DCS, SOS, PM, APC with their ends
    r"|\x1b[\]PX^_][^\x07\x1b\n\r\v\f\x85\u2028\u2029]{0,4096}(?:\x07|\x1b\\)"
    r"|\x1b[ -/]+[0-~]"  # character sets and the like
    r"|\x1b[0-Z\\^-~]"  # two-character sequences, reset (`ESC c`) among them
)
_BREAKS = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")
_CONTROLS = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f"  # C0 but tab and newline, DEL, C1 (CSI and OSC in one character)
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional controls, which can reorder a line
    "\ufeff]"
)
_SURROGATES = re.compile("[\ud800-\udfff]")
# `json` escapes C0 only. These characters are valid in JSON, but a terminal would obey them, some readers
# take U+2028 for the end of a line, and halves of surrogate pairs can't be encoded.
_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")


def clean(text: str) -> str:
    """Return `text` without escape sequences and control characters; tabs and newlines are preserved.

    Escape sequences are removed completely, not only their first character. Every kind of line end becomes a
    newline. Lone surrogates become U+FFFD, so that the result can always be encoded.

    An escape sequence never extends beyond its line. When text is appended, only the result's last line can
    change, so earlier lines that were printed already stay valid.
    """
    text = _SEQUENCES.sub("", text)
    text = _BREAKS.sub("\n", text)
    text = _CONTROLS.sub("", text)
    return _SURROGATES.sub("\ufffd", text)


def flat(text: object) -> str:
    """Return the text on one line; each run of whitespace and unprintable characters becomes one space."""
    return " ".join("".join(c if c.isprintable() else " " for c in clean(str(text))).split())


def escaped(text: str) -> str:
    """In a JSON text, escape the characters that a terminal would obey. The JSON value stays the same."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def last_lines(text: str, most: int) -> list[str]:
    """Return the last lines of a text that have content, at most `most`, safe to print.

    Of a line that was overwritten, as by a progress bar, only what is shown last counts.
    """
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    found = [one_line(line) for line in lines if line.strip()]
    return found[-most:] if most > 0 else []


def one_line(text: str) -> str:
    """Return `text` cleaned and on a single line: newlines become `⏎`, tabs become spaces."""
    return clean(text).strip().replace("\n", " ⏎ ").replace("\t", " ")
