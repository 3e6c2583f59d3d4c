"""Browser views. A view sends the current state of a chat to one browser, as server-sent events.

A view has no queue of events. It records which entries of the chat changed and what it sent last. When the
browser reads, the view sends the current state. So a slow browser sees fewer intermediate states and delays
no other browser, and its view stores at most one mark for each entry.
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
"""Maximum size of one write, in bytes. When a view ends, it waits for at most one write."""

QUIET_S = 10.0
"""Interval of keep-alive comments on a quiet stream, in seconds."""

SEND_PAUSE_S = 0.03
"""Pause between two sends, in seconds, so that words that arrive singly are sent together."""


def rendered_entry(shape: dict[str, Any], *more: dict[str, Any]) -> dict[str, Any]:
    """Return an entry with its Markdown rendered to HTML. Text that users wrote is not rendered. Blocking.

    `more` contains parts that are already rendered; they are appended to the entry's parts.
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
    """One browser's view of a chat. `may_continue` returns False when the browser's session has ended.

    `offload` runs the rendering of Markdown in a thread, because rendering takes time.
    """

    def __init__(
        self, board: Board, transcript: Transcript, may_continue: Callable[[], bool], offload: Offload
    ) -> None:
        self._board = board
        self._offload = offload
        self.transcript = transcript
        self._may_continue = may_continue
        self._marks: dict[str, None] = dict.fromkeys(transcript.entries)
        self._sent: dict[str, tuple[int, int, int]] = {}  # by entry: revision, characters, steps
        self._final: dict[str, int] = {}  # by entry: characters of its growing text whose HTML is final
        self._seen: dict[str, int] = {}
        self._woken = trio.Event()

    def changed(self, entry: str) -> None:
        """Mark an entry of the transcript as changed."""
        self._marks[entry] = None
        self._woken.set()

    def wake(self) -> None:
        """Wake the view: it checks for changes, and whether the browser's session is still valid."""
        self._woken.set()

    def take(self) -> Iterator[tuple[str, object]]:
        """Yield the events to send now, and record them as sent."""
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
        """Return an event that `take` yielded, with its Markdown rendered to HTML. Blocking.

        A growing text is sent in two parts: the part whose HTML is final is sent once, and the remaining part
        is sent each time.
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
        """Send events until the browser disconnects or its session ends."""
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
            # Before `take`: changes during the rendering and sending wake the wait below.
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
            # Before the wait and not after it, so that the first change after a quiet time is sent at once.
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
