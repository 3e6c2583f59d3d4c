"""Windows: what a browser is sent, as server-sent events, and never more than it takes.

A window has no queue of events. It remembers which entries have changed and what it told last; when the
browser takes something, it gets how things are then. So a slow one sees less of what was in between, holds
at most a mark for each entry, and delays nobody.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import trio
from starlette.types import Receive, Scope, Send

from rumi.channels.markdown import growing_html, to_html
from rumi.channels.page.board import Board
from rumi.channels.page.transcript import Transcript
from rumi.platform.threads import Offload

PIECE_BYTES = 32_768
"""Written at once: the end of a window waits for no more than the piece in hand."""

QUIET_S = 10.0
"""How often a window without news gets a sign of life, so that the browser knows that we are there."""

SEND_PAUSE_S = 0.03
"""The pause between two sends: words that come one by one are sent together."""


def rendered_entry(shape: dict[str, Any], *more: dict[str, Any]) -> dict[str, Any]:
    """Return an entry as the browser shows it: Markdown as HTML, but not what users wrote. Blocking.

    `more` are parts at its end that are rendered already.
    """
    if shape["kind"] == "you":
        return shape
    parts = [
        _as_html(part, to_html(part["text"])) if part["kind"] == "text" else part for part in shape["parts"]
    ]
    return shape | {"parts": [*parts, *more]}


def _as_html(part: dict[str, Any], html: str, tail: str = "") -> dict[str, Any]:
    return {name: value for name, value in part.items() if name != "text"} | {"html": html, "tail": tail}


class BrowserView:
    """One browser's view. `goes_on` is asked now and then whether it still may look.

    `offload` runs what takes time: Markdown is rendered in a thread.
    """

    def __init__(
        self, board: Board, transcript: Transcript, may_continue: Callable[[], bool], offload: Offload
    ) -> None:
        self._board = board
        self._offload = offload
        self.transcript = transcript
        self._may_continue = may_continue
        self._marks: dict[str, None] = dict.fromkeys(transcript.entries)
        self._sent: dict[str, tuple[int, int, int]] = {}  # revision of an entry, characters that grew, steps
        self._final: dict[str, int] = {}  # characters of what grows in an entry that no further word changes
        self._seen: dict[str, int] = {}
        self._woken = trio.Event()

    def changed(self, entry: str) -> None:
        """Note that an entry of the talk has changed."""
        self._marks[entry] = None
        self._woken.set()

    def wake(self) -> None:
        """Check for news, and if the browser may still look."""
        self._woken.set()

    def take(self) -> Iterator[tuple[str, object]]:
        """Yield what there is to tell now, by event, and count it as told."""
        for topic, revision in self._board.revisions.items():
            if self._seen.get(topic) != revision:
                self._seen[topic] = revision
                yield topic, self._board.topics[topic]
        marks, self._marks = self._marks, {}
        entries = self.transcript.entries
        self._sent = {id: sent for id, sent in self._sent.items() if id in entries}
        for id in marks:
            entry = entries.get(id)
            if entry is None:
                continue
            revision, characters, steps = self._sent.get(id, (-1, 0, 0))
            grown = entry.growing
            self._sent[id] = (entry.revision, len(grown), entry.steps)
            if revision != entry.revision:
                yield "entry", entry.shape()
                continue
            if len(grown) > characters:
                yield "more", {"id": id, "text": grown}
            if entry.steps > steps:
                yield "steps", {"id": id, "calls": entry.showing}

    def rendered(self, name: str, what: Any) -> object:
        """Return what `take` gave, as the browser shows it: Markdown as HTML. Blocking.

        A text that grows is told in two halves: what no further word changes, once, and the rest, each time.
        """
        if name == "more":
            return self._growing(what["id"], what)
        if name == "entry" and what["state"] == "running" and what["parts"]:
            self._final.pop(what["id"], None)
            *parts, last = what["parts"]
            return rendered_entry(what | {"parts": parts}, self._growing(what["id"], last))
        return rendered_entry(what) if name == "entry" else what

    def _growing(self, id: str, part: dict[str, Any]) -> dict[str, Any]:
        if part.get("kind", "text") != "text":
            return part
        begin = self._final.get(id, 0)
        final, html, tail = growing_html(part["text"][begin:])
        self._final[id] = begin + final
        return _as_html(part, html, tail)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Tell the browser until it leaves or may look no longer."""
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._until_it_leaves, receive, nursery.cancel_scope)
            await self._stream(send)
            nursery.cancel_scope.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _until_it_leaves(self, receive: Receive, scope: trio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    async def _stream(self, send: Send) -> None:
        text, begun = "retry: 1000\n\n", False
        while self._may_continue():
            self._woken = trio.Event()
            for name, what in list(self.take()):
                if name in ("entry", "more"):
                    what = await self._offload(partial(self.rendered, name, what))
                text += f"event: {name}\ndata: {_json(what)}\n\n"
            if not begun:
                text += f"event: begin\ndata: {_json({'earlier': self.transcript.earlier})}\n\n"
            begun = True
            await _write(send, text)
            text = ""
            await trio.sleep(SEND_PAUSE_S)
            with trio.move_on_after(QUIET_S) as quiet:
                await self._woken.wait()
            if quiet.cancelled_caught:
                text = ": still here\n\n"
        await _write(send, "event: over\ndata: {}\n\n")


async def _write(send: Send, text: str) -> None:
    data = text.encode("utf-8", "replace")
    for start in range(0, len(data), PIECE_BYTES):
        piece = data[start : start + PIECE_BYTES]
        await send({"type": "http.response.body", "body": piece, "more_body": True})


def _json(what: object) -> str:
    return json.dumps(what, ensure_ascii=False, separators=(",", ":"), default=str)
