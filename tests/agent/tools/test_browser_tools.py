"""What the browser's tools ask, and which of their steps count as approved."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest
import trio

from rumi.agent.tools.browser_act import BrowserClick, BrowserFill
from rumi.agent.tools.browser_open import BrowserOpen
from rumi.agent.tools.browser_page import ChatPage, HasPictures
from rumi.platform.texts.questions import question
from rumi.web.browser.acting import check
from rumi.web.browser.messages import Act, BrowserSettings, Filling, PageError, Step, StepResult
from rumi.web.browser.snapshot import Element, ElementEffect, Kind, PageSnapshot

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


async def _no_picture(picture: bytes) -> HasPictures:
    raise AssertionError


def element(ref: str, kind: Kind, host: str = "shop.example", node: int = 1) -> Element:
    return Element(ref, node, "frame", ElementEffect(kind, kind, ref, host, f"https://{host}", True))


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


async def test_a_click_is_not_approved_after_a_no() -> None:
    browsing = Browsing({"abc1": element("abc1", "control")})
    tool, click = BrowserClick(browsing.page), {"ref": "abc1"}
    assert tool.question(click, ()) is not None  # and the answer is a no
    there, browsing.elements = browsing.elements, {}
    assert tool.question(click, ()) is None  # the page hides it, so the call fails if it stays hidden
    browsing.elements = there
    await tool.call(click)
    assert browsing.steps == [Act(press="abc1", approved=False)]


@pytest.mark.parametrize("submit", ["", "abc3"])
def test_a_question_names_each_host_that_gets_something(submit: str) -> None:
    elements = {
        "abc1": element("abc1", "field"),
        "abc2": element("abc2", "field", host="ads.example", node=2),
        "abc3": element("abc3", "control", node=3),
    }
    tool = BrowserFill(Browsing(elements).page)
    fields = [{"ref": "abc1", "text": "hello"}, {"ref": "abc2", "text": "secret"}]
    asked = tool.question({"fields": fields, "submit": submit}, ())
    assert asked is not None
    assert asked.details["host"] == "shop.example, ads.example"
    text = question("en", asked.action, asked.details, what=asked.what).text
    assert "on shop.example, ads.example" in text
    assert not submit or asked.consent == ()
    assert submit or asked.consent == ("shop.example", "ads.example", "hello", "secret")


@pytest.mark.parametrize(
    "step",
    [
        Act(press="abc1"),
        Act(press="abc2"),
        Act((Filling("abc3", "x"),)),
        Act((Filling("abc3", "x"),), press="abc4"),
        Act((Filling("abc3", "x"),), press="enter"),
    ],
)
def test_what_nobody_was_asked_about_is_not_done(step: Act) -> None:
    kinds: tuple[Kind, ...] = ("control", "submit", "field", "link", "expander")
    elements = {f"abc{n}": element(f"abc{n}", kind, node=n) for n, kind in enumerate(kinds, 1)}
    snapshot = PageSnapshot(SHOP, "", (), elements)
    with pytest.raises(PageError, match="not asked"):
        check(step, snapshot, BrowserSettings())
    check(replace(step, approved=True), snapshot, BrowserSettings())
    for link in ("abc4", "abc5"):
        check(Act(press=link), snapshot, BrowserSettings())
