"""One page of a browser: what it shows, and what happened on it."""

import random
import string
from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import trio

from rumi.platform.untrusted_text import one_line
from rumi.web.browser.cdp import Cdp, CdpRefused, Params
from rumi.web.browser.dom import Dom
from rumi.web.browser.messages import BrowserSettings, PageError
from rumi.web.browser.reading import FoundElement, line_of, read
from rumi.web.browser.requests import AUTO_ATTACH, hold_requests, judge, watch_requests
from rumi.web.browser.sending import Mode
from rumi.web.browser.snapshot import Element, ElementEffect, PageSnapshot

MOST_ELEMENTS: Final = 20_000
"""Maximum number of elements of a page whose tree is read. Of a larger page, only the text is read."""

MOST_FRAMES: Final = 20
MOST_EVENTS: Final = 10
MOST_WORDS: Final = 500
QUIET_S: Final = 0.2
SETTLE_S: Final = 3.0
"""Maximum time that a loaded page is waited for until it changes no more, in seconds."""

_TAG_LETTERS: Final = 3
_TEXT_CHARS: Final = 100_000
_HIDDEN: Final = "(password)"
_LEAST_SECRET: Final = 4
_WORLD: Final = "rumi"


class BrowserPage:
    """A page: the `session` of the connection controls it, `target` is also the id of its main frame."""

    def __init__(self, cdp: Cdp, session: str, target: str, settings: BrowserSettings) -> None:
        self.cdp = cdp
        self.session = session
        self.target = target
        self.frames = {target}
        self.mode = Mode()
        self.accept = ""
        self.snapshot = PageSnapshot("about:blank", "")
        self.events: list[str] = []
        self.crashed = False
        self._settings = settings
        self._tag = "".join(random.SystemRandom().choices(string.ascii_lowercase, k=_TAG_LETTERS))
        self._refs: dict[tuple[int, ElementEffect], str] = {}
        self._loading = False
        self._changed = trio.Event()
        self._activity = 0

    def prepare(self) -> None:
        """Switch on the events that the page is followed by."""
        self.cdp.listen(self.session, self._heard)
        for domain in ("Page", "DOM", "Inspector"):
            self.cdp.post(f"{domain}.enable", session=self.session)
        self.cdp.post("Target.setAutoAttach", AUTO_ATTACH, self.session)
        hold_requests(self.cdp, self.session)

    async def call(self, method: str, params: Params | None = None) -> Params:
        """Send a command to the page.

        Raises:
            PageError: The page refuses it, does not answer, or has crashed.
        """
        if self.crashed:
            raise _crashed()
        return await self.cdp.call(method, params, self.session)

    def note(self, event: str) -> None:
        """Note what happened, for the result of the step."""
        if len(self.events) < MOST_EVENTS:
            self.events.append(self.clean(event))

    def _heard(self, event: str, params: Params) -> None:
        self._activity += event.startswith("Page.frame")
        match event:
            case "Fetch.requestPaused":
                self._activity += 1
                judge(self.cdp, self.session, params, self.mode)
            case "Target.attachedToTarget":
                watch_requests(self.cdp, str(params["sessionId"]), lambda: self.mode)
            case "Page.javascriptDialogOpening":
                self._answer_dialog(params)
            case "Page.frameAttached":
                self.frames.add(params["frameId"])
            case "Page.frameDetached":
                self.frames.discard(params["frameId"])
            case "Page.frameStartedLoading" if params["frameId"] == self.target:
                self._loading = True
            case "Page.frameStoppedLoading" if params["frameId"] == self.target:
                self._loading = False
                self._changed.set()
            case "Inspector.targetCrashed":
                self.crashed = True
                self._changed.set()

    def _answer_dialog(self, params: Params) -> None:
        """Answer a dialog of the page: nobody can see it, and until then the page stands still."""
        kind, words = params.get("type", ""), one_line(str(params.get("message", "")), MOST_WORDS)
        accept = kind in ("alert", "beforeunload") or (
            kind == "confirm" and self.mode.sending == "approved" and words != "" and words == self.accept
        )
        if kind == "beforeunload":
            pass
        elif kind == "alert":
            self.note(f'The page said: "{words}"')
        elif accept:
            self.note(f'The page asked "{words}": accepted.')
        else:
            self.note(
                f'The page asked "{words}": declined. To accept it, press again with `accept`: this text.'
            )
        self.cdp.post("Page.handleJavaScriptDialog", {"accept": accept}, self.session)

    async def navigate(self, url: str) -> None:
        """Open a URL.

        Raises:
            PageError: The server cannot be reached, or it did not answer in time.
        """
        self._loading = True
        with trio.move_on_after(self._settings.timeout_s) as limit:
            answer = await self.cdp.call(
                "Page.navigate", {"url": url}, self.session, self._settings.timeout_s + 1
            )
        if limit.cancelled_caught:
            self.cdp.post("Page.stopLoading", session=self.session)
            raise PageError("The server did not answer in time.", "Try it later, or open another page.")
        why = str(answer.get("errorText", ""))
        if why and why != "net::ERR_ABORTED":
            self._loading = False
            raise PageError("The page was not opened: {why}.", "Check the address.", why=_reason(why))
        if why:  # a download, which is noted, or an answer without content
            self._loading = False

    async def back(self) -> None:
        """Go to the entry before in the history.

        Raises:
            PageError: There is none.
        """
        history = await self.call("Page.getNavigationHistory")
        index = history["currentIndex"]
        earlier = [one for one in history["entries"][:index] if one["url"] != "about:blank"]
        if not earlier:
            raise PageError("There is no page before this one.", "Open a page.")
        self._loading = True
        await self.call("Page.navigateToHistoryEntry", {"entryId": earlier[-1]["id"]})

    async def settle(self) -> bool:
        """Wait until the page has loaded and changes no more; return False if it still loads."""
        with trio.move_on_after(self._settings.timeout_s / 2) as limit:
            await trio.sleep(QUIET_S / 4)
            while self._loading and not self.crashed:
                self._changed = trio.Event()
                await self._changed.wait()
        if limit.cancelled_caught:
            self.cdp.post("Page.stopLoading", session=self.session)
            return False
        with trio.move_on_after(SETTLE_S):
            before = -1
            while before != self._activity and not self.crashed:
                before = self._activity
                await trio.sleep(QUIET_S)
        return True

    async def read(self) -> PageSnapshot:
        """Read the page as it is now, and keep it as `snapshot`.

        Raises:
            PageError: The page does not answer, or has crashed.
        """
        facts = await self.evaluate(
            "[document.getElementsByTagName('*').length, location.href, document.title]"
        )
        count, url, title = int(facts[0]), str(facts[1]), one_line(str(facts[2]), MOST_WORDS)
        if count > MOST_ELEMENTS:
            text = str(await self.evaluate(f"document.body.innerText.slice(0, {_TEXT_CHARS})"))
            lines = [one_line(line, MOST_WORDS * 2) for line in text.splitlines() if line.strip()]
            note = f"The page has {count:,} elements. Only its text is shown, and nothing can be pressed."
            self.snapshot = PageSnapshot(
                self.clean(url), self.clean(title), tuple(map(self.clean, lines)), {}, (note,)
            )
            return self.snapshot
        self.snapshot = await self._read_tree(url, title)
        return self.snapshot

    async def _read_tree(self, url: str, title: str) -> PageSnapshot:
        frames = list(_frames((await self.call("Page.getFrameTree"))["frameTree"]))[:MOST_FRAMES]
        self.frames.update(frames)
        trees, owners = {}, {}
        for frame in frames:
            with suppress(CdpRefused):  # a frame that has gone in the meantime
                trees[frame] = (await self.call("Accessibility.getFullAXTree", {"frameId": frame}))["nodes"]
                if frame != frames[0]:
                    owner = await self.call("DOM.getFrameOwner", {"frameId": frame})
                    owners[owner["backendNodeId"]] = frame
        dom = Dom(await self.call("DOMSnapshot.captureSnapshot", {"computedStyles": []}))
        reading = read(trees, frames[0], owners, dom)
        lines, elements = [], {}
        for line in reading.lines:
            if isinstance(line, str):
                lines.append(self.clean(one_line(line, 2 * MOST_WORDS)))
                continue
            element = self._element(line)
            elements[element.ref] = element
            lines.append(line_of(element, line))
        return PageSnapshot(self.clean(url), self.clean(title), tuple(lines), elements)

    def _element(self, found: FoundElement) -> Element:
        effect = self._cleaned(found.effect)
        ref = self._refs.setdefault((found.node, effect), f"{self._tag}{len(self._refs) + 1}")
        return Element(ref, found.node, found.frame, effect, self.clean(found.value), found.type)

    def _cleaned(self, effect: ElementEffect) -> ElementEffect:
        fields = tuple(
            replace(one, label=self.clean(one.label), value=self.clean(one.value)) for one in effect.fields
        )
        return replace(effect, name=self.clean(effect.name), href=effect.href, fields=fields)

    def clean(self, text: str) -> str:
        """Return a text of the page without secrets: a page may show a password that was typed into it."""
        for password in self._settings.passwords.values():
            if password.value and (
                text == password.value or (len(password.value) >= _LEAST_SECRET and password.value in text)
            ):
                text = text.replace(password.value, _HIDDEN)
        return self._settings.redact.text(text)

    async def evaluate(self, expression: str, frame: str = "") -> Any:
        """Return the value of an expression in a world of its own, which the page's scripts cannot change."""
        world = await self.world(frame or self.target)
        answer = await self.call(
            "Runtime.evaluate", {"expression": expression, "contextId": world, "returnByValue": True}
        )
        if "exceptionDetails" in answer:
            raise PageError("The page cannot be read.", "Open it again, or another page.")
        return answer["result"].get("value")

    async def world(self, frame: str) -> int:
        """Return the id of the frame's world for scripts of this program."""
        answer = await self.call("Page.createIsolatedWorld", {"frameId": frame, "worldName": _WORLD})
        return int(answer["executionContextId"])

    async def picture(self) -> bytes:
        """Return a picture of the visible part, as JPEG.

        Raises:
            PageError: The page shows a password as text.
        """
        secrets = [one.value for one in self._settings.passwords.values() if one.value]
        if secrets:
            shown = str(
                await self.evaluate(
                    "document.body.innerText + [...document.querySelectorAll('input,textarea')]"
                    ".filter(one => one.type != 'password').map(one => one.value).join(' ')"
                )
            )
            if any(secret in shown for secret in secrets):
                raise PageError("The page shows a password, so no picture was taken.", "Read its text.")
        answer = await self.call("Page.captureScreenshot", {"format": "jpeg", "quality": 75})
        return b64decode(answer["data"])


def _frames(tree: Mapping[str, Any]) -> Any:
    yield tree["frame"]["id"]
    for child in tree.get("childFrames", ()):
        yield from _frames(child)


def _crashed() -> PageError:
    return PageError("The page has crashed.", "Open it again, or another page.")


def _reason(error: str) -> str:
    """Return the browser's reason in words."""
    name = error.removeprefix("net::ERR_").replace("_", " ").lower()
    if name in ("tunnel connection failed", "proxy connection failed", "empty response"):
        return "the address is not allowed, or its server does not answer"
    return name
