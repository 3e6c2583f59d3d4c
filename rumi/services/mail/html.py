"""Texts of mails in HTML: converted to Markdown in the confined process that reads documents.

Hidden elements are dropped, and nothing is fetched: pictures of other servers tell them that a mail was read.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from rumi.web.readers.files.reading import Looks, ViewRefused

HtmlToText: TypeAlias = Callable[[str], Awaitable[str]]
"""Returns the visible text of a mail in HTML. Raises `ViewRefused` if it cannot be read."""


def html_reader(looks: Looks) -> HtmlToText:
    """Return a function that converts HTML in a confined process, which is killed on cancellation."""

    async def read(html: str) -> str:
        # As a mail of one part: in a document nothing counts as a menu or a banner, as it would in a page.
        body = b"Content-Type: text/html; charset=utf-8\r\n\r\n" + html.encode("utf-8", "replace")
        async with looks.slots:
            heard = await looks.look("document", body, "mail.eml")
        text = heard.get("text")
        if not isinstance(text, str):
            raise ViewRefused("its reader has failed")
        return text.strip()

    return read
