"""Choice of the search provider. If a provider fails, the next one is tried."""

from typing import Final

import trio

from rumi.texts import joined
from rumi.web.messages import FetchError, ProviderName, SearchResults, SearchWeb
from rumi.web.search.api import Kagi, Tavily
from rumi.web.search.duck import Duck
from rumi.web.search.kagi_session import KagiSession
from rumi.web.search.provider import SearchProvider, SearchQuery

MAX_RESULTS: Final = 20
"""Maximum number of results, which is the lowest maximum of all providers."""


class Searching:
    """Searches with the configured provider.

    `auto` tries Tavily and Kagi, if they have a key, and then ddgs, until one answers. If a provider is
    named, it is tried first; if it fails, ddgs is tried, because ddgs needs no key. A named provider without
    its key is an error. Kagi also works with a session token instead of a key. An empty result is an answer.
    Each provider has `timeout_s` seconds.

    `ca_file` contains the certificates to trust instead of the default certificates. `proxy` is used for
    ddgs, instead of the environment's proxy.
    """

    def __init__(
        self,
        provider: ProviderName = "auto",
        *,
        tavily_key: str = "",
        kagi_key: str = "",
        kagi_session: str = "",
        timeout_s: float = 10.0,
        tavily_url: str = Tavily.URL,
        kagi_url: str = Kagi.URL,
        kagi_page_url: str = KagiSession.URL,
        ca_file: str | None = None,
        proxy: str | None = None,
    ) -> None:
        self._provider: ProviderName = provider
        self._known: dict[str, SearchProvider] = {}
        if tavily_key.strip():
            self._known["tavily"] = Tavily(tavily_key, timeout_s=timeout_s, url=tavily_url, ca_file=ca_file)
        if kagi_key.strip():
            self._known["kagi"] = Kagi(kagi_key, timeout_s=timeout_s, url=kagi_url, ca_file=ca_file)
        elif kagi_session.strip():
            self._known["kagi"] = KagiSession(
                kagi_session, timeout_s=timeout_s, url=kagi_page_url, ca_file=ca_file
            )
        self._known["ddgs"] = Duck(timeout_s=timeout_s, proxy=proxy, ca_file=ca_file)

    async def __call__(self, request: SearchWeb) -> SearchResults:
        """Return the results of the first provider that answers.

        On cancellation, leaves no connection and no process.

        Raises:
            FetchError: No provider answered; the error contains the reason that each provider gave, and no
                secret.
        """
        providers = self._in_order()
        query = SearchQuery(
            _one_line(request.query), min(max(request.max_results, 1), MAX_RESULTS), request.topic
        )
        failures: list[FetchError] = []
        for provider in providers:
            try:
                results = await provider.search(query)
            except FetchError as error:
                failures.append(error)
            else:
                return SearchResults(provider.name, results, tuple(error.message for error in failures))
            await trio.lowlevel.checkpoint()
        raise _all_failed(failures)

    def _in_order(self) -> list[SearchProvider]:
        if self._provider == "auto":
            return list(self._known.values())
        if self._provider not in self._known:
            key_name = {"tavily": Tavily.KEY_NAME, "kagi": Kagi.KEY_NAME}[self._provider]
            raise FetchError(
                "search.provider is {provider}, and its key is missing.",
                "Put {key_name}=… into .env in the home, or set search.provider to auto.",
                key_name=key_name,
                provider=self._provider,
            )
        names = dict.fromkeys((self._provider, "ddgs"))
        return [self._known[name] for name in names]


def _one_line(text: str) -> str:
    """Return the query as one line of valid Unicode."""
    return " ".join(text.encode("utf-8", "replace").decode().split())


def _all_failed(failures: list[FetchError]) -> FetchError:
    advice = next((error.advice for error in failures if error.advice), "Try again later.")
    return FetchError(
        joined(error.message for error in failures),
        advice,
        answered=any(error.answered for error in failures),
    )
