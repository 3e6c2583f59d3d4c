"""Screenshots of a page in many states, so that people can look at it.

    shoot(browser, served.new_link(), {"empty": lambda page: None, "menu": open_menu}, Path("/tmp/looking"))

One picture for each state, width and colour scheme, and for each language of `links`.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SIZES = {1440: 900, 768: 1024, 390: 844}
"""Widths of a desk, a tablet and a phone, with their heights, in CSS pixels."""


def shoot(
    browser: "Browser",
    links: str | Mapping[str, str],
    states: "Mapping[str, Callable[[Page], object]]",
    folder: Path,
    widths: Iterable[int] = tuple(SIZES),
    schemes: Iterable[str] = ("light", "dark"),
) -> list[Path]:
    """Take the screenshots `STATE-LANGUAGE-WIDTH-SCHEME.png` in the folder, and return their paths.

    `links` is an address, or one for each language. Each state begins with a fresh window of the same session
    and drives its page to where the picture is taken. The windows have a touch screen up to 500 pixels.
    """
    folder.mkdir(parents=True, exist_ok=True)
    taken = []
    for language, link in ({"en": links} if isinstance(links, str) else links).items():
        session = browser.new_context()
        first = session.new_page()
        first.goto(link)
        home = "/".join(first.url.split("/")[:3])
        cookies = session.storage_state()
        session.close()
        for width in widths:
            for scheme in schemes:
                context = browser.new_context(
                    storage_state=cookies,
                    viewport={"width": width, "height": SIZES.get(width, 900)},
                    color_scheme="dark" if scheme == "dark" else "light",
                    has_touch=width <= 500,
                    is_mobile=width <= 500,
                    locale=language,
                )
                for state, drive in states.items():
                    page = context.new_page()
                    page.goto(home)
                    drive(page)
                    path = folder / f"{state}-{language}-{width}-{scheme}.png"
                    page.screenshot(path=path)
                    taken.append(path)
                    page.close()
                context.close()
    return taken
