"""The open pages of a browser, by the chats that they belong to."""

from collections.abc import Iterator
from typing import Final

import trio

from rumi.platform.untrusted_text import one_line
from rumi.web.browser.cdp import Cdp, Params
from rumi.web.browser.messages import BrowserSettings
from rumi.web.browser.page import BrowserPage
from rumi.web.browser.requests import watch_requests
from rumi.web.browser.sending import strictest

_MOST_NAME_CHARS: Final = 100


class Tabs:
    """The pages of all chats; the last one of a chat is the one that it sees."""

    def __init__(self, cdp: Cdp, settings: BrowserSettings) -> None:
        self._cdp = cdp
        self._settings = settings
        self._of_chat: dict[str, list[BrowserPage]] = {}
        self._sessions: dict[str, str] = {}
        self._spare = ""
        self._closed = trio.Event()
        cdp.listen("", self._heard)

    def __iter__(self) -> Iterator[BrowserPage]:
        return (page for tabs in self._of_chat.values() for page in tabs)

    def __len__(self) -> int:
        return sum(map(len, self._of_chat.values()))

    def of(self, chat: str) -> BrowserPage | None:
        """Return the page that a chat sees, or None."""
        tabs = self._of_chat.get(chat)
        return tabs[-1] if tabs else None

    @property
    def first(self) -> str:
        """The chat whose pages were opened first."""
        return next(iter(self._of_chat))

    async def open(self, chat: str) -> BrowserPage:
        """Open an empty page for a chat.

        Raises:
            PageError: The browser opens none.
        """
        target, self._spare = self._spare, ""
        if target not in self._sessions:
            target = str((await self._cdp.call("Target.createTarget", {"url": "about:blank"}))["targetId"])
        page = BrowserPage(self._cdp, self._sessions[target], target, self._settings)
        self._of_chat.setdefault(chat, []).append(page)
        page.prepare()
        return page

    async def close(self, chat: str) -> None:
        """Close the pages of a chat, and wait until they are closed: their scripts then run no more."""
        tabs = self._of_chat.pop(chat, [])
        for page in tabs:
            self._cdp.post("Target.closeTarget", {"targetId": page.target})
        while any(page.target in self._sessions for page in tabs):
            self._closed = trio.Event()
            await self._closed.wait()

    def _heard(self, event: str, params: Params) -> None:
        match event:
            case "Target.attachedToTarget":
                self._attached(params)
            case "Target.detachedFromTarget":
                self._detached(str(params["sessionId"]))
            case "Browser.downloadWillBegin":
                frame = str(params.get("frameId", ""))
                name = one_line(str(params.get("suggestedFilename", "")), _MOST_NAME_CHARS)
                for page in self:
                    if frame in page.frames:
                        page.note(f'The file "{name}" was not downloaded: web_fetch saves files.')

    def _attached(self, params: Params) -> None:
        info, session = params["targetInfo"], str(params["sessionId"])
        if info["type"] != "page":  # a worker that pages share
            self._watch(session)
            return
        target, opener = str(info["targetId"]), str(info.get("openerId", ""))
        self._sessions[target] = session
        found = ((chat, page) for chat, tabs in self._of_chat.items() for page in tabs)
        chat, of = next(((chat, page) for chat, page in found if page.target == opener), ("", None))
        if of is None:
            self._watch(session)  # until the page of a chat takes it over
            self._spare = self._spare or target
        elif len(self) >= self._settings.max_pages:
            of.note("The page tried to open another one, but too many are open.")
            self._cdp.post("Target.closeTarget", {"targetId": target})
        else:
            page = BrowserPage(self._cdp, session, target, self._settings)
            page.mode = of.mode  # what was approved is sent once, from either
            page.note("The page opened another one, which this is.")
            self._of_chat[chat].append(page)
            page.prepare()

    def _watch(self, session: str) -> None:
        watch_requests(self._cdp, session, lambda: strictest(page.mode for page in self))

    def _detached(self, session: str) -> None:
        self._cdp.forget(session)
        self._sessions = {target: one for target, one in self._sessions.items() if one != session}
        left = {
            chat: [page for page in tabs if page.session != session] for chat, tabs in self._of_chat.items()
        }
        self._of_chat = {chat: tabs for chat, tabs in left.items() if tabs}
        self._closed.set()
