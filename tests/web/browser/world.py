"""The browser's tools at work: a real Chromium, the real gate, and a person who answers its questions."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import trio

from actors import Supervisor
from rumi.agent.events import ConfirmationAsked
from rumi.agent.permissions.gate import Gate
from rumi.agent.tool import Tool, ToolResult
from rumi.agent.tools.browser_act import BrowserClick, BrowserFill
from rumi.agent.tools.browser_open import BrowserOpen, BrowserRead
from rumi.agent.tools.browser_page import ChatPage
from rumi.models.model import Picture
from rumi.platform.texts.questions import Verdict
from rumi.sandbox.confined.child import processes
from rumi.web.browser.browsers import Browsers
from rumi.web.browser.messages import BrowserSettings
from rumi.web.browser.snapshot import PageSnapshot
from tests.web.browser.site import Site

BOUND_S = 60


@dataclass
class Seen:
    """A viewed picture."""

    pictures: tuple[Picture, ...]


async def look(picture: bytes) -> Seen:
    await trio.lowlevel.checkpoint()
    return Seen((Picture("look.jpg", "image/jpeg", picture),))


@dataclass
class World:
    """The tools of one chat in one turn. The person got the `questions`, and answers all with `answer`.

    `meanwhile` happens while a question waits.
    """

    browsers: Browsers
    owner: str = "local"
    chat: str = "cli"
    words: str = ""
    answer: Verdict = "yes"
    meanwhile: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
    questions: list[str] = field(default_factory=list)
    gate: Gate = field(init=False)
    tools: Mapping[str, Tool] = field(init=False)

    def __post_init__(self) -> None:
        self.turn()

    def turn(self, words: str = "", known: Sequence[str] = (), *, tainted: bool = False) -> None:
        """Begin another turn, whose message gives the addresses `known`."""
        page = ChatPage(
            partial(self.browsers.do, self.owner, self.chat),
            partial(self.browsers.snapshot, self.owner, self.chat),
            look,
        )
        tools = (BrowserOpen(page), BrowserRead(page), BrowserClick(page), BrowserFill(page))
        self.tools = {tool.spec.name.removeprefix("browser_"): tool for tool in tools}
        self.gate = Gate(
            tainted=tainted,
            known_urls=known,
            words=words,
            history=(),
            language="en",
            watch=lambda event: None,
            confirm=self._confirm,
            parking=None,
            deadline=trio.CancelScope(),
        )

    async def _confirm(self, asked: ConfirmationAsked) -> Verdict:
        await trio.lowlevel.checkpoint()
        self.questions.append(asked.whole or asked.text)
        await self.meanwhile()
        return self.answer

    async def call(self, name: str, **arguments: object) -> ToolResult:
        """Call a tool as a turn does: through the gate."""
        tool = self.tools[name]
        refused = await self.gate.refusal(tool, arguments)
        if refused is not None:
            return refused
        result = await tool.call(arguments)
        self.gate.note_result(tool.spec.name, result)
        return result

    @property
    def page(self) -> PageSnapshot:
        found = self.browsers.snapshot(self.owner, self.chat)
        assert found is not None
        return found

    def ref(self, name: str) -> str:
        """Return the reference of the element with this label."""
        return next(ref for ref, one in self.page.elements.items() if name in one.effect.name)


@asynccontextmanager
async def browsing(home: Path, site: Site, **more: object) -> AsyncIterator[World]:
    """Run browsers in an actor tree, for a site on loopback."""
    settings = BrowserSettings(allow=(f"127.0.0.1:{site.port}",), **more)  # type: ignore[arg-type]
    root = Supervisor("root")
    browsers = Browsers(root, home, settings, lambda owner, people: True)
    with trio.fail_after(BOUND_S):
        async with root.running():
            yield World(browsers)


def browsers_of(pid: int) -> list[int]:
    """Return the pids of a process's descendants that are processes of a browser."""
    return [one for one in descendants(pid) if "chrom" in _name(one)]


def descendants(pid: int) -> set[int]:
    """Return the pids of a process's descendants."""
    parents = {one: parent for one, (state, parent, _) in processes().items() if state not in "ZX"}
    own = {pid}
    while more := {one for one, parent in parents.items() if parent in own} - own:
        own |= more
    return own - {pid}


async def until(check: Callable[[], object], seconds: float = 10) -> None:
    """Wait until something is true of other processes."""
    with trio.fail_after(seconds):
        while not check():  # noqa: ASYNC110
            await trio.sleep(0.05)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""
