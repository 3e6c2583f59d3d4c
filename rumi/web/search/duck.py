"""Search without a key, using the library ddgs in a separate process.

ddgs is synchronous and opens its own sockets. A thread that runs ddgs could not be stopped, but a process can
be killed.
"""

import os
from pathlib import Path
from typing import Any, Final

import trio

from rumi.platform.proxies import SetupError, proxies
from rumi.sandbox.confined.parent import Child, ChildFailed
from rumi.texts import Text
from rumi.web.messages import FetchError, SearchResult
from rumi.web.search.provider import MAX_ANSWER_BYTES, Fields, SearchQuery, found, malformed

_PROGRAM: Final = Path(__file__).with_name("ddgs_process.py")
_AT_ONCE: Final = 4
"""Maximum number of processes. Each takes about 40 MB and a fifth of a second of processor time."""

_FIELDS: Final = {
    "general": Fields(url="href", snippet="body"),
    "news": Fields(url="url", snippet="body", date="date"),
}
_PASSED_ON: Final = ("LD_LIBRARY_PATH",)
_ENGINE: Final = "https://duckduckgo.com"
_SENTENCES: Final = {
    "unreachable": Text("ddgs could reach no search engine."),
    "timeout": Text("ddgs got no answer from a search engine in time."),
    "refused": Text("The search engines turned ddgs away."),
    "failed": Text("ddgs got nothing usable from the search engines."),
}


def _proxy() -> str | None:
    """Return the address of the environment's proxy for search engines.

    Raises:
        FetchError: The proxy cannot be used.
    """
    try:
        found = proxies().to_url(_ENGINE)
    except SetupError as error:
        raise FetchError(error.message, error.advice) from None
    return None if found is None else found.url


class Duck:
    """The provider ddgs; see `SearchProvider`. `timeout_s` includes the wait for a free process.

    `proxy` and `ca_file` replace the environment's proxy for search engines and `SSL_CERT_FILE`.
    """

    name = "ddgs"

    def __init__(self, *, timeout_s: float, proxy: str | None = None, ca_file: str | None = None) -> None:
        self._timeout_s = timeout_s
        self._proxy = proxy
        self._ca_file = ca_file
        self._limiter = trio.CapacityLimiter(_AT_ONCE)

    async def search(self, query: SearchQuery) -> tuple[SearchResult, ...]:
        """Return the results of ddgs.

        Its process has ended when this method returns, even after a cancellation. If an engine answers with a
        captcha, ddgs only reports that nothing was found.
        """
        answer = None
        with trio.move_on_after(self._timeout_s):
            async with self._limiter:
                answer = await self._run(self._request(query))
        if answer is None:
            raise FetchError("ddgs did not answer in {timeout_s} s.", timeout_s=f"{self._timeout_s:g}")
        if isinstance(failure := answer.get("failed"), str):
            if failure not in _SENTENCES:
                raise malformed("ddgs")
            raise FetchError(_SENTENCES[failure], answered=failure != "unreachable")
        return found("ddgs", answer.get("results"), _FIELDS[query.topic], query.max_results)

    def _request(self, query: SearchQuery) -> dict[str, object]:
        environment = os.environ
        return {
            "query": query.text,
            "topic": query.topic,
            "max_results": query.max_results,
            # ddgs asks engines one after another. With the whole time limit, the first could use all of it.
            "engine_timeout_s": max(1, int(self._timeout_s / 2)),
            "proxy": self._proxy or _proxy(),
            "ca_file": self._ca_file or environment.get("SSL_CERT_FILE") or None,
        }

    async def _run(self, request: dict[str, object]) -> dict[str, Any]:
        """Run the process, and return the answer. The process has ended when this method returns."""
        passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        try:
            async with await Child.start(
                [str(_PROGRAM)], most_bytes=MAX_ANSWER_BYTES, environment=passed_on
            ) as process:
                await process.say(request)
                return await process.hear()
        except ChildFailed as error:
            if error.why == "not started":
                raise FetchError("ddgs could not be started: {error}.", error=error) from None
            raise FetchError("ddgs ended without an answer.", answered=True) from None
