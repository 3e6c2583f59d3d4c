"""The actor of one owner's browser: its process, and the pages of the owner's chats."""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import trio

from actors import Actor, Refused, answers
from rumi.platform.threads import Offload
from rumi.platform.untrusted_text import one_line
from rumi.texts import Text
from rumi.web.browser.acting import act, check, element_of
from rumi.web.browser.cdp import Cdp, PageHangs, Params
from rumi.web.browser.chromium import Chromium, running
from rumi.web.browser.messages import (
    Act,
    BrowserError,
    BrowserMessage,
    BrowserSettings,
    ClosePage,
    DoStep,
    GoBack,
    Look,
    OpenPage,
    PageError,
    StepResult,
)
from rumi.web.browser.outbound import BrowserOutbound
from rumi.web.browser.page import BrowserPage
from rumi.web.browser.profile import MOST_BYTES, size_of
from rumi.web.browser.requests import AUTO_ATTACH, watch_requests
from rumi.web.browser.sending import strictest
from rumi.web.browser.snapshot import PageSnapshot
from rumi.web.guard import AddressGuard
from rumi.web.messages import FetchError
from rumi.web.resolver import SystemResolver
from rumi.web.url import parse_target

CLOSE_S: Final = 1.0
"""Maximum time until a page of a cancelled step is closed; after it, the browser is killed."""

STEP_S: Final = 30.0
"""Maximum time of a step in addition to the time for the server, in seconds."""

WATCH_S: Final = 0.5
IDLE_WATCH_S: Final = 5.0
"""The intervals at which the browser's memory and profile are measured, during a step and otherwise."""

MOST_PROFILE_BYTES: Final = 3 * MOST_BYTES
"""Maximum size of a profile while the browser runs; at the start it is bounded to `MOST_BYTES`."""

_SCROLL: Final = "window.scrollBy({top: window.innerHeight * 0.9, behavior: 'instant'})"


class KnownBrowser:
    """What is known about an owner's browser outside of its actor: the pages as the chats last saw them."""

    def __init__(self) -> None:
        self.snapshots: dict[str, PageSnapshot] = {}
        self.steps = 0
        self.memory = 0


