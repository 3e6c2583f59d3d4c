"""What the browser's tools ask, and which of their steps count as approved."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import trio

from rumi.agent.tools.browser_act import BrowserClick, BrowserFill
from rumi.agent.tools.browser_open import BrowserOpen
from rumi.agent.tools.browser_page import ChatPage
from rumi.platform.texts.questions import question
from rumi.web.browser.messages import Act, Step, StepResult
from rumi.web.browser.snapshot import Effect, Element, Kind, PageSnapshot

SHOP = "https://shop.example"


@dataclass
class Browsing:
    """A chat's page that takes every step, and what it was asked to do."""

    elements: Mapping[str, Element] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    @property
    def page(self) -> ChatPage:
        return ChatPage(self._do, lambda: PageSnapshot(SHOP, "", (), dict(self.elements)), _no_picture)

    async def _do(self, step: Step) -> StepResult:
        await trio.lowlevel.checkpoint()
        self.steps.append(step)
        return StepResult(PageSnapshot(SHOP, ""))


async def _no_picture(picture: bytes) -> object:
    raise AssertionError


def element(ref: str, kind: Kind, host: str = "shop.example", node: int = 1) -> Element:
    return Element(ref, node, "frame", Effect(kind, kind, ref, host, f"https://{host}", True))


async def test_a_server_is_not_open_after_a_no() -> None:
    tool = BrowserOpen(Browsing().page)
    known = {f"{SHOP}/about"}
    secret, other = {"url": f"{SHOP}/?q=secret"}, {"url": f"{SHOP}/?q=another"}
    assert tool.question(secret, known) is not None  # and the answer is a no
    assert tool.question({"url": f"{SHOP}/about"}, known) is None
    await tool.call({"url": f"{SHOP}/about"})
    assert tool.question(other, known) is not None
    await tool.call(other)  # after a yes
    assert tool.question(secret, known) is None
