"""`docs/dialects.md`: what servers send that differs, from the recordings in tests. `make docs` writes it."""

from collections.abc import Iterator
from pathlib import Path

from tests.dialects.recordings import Kind, Recording, kinds

TARGET = Path(__file__).parent.parent / "dialects.md"

MARK = "## Kinds\n"
"""The heading after which the document is made from the recordings."""

_HEAD = "| what servers do | what Rumi makes of it | recordings |\n|---|---|---|"


def rendered(text: str) -> str:
    """Return the whole document; its beginning is that of `text`."""
    begin = text.partition(MARK)[0] + MARK
    return "\n".join((begin, _HEAD, *map(_row, kinds()), "\n## Recordings", *_details(), ""))


def _row(kind: Kind) -> str:
    title, rumi = (text.replace("|", "\\|").replace("<", "&lt;") for text in (kind.title, kind.rumi))
    return f"| {title} | {rumi} | [{len(kind.recordings)}](../tests/dialects/{kind.name}.jsonl) |"


def _details() -> Iterator[str]:
    """Yield who sends what; a link leads to a public report."""
    for kind in kinds():
        yield f"\n**{kind.title.replace('<', '&lt;')}**: " + "; ".join(map(_sender, kind.recordings)) + "."


def _sender(recording: Recording) -> str:
    name = str(recording.head["from"])
    return f"[{name}]({recording.head['source']})" if "source" in recording.head else name


if __name__ == "__main__":
    TARGET.write_text(rendered(TARGET.read_text("utf-8")), "utf-8")