class Browser(Actor[BrowserMessage]):
    """The browser of one owner. It starts with the first message, and does one step at a time."""

    def __init__(
        self, known: KnownBrowser, settings: BrowserSettings, profile: Path, offload: Offload
    ) -> None:
        self._known = known
        self._settings = settings
        self._profile = profile
        self._offload = offload
        guard = AddressGuard(settings.resolver or SystemResolver(), allow=settings.allow)
        self._outbound = BrowserOutbound(guard)
        self._chromium: Chromium | None = None
        self._error: BrowserError | None = None
        self._ready = trio.Event()
        self._tabs: dict[str, list[BrowserPage]] = {}
        self._sessions: dict[str, str] = {}
        self._spare = ""
        self._closed = trio.Event()
        self._step_begins = trio.Event()
        self._works = False

    async def started(self) -> None:
        """Start the process in the background, so that a start can be cancelled."""
        await trio.lowlevel.checkpoint()
        self.start_soon(self._live)

    async def stopped(self, reason: str) -> None:
        """Forget the pages: they have ended with the process."""
        await trio.lowlevel.checkpoint()
        self._known.snapshots.clear()
        self._known.memory = 0

    def activity(self) -> str:
        """Return the hosts of the open pages."""
        hosts = (
            snapshot.url.partition("://")[2].partition("/")[0] for snapshot in self._known.snapshots.values()
        )
        return one_line(", ".join(dict.fromkeys(filter(None, hosts))), 200)

    def busy(self) -> bool:
        """Return True while the process starts: its first step waits for it."""
        return not self._ready.is_set()

    def metrics(self) -> Mapping[str, object]:
        """Return the numbers of steps and of open pages, and the memory in megabytes."""
        pages = sum(map(len, self._tabs.values()))
        return {"steps": self._known.steps, "pages": pages, "memory MB": self._known.memory >> 20}

    @answers(DoStep)
    async def do_step(self, message: DoStep) -> StepResult:
        """Do a step. On cancellation, closes the chat's page, or ends the browser."""
        self._works = True
        self._step_begins.set()
        self._known.steps += 1
        try:
            cdp = await self._opened()
            with trio.move_on_after(self._settings.timeout_s + STEP_S):
                return await self._do(cdp, message)
            raise PageHangs("The page does not answer, so it was closed.", "Open it again, or another one.")
        except trio.Cancelled:
            if not self._ready.is_set():
                self.stop()  # nothing of a start remains that nobody waits for
            else:
                await self._drop(message.chat)
            raise
        except BrowserError as error:
            if self._chromium is None or self._chromium.cdp.ended.is_set():
                error = self._error or error
                self.stop()
            elif self._is_dead(message.chat, error):
                await self._drop(message.chat)
            raise Refused(error) from error
        finally:
            self._works = False
            self._step_begins = trio.Event()

    @answers(ClosePage)
    async def close_page(self, message: ClosePage) -> None:
        """Close the pages of a chat."""
        if self._chromium is not None:
            await self._drop(message.chat)

    def _is_dead(self, chat: str, error: BrowserError) -> bool:
        page = self._page(chat)
        return isinstance(error, PageHangs) or (page is not None and page.crashed)

    async def _opened(self) -> Cdp:
        await self._ready.wait()
        if self._error is not None:
            raise self._error
        assert self._chromium is not None
        return self._chromium.cdp

    async def _live(self) -> None:
        """Run the browser until it ends or this incarnation does."""
        try:
            async with running(self._settings, self._profile, self._outbound, self._offload) as chromium:
                cdp = chromium.cdp
                cdp.listen("", self._heard)
                self._chromium = chromium
                for method, params in (
                    ("Browser.setDownloadBehavior", {"behavior": "deny", "eventsEnabled": True}),
                    ("Target.setAutoAttach", AUTO_ATTACH),
                ):
                    await cdp.call(method, params)
                self._ready.set()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._watch_limits, chromium)
                    await cdp.ended.wait()
                    nursery.cancel_scope.cancel()
            self._fail(BrowserError("The browser has ended.", "Try again: it is started again."))
        except BrowserError as error:
            self._fail(error)
        if not self._works:
            self.stop()

    def _fail(self, error: BrowserError) -> None:
        self._error = self._error or error
        self._ready.set()

    async def _watch_limits(self, chromium: Chromium) -> None:
        while True:
            self._known.memory = chromium.memory()
            if self._known.memory > self._settings.max_bytes:
                self._error = BrowserError(
                    "The page needs more memory than the browser may use ({limit} MB), so the browser has "
                    "ended.",
                    "browser.max_mb sets the limit.",
                    limit=self._settings.max_bytes >> 20,
                )
                chromium.kill()
                return
            if await self._offload(partial(size_of, self._profile)) > MOST_PROFILE_BYTES:
                self._error = BrowserError(
                    "The page has stored too much, so the browser has ended.", "Open another page."
                )
                chromium.kill()
                return
            with trio.move_on_after(IDLE_WATCH_S):
                await self._step_begins.wait()
            await trio.sleep(WATCH_S)

    async def _do(self, cdp: Cdp, message: DoStep) -> StepResult:
        step, chat = message.step, message.chat
        page = self._page(chat)
        if page is None:
            if not isinstance(step, OpenPage):
                raise PageError("No page is open.", "Open one first.")
            page = await self._new_page(cdp, chat)
        page.events.clear()
        page.accept = ""
        self._outbound.refused.clear()
        match step:
            case OpenPage():
                page.mode.begin("page")
                try:
                    await page.navigate(_checked(step.url))
                except PageError as error:
                    raise PageError(self._outbound.refused[0]) if self._outbound.refused else error from None
            case GoBack():
                page.mode.begin("page")
                await page.back()
            case Look():
                page.mode.refused.clear()
                if step.scroll:
                    await page.evaluate(_SCROLL)
            case Act():
                await self._act(page, step)
        loaded = await page.settle()
        shown = self._page(chat) or page  # a press may have opened another one, or closed this one
        if shown is not page:
            page = shown
            loaded = await page.settle()
        snapshot = await page.read()
        self._known.snapshots[chat] = snapshot
        events = [*page.events, *self._outbound.refused]
        events += [] if loaded else ["The page still loads; this is what is there so far."]
        events += [
            f"The page tried to send a {method} request to {origin}, which was not sent."
            for method, origin in dict.fromkeys(page.mode.refused)
        ]
        picture = await page.picture() if isinstance(step, Look) and step.picture else b""
        return StepResult(snapshot, tuple(events), picture)

    async def _act(self, page: BrowserPage, step: Act) -> None:
        snapshot = await page.read()
        self._known.snapshots[self._chat_of(page)] = snapshot
        check(step, snapshot, self._settings)
        if step.approved:
            effect = None if step.press in ("", "enter") else element_of(snapshot, step.press).effect
            origins = {parse_target(snapshot.url).origin}
            if effect is not None:
                origins.add(effect.origin)
                with suppress(FetchError):
                    origins.add(parse_target(effect.sends_to).origin)
            page.mode.begin("approved" if step.press else "page", origins)
        else:
            page.mode.begin("nothing")
        page.accept = step.accept if step.approved else ""
        await act(page, step, self._settings)

    def _page(self, chat: str) -> BrowserPage | None:
        tabs = self._tabs.get(chat)
        return tabs[-1] if tabs else None

    def _chat_of(self, page: BrowserPage) -> str:
        return next((chat for chat, tabs in self._tabs.items() if page in tabs), "")

    async def _new_page(self, cdp: Cdp, chat: str) -> BrowserPage:
        if sum(map(len, self._tabs.values())) >= self._settings.max_pages:
            await self._drop(next(iter(self._tabs)))  # the one that was opened first
        target, self._spare = self._spare, ""
        if not target:
            target = str((await cdp.call("Target.createTarget", {"url": "about:blank"}))["targetId"])
        page = BrowserPage(cdp, self._sessions[target], target, self._settings)
        self._tabs.setdefault(chat, []).append(page)
        page.prepare()
        return page

    async def _drop(self, chat: str) -> None:
        """Close the pages of a chat; if they do not close, end the browser. Shielded and bounded."""
        tabs = self._tabs.pop(chat, [])
        self._known.snapshots.pop(chat, None)
        chromium = self._chromium
        if chromium is None or not tabs:
            return
        with trio.CancelScope(shield=True):
            for page in tabs:
                chromium.cdp.post("Target.closeTarget", {"targetId": page.target})
            with trio.move_on_after(CLOSE_S):
                while any(page.target in self._sessions for page in tabs):
                    self._closed = trio.Event()
                    await self._closed.wait()
                return
            chromium.kill()

    def _heard(self, event: str, params: Params) -> None:
        match event:
            case "Target.attachedToTarget":
                self._attached(params)
            case "Target.detachedFromTarget":
                self._detached(str(params["sessionId"]))
            case "Browser.downloadWillBegin":
                page = self._of_frame(str(params.get("frameId", "")))
                name = one_line(str(params.get("suggestedFilename", "")), 100)
                if page is not None:
                    page.note(f'The file "{name}" was not downloaded: web_fetch saves files.')

    def _attached(self, params: Params) -> None:
        assert self._chromium is not None
        info, session = params["targetInfo"], str(params["sessionId"])
        if info["type"] != "page":  # a worker that pages share
            self._watch(session)
            return
        target, opener = str(info["targetId"]), str(info.get("openerId", ""))
        self._sessions[target] = session
        of = next((page for page in self._all() if page.target == opener), None)
        if of is None:
            self._watch(session)  # until the page of a chat takes it over
            self._spare = self._spare or ("" if self._ready.is_set() else target)
            return
        if sum(map(len, self._tabs.values())) >= self._settings.max_pages:
            of.note("The page tried to open another one, but too many are open.")
            self._chromium.cdp.post("Target.closeTarget", {"targetId": target})
            return
        page = BrowserPage(self._chromium.cdp, session, target, self._settings)
        page.mode = of.mode  # what was approved is sent once, from either
        page.note("The page opened another one, which this is.")
        self._tabs[self._chat_of(of)].append(page)
        page.prepare()

    def _watch(self, session: str) -> None:
        assert self._chromium is not None
        watch_requests(self._chromium.cdp, session, lambda: strictest(one.mode for one in self._all()))

    def _detached(self, session: str) -> None:
        assert self._chromium is not None
        self._chromium.cdp.forget(session)
        self._sessions = {target: one for target, one in self._sessions.items() if one != session}
        for tabs in self._tabs.values():
            tabs[:] = [page for page in tabs if page.session != session]
        self._closed.set()

    def _of_frame(self, frame: str) -> BrowserPage | None:
        return next((page for page in self._all() if frame in page.frames), None)

    def _all(self) -> list[BrowserPage]:
        return [page for tabs in self._tabs.values() for page in tabs]


def _checked(url: str) -> str:
    """Return a URL as the one parser writes it.

    Raises:
        PageError: It is not an address of the web.
    """
    try:
        return parse_target(url).href
    except FetchError as error:
        raise PageError(error.message, error.advice or Text("Check the address.")) from error
