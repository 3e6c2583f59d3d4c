"""The page's colours: each text can be read on each ground, in light and in dark."""

import re
from pathlib import Path

import pytest

STATIC = Path(__file__).parents[3] / "rumi" / "channels" / "page" / "static"
TOKENS = re.compile(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);")
GROUNDS = ("bg", "side", "raised", "soft", "press", "code", "accent-soft", "ok-soft", "warn-soft", "bad-soft")
TEXTS = ("text", "dim", "accent", "ok", "warn", "bad", "keyword", "string", "function")
STYLES = ("base.css", "shell.css", "side.css", "talk.css", "composer.css", "drawer.css")


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour, as WCAG 2.2 defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, from 1 to 21."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_texts_and_edges_have_the_contrast_that_people_need(scheme: int) -> None:
    colours = {name: both[scheme] for name, *both in TOKENS.findall((STATIC / "base.css").read_text())}
    wanted = [(text, ground, 4.5) for text in TEXTS for ground in GROUNDS]
    wanted += [("text", "found", 4.5), ("on-accent", "accent", 4.5), ("on-accent", "accent-over", 4.5)]
    wanted += [(mark, ground, 3) for mark in ("edge", "accent") for ground in ("bg", "side", "raised")]
    poor = {
        (front, ground): round(found, 2)
        for front, ground, least in wanted
        if (found := contrast(colours[front], colours[ground])) < least
    }
    assert poor == {}


def test_colours_stand_in_one_place() -> None:
    for path in (STATIC / name for name in STYLES):
        if path.exists():
            rules = re.sub(
                r"/\*.*?\*/|--[\w-]+:[^;]*;|light-dark\([^()]*\)", "", path.read_text(), flags=re.DOTALL
            )
            found = re.findall(r":[^;{}]*(#[0-9a-fA-F]{3,8}\b|\brgba?\()", rules)
            assert found == [], f"{path.name}: use the tokens of base.css"
