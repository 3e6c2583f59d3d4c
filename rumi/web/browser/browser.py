"""The actor of one owner's browser: its process, and the pages of the owner's chats."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

import trio

from actors import Actor, Refused, answers
from rumi.platform.threads import Offload
from rumi.platform.untrusted_text import one_line
from rumi.texts import Text
from rumi.web.browser.acting import ENTER, act, check, element_of
from rumi.web.browser.cdp import PageHangs
from rumi.web.browser.chromium import Chromium, running
from rumi.web.browser.messages import (
    Act,
    BrowserEnded,
    BrowserError,
    BrowserMessage,
    BrowserSettings,
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
from rumi.web.browser.requests import AUTO_ATTACH, origin_of
from rumi.web.browser.snapshot import PageSnapshot
from rumi.web.browser.tabs import Tabs
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
        self._tabs: Tabs | None = None
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
        pages = 0 if self._tabs is None else len(self._tabs)
        return {"steps": self._known.steps, "pages": pages, "memory MB": self._known.memory >> 20}

    @answers(DoStep)
    async def do_step(self, message: DoStep) -> StepResult:
        """Do a step. On cancellation, closes the chat's page, or ends the browser."""
        self._works = True
        self._step_begins.set()
        self._known.steps += 1
        try:
            tabs = await self._opened()
            with trio.move_on_after(self._settings.timeout_s + STEP_S):
                return await self._do(tabs, message)
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

    def _is_dead(self, chat: str, error: BrowserError) -> bool:
        page = None if self._tabs is None else self._tabs.of(chat)
        return isinstance(error, PageHangs) or (page is not None and page.crashed)

    async def _opened(self) -> Tabs:
        await self._ready.wait()
        if self._error is not None:
            raise self._error
        assert self._tabs is not None
        return self._tabs

    async def _live(self) -> None:
        """Run the browser until it ends or this incarnation does."""
        try:
            async with running(self._settings, self._profile, self._outbound, self._offload) as chromium:
                cdp = chromium.cdp
                self._chromium, self._tabs = chromium, Tabs(cdp, self._settings)
                for method, params in (
                    ("Browser.setDownloadBehavior", {"behavior": "deny", "eventsEnabled": True}),
                    ("Target.setAutoAttach", AUTO_ATTACH),
                ):
                    await cdp.call(method, params)
                self._ready.set()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._watch_limits, chromium)
                    await cdp.ended.wait()
                    self._fail(BrowserEnded())
                    nursery.cancel_scope.cancel()
        except BrowserError as error:
            self._fail(error)

    def _fail(self, error: BrowserError) -> None:
        """Note why the browser has ended; without a step that this concerns, the next gets a new one."""
        self._error = self._error or error
        self._ready.set()
        if not self._works:
            self.stop()

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

    async def _do(self, tabs: Tabs, message: DoStep) -> StepResult:
        step, chat = message.step, message.chat
        page = tabs.of(chat)
        if page is None:
            if not isinstance(step, OpenPage):
                raise PageError("No page is open.", "Open one first.")
            if len(tabs) >= self._settings.max_pages:
                await self._drop(tabs.first)
            page = await tabs.open(chat)
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
                snapshot = await page.read()
                self._known.snapshots[chat] = snapshot
                check(step, snapshot, self._settings)
                _begin(page, step, snapshot)
                await act(page, step, self._settings)
        loaded = await page.settle()
        shown = tabs.of(chat) or page  # a press may have opened another one, or closed this one
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

    async def _drop(self, chat: str) -> None:
        """Close the pages of a chat; if they do not close, end the browser. Shielded and bounded."""
        self._known.snapshots.pop(chat, None)
        if self._chromium is None or self._tabs is None:
            return
        with trio.CancelScope(shield=True):
            with trio.move_on_after(CLOSE_S):
                await self._tabs.close(chat)
                return
            self._chromium.kill()


def _begin(page: BrowserPage, step: Act, snapshot: PageSnapshot) -> None:
    """Set what the page may send from now on."""
    if not step.approved:
        page.mode.begin("nothing")
        page.accept = ""
        return
    origins = {origin_of(snapshot.url)}
    if step.press not in ("", ENTER):
        effect = element_of(snapshot, step.press).effect
        origins |= {effect.origin, origin_of(effect.sends_to)}
    page.mode.begin("approved" if step.press else "page", origins - {""})
    page.accept = step.accept


def _checked(url: str) -> str:
    """Return a URL as the one parser writes it.

    Raises:
        PageError: It is not an address of the web.
    """
    try:
        return parse_target(url).href
    except FetchError as error:
        raise PageError(error.message, error.advice or Text("Check the address.")) from error
