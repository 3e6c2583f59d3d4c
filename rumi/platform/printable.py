"""Cleans what others write, which may contain sequences that a terminal would obey, before it is printed."""

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
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what turns the direction of writing
    "\ufeff]"
)
_SURROGATES = re.compile("[\ud800-\udfff]")
# `json` escapes C0 only. These are valid in JSON, but a terminal would obey them, some readers take U+2028
# for the end of a line, and halves of surrogate pairs can't be encoded.
_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")


def clean(text: str) -> str:
    """Return `text` without anything that a terminal would obey: letters, spaces, tabs and newlines are left.

    Whole escape sequences go, not only their first character; every kind of line end becomes a
    newline; halves of surrogate pairs become U+FFFD, so that the result can always be encoded.

    A sequence never reaches beyond its line. So the lines of a text that is still growing do not
    change any more, except for the last: what has been shown stays true.
    """
    text = _SEQUENCES.sub("", text)
    text = _BREAKS.sub("\n", text)
    text = _CONTROLS.sub("", text)
    return _SURROGATES.sub("\ufffd", text)


def flat(text: object) -> str:
    """Return the text on one line, where each run of blanks and of what cannot be printed is one blank."""
    return " ".join("".join(c if c.isprintable() else " " for c in clean(str(text))).split())


def escaped(text: str) -> str:
    """Return JSON with escapes in place of what a terminal would obey: it stays the same JSON."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def one_line(text: str) -> str:
    """Return `text` cleaned and on a single line, its newlines and tabs shown as spaces or `⏎`."""
    return clean(text).strip().replace("\n", " ⏎ ").replace("\t", " ")
