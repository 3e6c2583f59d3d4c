"""QR codes of links, as rows of modules: the terminal prints them, and the page draws them."""

from typing import Final

BORDER: Final = 2
"""Width of the light border, in modules. Scanners need one; the standard's 4 is too wide for terminals."""


def qr_rows(text: str) -> list[list[int]]:
    """Return the rows of a QR code with its border; 1 is a dark module."""
    import segno  # here: only a link needs it

    return [list(row) for row in segno.make(text, error="l", micro=False).matrix_iter(border=BORDER)]
