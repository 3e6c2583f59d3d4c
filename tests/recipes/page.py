"""The recipes of `docs/recipes.md`, as a reader copies them: the fenced blocks below each heading."""

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from tests.conftest import ROOT

PAGE: Final = ROOT / "docs" / "recipes.md"

_HEADING: Final = re.compile(r"^## (\d+)\. (.+)$", re.MULTILINE)
_FENCE: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Recipe:
    """A recipe's blocks that no test has taken yet, each with its language.

    `place` says what stands in the place of the page's examples, such as a server on loopback.
    """

    title: str
    blocks: list[tuple[str, str]]
    place: dict[str, str] = field(default_factory=dict)

    def has(self, language: str, words: str = "") -> bool:
        """Whether there is a block in a language, and the next one has these words."""
        found = [block for written, block in self.blocks if written == language]
        return bool(found) and words in found[0]

    def take(self, language: str) -> str:
        """The next block in a language."""
        assert self.has(language), f"“{self.title}” has no more blocks in {language}: {self.blocks}"
        at = next(at for at, (written, _) in enumerate(self.blocks) if written == language)
        _, block = self.blocks.pop(at)
        for example, instead in self.place.items():
            block = re.sub(example, lambda _: instead, block)  # noqa: B023  # used at once
        return block

    def said(self) -> list[str]:
        """What the reader writes in the chat: a message for each line of the next block `text`."""
        return self.take("text").splitlines()

    def is_played(self) -> bool:
        """Whether all that the recipe shows was taken."""
        return not self.blocks


@cache
def recipes() -> dict[int, tuple[str, str]]:
    """The title and the text of each recipe, by its number."""
    _, *parts = _HEADING.split(PAGE.read_text("utf-8"))
    found = {int(number): (title, body) for number, title, body in zip(*[iter(parts)] * 3, strict=True)}
    assert len(found) == len(parts) / 3, "two recipes have the same number"
    return found


def beginning() -> Recipe:
    """What the page has readers do before they follow a recipe."""
    return Recipe("the beginning", _FENCE.findall(_HEADING.split(PAGE.read_text("utf-8"))[0]))


def recipe(number: int) -> Recipe:
    title, body = recipes()[number]
    return Recipe(title, _FENCE.findall(body.split("\n## ")[0]))
