"""Saved pages of different kinds, what a person would want of each, and how much of it a text has.

Three sets: the reading was tuned on the first; the second was written later, and what it showed to be lost
was mended; nothing was ever changed because of the third, which only the benchmark reads.
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).with_name("pages")
TUNED_ON = FOLDER
FIXED_AFTER = FOLDER / "later"
UNSEEN = FOLDER / "unseen"
_MARKS = re.compile(
    r"\]\((?:[^()\s]|\([^()\s]*\))*(?:\s+\"[^\"]*\")?\)|\[\^|[*_`\[\]\\#>~]|^\s*[-+]\s", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class SavedPage:
    name: str
    kind: str
    url: str
    title: str
    body: bytes
    wanted: tuple[str, ...]
    links: tuple[str, ...]
    noise: tuple[str, ...]


def saved_pages(folder: Path = TUNED_ON) -> Iterator[SavedPage]:
    expected = tomllib.loads((folder / "expected.toml").read_text("utf-8"))
    for name, says in expected.items():
        yield SavedPage(
            name,
            says["kind"],
            says["url"],
            says["title"],
            (folder / f"{name}.html").read_bytes(),
            tuple(says["wanted"]),
            tuple(says["links"]),
            tuple(says["noise"]),
        )


def plain(text: str) -> str:
    """Without Markdown's marks, and with single spaces: words are compared, not how they are marked."""
    bare = _MARKS.sub(lambda found: " " if found[0].strip() in ("-", "+") else "", text.replace("&gt;", ">"))
    return " ".join(bare.replace("|", " ").split())


def missing(page: SavedPage, text: str) -> list[str]:
    """The phrases that a person would miss."""
    has = plain(text)
    return [phrase for phrase in page.wanted if plain(phrase) not in has]


def noise_in(page: SavedPage, text: str) -> list[str]:
    """The phrases that a person would have done without."""
    has = plain(text)
    return [phrase for phrase in page.noise if re.search(rf"(?<!\w){re.escape(plain(phrase))}", has)]


def kept_words(page: SavedPage, text: str) -> float:
    """The share of the wanted words that is there, in phrases that are whole."""
    lost = set(missing(page, text))
    words = {phrase: len(phrase.split()) for phrase in page.wanted}
    return sum(count for phrase, count in words.items() if phrase not in lost) / sum(words.values())
