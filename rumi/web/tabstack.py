"""Reading of pages by the service Tabstack instead of Rumi's readers, if configured.

Tabstack gets the URL of each page and fetches the page. The guard checks the URL first, so that no private
address is sent to Tabstack. https://docs.tabstack.ai/api/resources/extract/methods/markdown
"""

from typing import Final

from rumi.web.guard import AddressGuard
from rumi.web.links import links_in
from rumi.web.messages import FetchError, Page
from rumi.web.readers.pages.cleaning import clean, cut_to, one_line
from rumi.web.search.api import Api
from rumi.web.url import Target

TIMEOUT_S: Final = 60.0
"""Maximum time to wait for an answer, in seconds; Tabstack usually takes 3 to 15 seconds."""


class Tabstack:
    """A client for Tabstack's API, which converts pages to Markdown."""

    TITLE = "Tabstack"
    URL = "https://api.tabstack.ai/v1/extract/markdown"
    KEY_NAME = "TABSTACK_API_KEY"

    def __init__(
        self,
        key: str,
        guard: AddressGuard,
        *,
        timeout_s: float = TIMEOUT_S,
        url: str = "",
        ca_file: str | None = None,
    ) -> None:
        self._key = key.strip()
        self._guard = guard
        self._api = Api(
            self.TITLE, url or self.URL, self._key, self.KEY_NAME, timeout_s=timeout_s, ca_file=ca_file
        )

    async def page(self, target: Target, max_chars: int) -> Page | None:
        """Return a page, or None if the target is one of the guard's exceptions.

        Only this machine can reach such a target, and Tabstack cannot. On cancellation, closes the
        connection.

        Raises:
            FetchRefused: The guard refuses the target; Tabstack gets no request.
            FetchError: There is no usable answer in time, or no key.
        """
        if not self._key:
            raise FetchError(
                "fetch.reader is tabstack, and its key is missing.",
                "Put TABSTACK_API_KEY=… into .env in the home, or set fetch.reader to own.",
            )
        if not await self._guard.is_public(target.host, target.port):
            return None
        answer = await self._api.ask({"url": target.page, "metadata": True})
        content, metadata = answer.get("content"), answer.get("metadata")
        if not isinstance(content, str):
            raise FetchError("Tabstack does not answer as its documentation says.", answered=True)
        title = metadata.get("title") if isinstance(metadata, dict) else None
        text, cut = cut_to(clean(content).strip("\n"), max_chars)
        return Page(
            target.page,
            200,
            "text/markdown",
            one_line(title) if isinstance(title, str) else "",
            text,
            links_in(text),
            cut,
            "" if text else "Tabstack found no text in it.",
        )
