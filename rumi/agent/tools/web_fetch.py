"""The `web_fetch` tool: returns the content of a URL as text."""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from rumi.agent.tool import Progress, Question, Reach, Tool, ToolResult
from rumi.models.model import ToolSpec
from rumi.platform.untrusted_text import one_line, untrusted_block
from rumi.texts import Text
from rumi.web.messages import FetchError, Method, Page

MAX_TEXT_CHARS: Final = 50_000
"""Maximum number of characters of a page's text in a result. Links are taken from the whole page."""

_MEDIA_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9.+-]{0,40}/[a-z0-9][a-z0-9.+-]{0,60}")

SPEC = ToolSpec(
    name="web_fetch",
    description=(
        "Get a page of the web as Markdown, also JSON, text and PDF. Use addresses exactly as the user, a "
        "page or a search gave them: others may need the user's yes."
    ),
    parameters={
        "type": "object",
        "properties": {
            "url": {"type": "string"},
            "method": {
                "type": "string",
                "enum": ["GET", "HEAD"],
            },
        },
        "required": ["url"],
    },
)


class WebFetch(Tool):
    """The `web_fetch` tool for the chat that `fetch` is bound to.

    The protocol `Fetch` describes the effects, the steps and the errors.
    """

    spec = SPEC
    concurrent = True
    looks_outside = True
    only_reads = True

    def __init__(self, fetch: Callable[[str, Method, Progress], Awaitable[Page]]) -> None:
        self._fetch = fetch

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return a question for a URL that is not in `known_urls`; an unknown URL could leak data.

        A known URL without its fragment counts as known too.
        """
        from rumi.web.url import parse_target  # the parser is loaded on its first use, not at startup

        url = arguments.get("url")
        if not isinstance(url, str) or _method(arguments) is None:
            return None
        try:
            target = parse_target(url)
        except FetchError:
            return None
        if target.href in known_urls or target.href in {
            known_url.partition("#")[0] for known_url in known_urls
        }:
            return None
        reach = Reach(self.spec.name, host=target.origin, address=target.page, reads=True)
        return Question("fetch", {"url": target.href, "host": target.host}, reach=reach)

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Fetch the page. On cancellation, nothing of the fetch keeps running."""
        return await self.call_reporting(arguments, lambda step: None)

    async def call_reporting(self, arguments: Mapping[str, object], progress: Progress) -> ToolResult:
        """Fetch the page, and report redirects and the progress of large downloads."""
        url, method = arguments.get("url"), _method(arguments)
        if not isinstance(url, str):
            return ToolResult(False, Text("web_fetch needs `url`, a string"))
        if method is None:
            return ToolResult(False, Text("web_fetch takes `method` as GET or HEAD"))
        try:
            page = await self._fetch(url, method, progress)
        except FetchError as error:
            return failure(url, error)
        return await self.reported(page, method)

    async def reported(self, page: Page, method: Method) -> ToolResult:
        """Return the tool result for a page."""
        return report(page, method)


def report(page: Page, method: Method = "GET") -> ToolResult:
    """Return the tool result for a page: facts about the page, then its content in an untrusted block."""
    left_out = len(page.text) - MAX_TEXT_CHARS
    cut = [f"the last {left_out} characters of the text are left out"] if left_out > 0 else []
    result = page_result(page, page_inside(page, method), cut=cut)
    return replace(result, whole_output=page.text.encode("utf-8", "replace")) if cut else result


def page_result(page: Page, text: str, *, first: Sequence[str] = (), cut: Sequence[str] = ()) -> ToolResult:
    """Return a tool result for a page: one line of facts, starting with `first`, then `text` in a block.

    The block is delimited as untrusted. `cut` describes the parts of the page that are left out.
    """
    cut = [*([one_line(page.cut, 300)] if page.cut else []), *cut]
    facts = [*first, f"status {page.status}", _type(page.media_type)]
    if page.redirects:
        facts.append(f"after {page.redirects} redirect{'s' * (page.redirects > 1)}")
    facts += [f"cut: {limit}" for limit in cut]
    untrusted = untrusted_block(page.url, text)
    cached = ["from the cache"] if page.cached else []
    return ToolResult(
        ok=True,
        content=f"{' · '.join(facts + cached)}\n{untrusted}",
        truncated=bool(cut),
        same_as=f"{' · '.join(facts)}\n{untrusted}",
        tainted=True,
        links=tuple(dict.fromkeys((page.url, *page.links))),
    )


def failure(url: str, error: FetchError) -> ToolResult:
    """Return the tool result for a failed fetch. Text from the server is in a delimited untrusted block."""
    if not error.answered:
        return ToolResult(False, Text("not fetched: {error}", error=error.for_model))
    return ToolResult(
        False, Text("not fetched\n{url}", url=untrusted_block(url, error.for_model)), tainted=True
    )


def page_inside(page: Page, method: Method = "GET") -> str:
    """Return a page's title and text, up to `MAX_TEXT_CHARS`, or a description of a page without text."""
    title = f"title: {' '.join(page.title.split())[:300]}" if page.title.strip() else ""
    text = page.text[:MAX_TEXT_CHARS].strip() or page.described
    if not text:
        text = "(HEAD has no text)" if method == "HEAD" else "(no text)"
    return f"{title}\n\n{text}" if title else text


def _type(media_type: str) -> str:
    """Return the media type if it is well-formed, otherwise `unknown type`.

    The check is needed because the server chooses the media type, and the result shows it outside of the
    untrusted block.
    """
    lowered = media_type.lower()
    return lowered if _MEDIA_TYPE.fullmatch(lowered) else "unknown type"


def _method(arguments: Mapping[str, object]) -> Method | None:
    method = arguments.get("method")
    if method is None:  # many models write null for arguments that they omit
        return "GET"
    if not isinstance(method, str):
        return None
    known: dict[str, Method] = {"GET": "GET", "HEAD": "HEAD"}
    return known.get(method.upper())
