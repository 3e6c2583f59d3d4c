"""What the browser's tools share: the page of a chat, and the result that shows a page to the model."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from rumi.agent.tool import ToolResult
from rumi.errors import RumiError
from rumi.models.model import Picture
from rumi.platform.untrusted_text import untrusted_block
from rumi.texts import Text
from rumi.web.browser.messages import Step, StepResult
from rumi.web.browser.snapshot import Element, PageSnapshot


class HasPictures(Protocol):
    """A viewed picture: see `rumi.web.readers.files.viewer.Seen`."""

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The pictures for models."""
        ...


@dataclass(frozen=True, slots=True)
class ChatPage:
    """The page of a chat in its owner's browser.

    `do` does a step, `seen` returns the page as the chat last saw it, and `look` stores a picture for models.
    """

    do: Callable[[Step], Awaitable[StepResult]]
    seen: Callable[[], PageSnapshot | None]
    look: Callable[[bytes], Awaitable[HasPictures]]

    def element(self, ref: object) -> Element | None:
        """Return the element that a reference of the model stands for; None if it is not there."""
        snapshot = self.seen()
        if snapshot is None or not isinstance(ref, str):
            return None
        return snapshot.elements.get(bare(ref))

    async def result(self, step: Step, start: int = 1) -> ToolResult:
        """Do a step, and return the page from line `start` on as a tool result."""
        try:
            done = await self.do(step)
            pictures = (await self.look(done.picture)).pictures if done.picture else ()
        except RumiError as error:
            # Also a failed step has opened an address: what failed may be the words of its server.
            return ToolResult(False, error.for_model, tainted=True, advice=error.for_people)
        return report(done, start, pictures)


def bare(ref: str) -> str:
    """Return a reference without the brackets in which pages show it."""
    return ref.strip().strip("[]")


def report(done: StepResult, start: int = 1, pictures: Sequence[Picture] = ()) -> ToolResult:
    """Return the tool result for a page: what happened and its text, in an untrusted block."""
    snapshot = done.snapshot
    text, more = snapshot.part(start)
    head = [f"title: {snapshot.title}"] if snapshot.title else []
    head += [f"({event})" for event in (*done.events, *snapshot.notes)]
    block = untrusted_block(snapshot.url, "\n".join([*head, "", text or "(no text)"]))
    rest = [f"The page goes on: browser_read with from={more}."] if more else []
    return ToolResult(
        True,
        "\n".join([*rest, block]),
        tainted=True,
        truncated=bool(more),
        links=snapshot.links,
        pictures=tuple(pictures),
        may_change=True,
    )


def unreadable(tool: str, needs: str) -> ToolResult:
    """Return the result for arguments that are not what the tool takes."""
    return ToolResult(False, Text("{tool} needs {needs}", tool=tool, needs=needs))
