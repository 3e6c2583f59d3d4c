"""The tools `browser_open` and `browser_read`: open a page in the browser, and read it."""

from collections.abc import Collection, Mapping

from rumi.agent.tool import Question, Tool, ToolResult
from rumi.agent.tools.browser_page import ChatPage, unreadable
from rumi.models.model import ToolSpec
from rumi.web.browser.messages import GoBack, Look, OpenPage
from rumi.web.messages import FetchError
from rumi.web.url import Target, parse_target

BACK = "back"

OPEN_SPEC = ToolSpec(
    name="browser_open",
    description=(
        "Open a page in the browser, which runs scripts, keeps logins, and can fill in forms. To only read, "
        "web_fetch is faster. Shows the page: text, and things to use such as [abc7]."
    ),
    parameters={
        "type": "object",
        "properties": {"url": {"type": "string", "description": f"Or `{BACK}`: the page before"}},
        "required": ["url"],
    },
)

READ_SPEC = ToolSpec(
    name="browser_read",
    description="Show the open page again.",
    parameters={
        "type": "object",
        "properties": {
            "from": {"type": "integer", "description": "Line to begin at"},
            "scroll": {"type": "boolean", "description": "One screen down first: some pages then load more"},
            "picture": {"type": "boolean", "description": "A picture of the visible part too"},
        },
    },
)


class BrowserOpen(Tool):
    """The `browser_open` tool of one chat and one turn."""

    spec = OPEN_SPEC
    concurrent = False
    looks_outside = True

    def __init__(self, page: ChatPage) -> None:
        self._page = page
        self._asked: set[str] = set()
        self._approved: set[str] = set()

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return a question for an address that nobody gave, unless its server was approved in this turn.

        An unknown address could carry data away. After a yes, its server may get more in this turn.
        """
        target = _target(arguments)
        if target is None or target.origin in self._approved:
            return None
        known = {url.partition("#")[0] for url in known_urls}
        if target.href in known_urls or target.href in known:
            self._asked.discard(target.href)  # an earlier question about it may have got a no
            return None
        self._asked.add(target.href)
        # The front page of a host carries nothing: naming the host is asking for it.
        consent = (target.host,) if target.path_and_query == "/" else ()
        return Question("browse", {"url": target.href, "host": target.host}, consent)

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Open the page. On cancellation, the page is closed."""
        url = arguments.get("url")
        if not isinstance(url, str):
            return unreadable(self.spec.name, "`url`, a string")
        if url.strip() == BACK:
            return await self._page.result(GoBack())
        target = _target(arguments)
        if target is not None and target.href in self._asked:
            self._asked.discard(target.href)
            if target.path_and_query != "/":
                self._approved.add(target.origin)
        return await self._page.result(OpenPage(url))


class BrowserRead(Tool):
    """The `browser_read` tool of one chat."""

    spec = READ_SPEC
    concurrent = False
    looks_outside = True
    only_reads = True

    def __init__(self, page: ChatPage) -> None:
        self._page = page

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return None: the page is open already."""
        return None

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Read the page. On cancellation, the page is closed."""
        start = arguments.get("from") or 1
        if not isinstance(start, int) or start < 1:
            return unreadable(self.spec.name, "`from` as a line number")
        look = Look(scroll=arguments.get("scroll") is True, picture=arguments.get("picture") is True)
        return await self._page.result(look, start)


def _target(arguments: Mapping[str, object]) -> Target | None:
    url = arguments.get("url")
    if not isinstance(url, str) or url.strip() == BACK:
        return None
    try:
        return parse_target(url)
    except FetchError:
        return None
