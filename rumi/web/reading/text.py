"""What is read from a page."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Text:
    """A page as a model can read it.

    `text` is Markdown where the page was HTML, otherwise what it is; empty for what cannot be read, and then
    `described` is one line that says what it is. `links` are the addresses that `text` shows, once each, in
    its order, as the WHATWG parse writes them. `cut` says how much was left out; empty where nothing was.
    """

    title: str = ""
    text: str = ""
    links: tuple[str, ...] = ()
    cut: str = ""
    described: str = ""
