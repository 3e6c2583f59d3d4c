"""Tables for the short lines of a messenger: aligned columns if the columns fit, else one record per row."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.cells import cell_len

COLUMNS: Final = 48
"""Maximum width of aligned columns, in cells of a monospaced font: about the width of a phone."""

_BETWEEN: Final = " | "


def columns(rows: Sequence[Sequence[str]], alignments: Sequence[str]) -> str | None:
    """Return the rows as aligned columns; None if they would be too wide. The first row is the header.

    `alignments` contains `left`, `center`, `right` or an empty string for each column. Wide characters count
    as two cells.
    """
    count = max((len(row) for row in rows), default=0)
    if not count or (count - 1) * len(_BETWEEN) + count > COLUMNS:
        return None
    widths = [1] * count
    for row in rows:
        for column, cell in enumerate(row):
            if len(cell) > COLUMNS:
                return None
            widths[column] = max(widths[column], cell_len(cell))
    if sum(widths) + (count - 1) * len(_BETWEEN) > COLUMNS:
        return None
    lines = [_line(row, widths, alignments) for row in rows]
    lines.insert(1, "-+-".join("-" * width for width in widths))
    return "\n".join(lines)


def records(rows: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    """Yield each row below the header as lines of `header: value`.

    Empty cells are omitted. If a column is completely empty, its header appears once.
    """
    header, *body = rows
    body = body or [[""] * len(header)]
    filled = {column for row in body for column, cell in enumerate(row) if cell}
    for number, row in enumerate(body):
        lines = []
        for column, cell in enumerate(row):
            name = header[column] if column < len(header) else ""
            if cell or (number == 0 and name and column not in filled):
                lines.append(f"{name}: {cell}".rstrip() if name else cell)
        if lines:
            yield lines


def _line(row: Sequence[str], widths: Sequence[int], alignments: Sequence[str]) -> str:
    cells = []
    for column, width in enumerate(widths):
        cell = row[column] if column < len(row) else ""
        alignment = alignments[column] if column < len(alignments) else ""
        missing = width - cell_len(cell)
        left = {"right": missing, "center": missing // 2}.get(alignment, 0)
        cells.append(" " * left + cell + " " * (missing - left))
    return _BETWEEN.join(cells).rstrip()
