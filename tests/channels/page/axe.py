"""The accessibility checker of browser tests: axe with the rules of WCAG 2.2, levels A and AA."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from axe_playwright_python.sync_playwright import Axe

if TYPE_CHECKING:
    from playwright.sync_api import Page

TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
RULES = {"type": "tag", "values": TAGS}
COLOURS = {"type": "rule", "values": ("color-contrast", "link-in-text-block")}
"""The rules whose result depends on the colour scheme."""

SETTLED = """() => Promise.race([
    Promise.all(document.getAnimations()
        .filter((each) => each.effect.getComputedTiming().endTime !== Infinity)
        .map((each) => each.finished.catch(() => {}))),
    new Promise((resolve) => setTimeout(resolve, 3000))])"""
"""Without frames to draw, no animation ends, and `evaluate` has no limit of its own."""


def violations(page: "Page", rules: Mapping[str, object] = RULES) -> list[tuple[str, str]]:
    """Return what axe finds, as rules and the HTML of their first elements.

    It waits until animations have ended: an element that fades in has less contrast than it will have.
    """
    page.evaluate(SETTLED)
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    options = {"runOnly": rules, "resultTypes": ["violations"]}
    found: list[dict[str, Any]] = page.evaluate(
        "async (options) => (await axe.run(document, options)).violations", options
    )
    return [(each["id"], each["nodes"][0]["html"]) for each in found]


def violations_in_both_schemes(page: "Page") -> list[tuple[str, str]]:
    """Return what axe finds in light, and what it finds about colours in dark."""
    page.emulate_media(color_scheme="light")
    found = violations(page)
    page.emulate_media(color_scheme="dark")
    found += violations(page, COLOURS)
    page.emulate_media(color_scheme="light")
    return found
