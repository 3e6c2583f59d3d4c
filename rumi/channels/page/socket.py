"""The socket of a browser window: sends the current state of a chat, and what happens in it.

A view has no queue of messages. It records how far the transcript's changes were sent. When the browser
reads, the view sends the current state. So a slow browser sees fewer intermediate states and delays no other
browser, and its view stores at most two numbers for each text that grows.

Messages are JSON objects with a `type`, except the two most frequent ones, which are about the text part that
the last `grow` named: `+` and more text, and a JSON array of the blocks that have closed.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import trio
from starlette.websockets import WebSocket, WebSocketDisconnect

from rumi.channels.page.board import Board
from rumi.channels.page.entries import Part, TranscriptEntry
from rumi.channels.page.transcript import Transcript
from rumi.platform.threads import Offload

QUIET_S: Final = 10.0
"""Interval of `ping` messages on a quiet socket, in seconds. The script expects one in 25 s."""

SEND_PAUSE_S: Final = 0.03
"""Pause between two sends, in seconds, so that words that arrive singly are sent together."""

RESUME_S: Final = 10.0
"""Maximum time to wait for the browser's first message, in seconds."""

SEND_S: Final = 60.0
"""Maximum time of one send, in seconds. A browser that reads nothing for longer is disconnected."""

MOST_CHARS: Final = 10_000
"""Maximum length of a message from a browser, in characters."""

_GROWTH: Final = ("+", "[", '{"type":"grow"')
"""How messages begin that only add to a text."""

FIRST_CHARS: Final = 200_000
FIRST_ENTRIES: Final = 10
"""Maximum number of characters that are sent when a window opens, and number of entries that are always sent.

The browser loads older entries when a reader scrolls up.
"""

TOPICS: Final = ("board", "history")
"""What a browser gets only while it shows it."""


class SocketView:
    """One window's view of a chat. `may_continue` returns False when the browser's session has ended.

    `offload` runs the rendering of Markdown in a thread, because rendering takes time.
    """

    def __init__(
        self, board: Board, transcript: Transcript, may_continue: Callable[[], bool], offload: Offload
    ) -> None:
        self.transcript = transcript
        self._board = board
        self._offload = offload
        self._may_continue = may_continue
        self._mark = 0
        self._sent: dict[tuple[str, int], tuple[int, int]] = {}  # by part: characters and closed blocks
        self._growing: tuple[str, int] | None = None
        self._held: set[str] = set()  # old entries that the browser gets when it asks for earlier ones
        self._topics: frozenset[str] = frozenset()
        self._seen: dict[str, int] = {}
        self._woken = trio.Event()

    def wake(self) -> None:
        """Wake the view: it checks for changes, and whether the browser's session is still valid."""
        self._woken.set()

    def resume(self, epoch: object, mark: object) -> None:
        """Go on behind what the browser has, if its mark is one of this transcript."""
        if epoch == self.transcript.epoch and isinstance(mark, int) and 0 <= mark <= self.transcript.mark:
            self._mark = mark

    def watch(self, topics: object) -> None:
        """Send these topics from now on, and no others."""
        wanted = topics if isinstance(topics, list) else []
        self._topics = frozenset(topic for topic in TOPICS if topic in wanted)
        self._seen = {topic: seen for topic, seen in self._seen.items() if topic in (*self._topics, "marks")}
        self.wake()

    # What is sent

    def begin(self) -> Iterator[str]:
        """Yield the messages that begin a view. Of long conversations, only the end is sent at first."""
        entries = self.transcript.in_order()
        if self._mark == 0:
            self._hold(entries)
        yield _json(
            "begin",
            epoch=self.transcript.epoch,
            ids=[entry.id for entry in entries if entry.id not in self._held],
            earlier=self.transcript.earlier or bool(self._held),
        )

    def _hold(self, entries: list[TranscriptEntry]) -> None:
        """Hold back the old entries of a conversation whose texts are too long to be sent at once."""
        chars, kept = 0, len(entries)
        for entry in reversed(entries):
            chars += sum(len(part.raw) for part in entry.parts)
            if chars > FIRST_CHARS and len(entries) - kept >= FIRST_ENTRIES:
                break
            kept -= 1
        # A message and its answer are loaded together, by the message's number.
        first = min((number for entry in entries[kept:] for number in entry.messages), default=0)
        self._held = {entry.id for entry in entries[:kept] if max(entry.messages, default=0) < first}

    def unrendered(self) -> list[Part]:
        """Return the parts to be sent that are not rendered yet. What people wrote is shown as it is."""
        return [
            part
            for entry in self.transcript.since(self._mark)
            if entry.id not in self._held and entry.kind != "you"
            for part in entry.parts
            if part.kind == "text" and part.blocks is None
        ]

    def take(self) -> Iterator[str]:
        """Yield the messages to send now, and record them as sent."""
        transcript, since = self.transcript, self._mark
        self._mark = transcript.mark
        changed = False
        for entry in transcript.since(since):
            held = entry.id in self._held
            if held and since == 0:
                continue
            self._held.discard(entry.id)
            # An entry that was held back and has changed is sent as a whole.
            for message in self._entry(entry, 0 if held else since):
                # A mark after each growth would take more bytes than the growth. A browser that lacks it gets
                # the part that has grown again as a whole, once.
                changed = changed or not message.startswith(_GROWTH)
                yield message
        gone = [id for id, mark in transcript.gone.items() if mark > since]
        if gone:
            yield _json("gone", ids=gone)
        if transcript.figures_changed > since:
            yield _json("figures", **transcript.figures)
        yield from self._of_the_house()
        if changed:
            yield _json("mark", mark=self._mark)

    def _entry(self, entry: TranscriptEntry, since: int) -> Iterator[str]:
        if self.transcript.created(entry) > since:
            for part in entry.parts:
                self._whole(entry, part)
            yield _json("entry", entry=entry.shape())
            return
        if entry.changed > since:
            yield _json("head", **entry.head, order=[part.n for part in entry.parts])
        for part in entry.parts:
            if part.changed > since:
                self._whole(entry, part)
                yield _json("part", id=entry.id, part=part.shape())
            elif part.grown > since:
                yield from self._growth(entry, part)

    def _whole(self, entry: TranscriptEntry, part: Part) -> None:
        """Record that all of a part is sent."""
        if part.growing is not None or (entry.id, part.n) in self._sent:
            self._sent[entry.id, part.n] = (len(part.raw), len(part.blocks or ()))
        if self._growing == (entry.id, part.n):
            self._growing = None

    def _growth(self, entry: TranscriptEntry, part: Part) -> Iterator[str]:
        key = (entry.id, part.n)
        if part.kind == "tool":
            shown = {name: part.data[name] for name in ("steps", "output") if name in part.data}
            yield _json("tool", id=entry.id, n=part.n, **shown)
            return
        if key not in self._sent:  # the browser has an unknown part of it, from an earlier socket
            self._whole(entry, part)
            self._sent[key] = (len(part.raw), len(part.blocks or ()))
            yield _json("part", id=entry.id, part=part.shape())
            return
        characters, closed = self._sent[key]
        blocks = part.blocks or []
        self._sent[key] = (len(part.raw), len(blocks))
        if len(part.raw) == characters and len(blocks) == closed:
            return
        if self._growing != key:
            self._growing = key
            yield _json("grow", id=entry.id, n=part.n)
        if len(part.raw) > characters:
            yield f"+{part.raw[characters:]}"
        if len(blocks) > closed:
            yield _compact([block.form() for block in blocks[closed:]])

    def _of_the_house(self) -> Iterator[str]:
        for topic in ("marks", *TOPICS):
            revision = self._board.revisions[topic]
            wanted = topic == "marks" or topic in self._topics
            if wanted and revision and self._seen.get(topic) != revision:
                self._seen[topic] = revision
                yield _json(topic, **self._board.topics[topic])

    # The connection

    async def serve(self, socket: WebSocket) -> None:
        """Serve an accepted socket until the browser disconnects or its session ends."""
        try:
            with trio.fail_after(RESUME_S):
                self._heard(await socket.receive_text())
        except (trio.TooSlowError, WebSocketDisconnect, KeyError):
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._listen, socket, nursery.cancel_scope)
            await self._stream(socket)
            nursery.cancel_scope.cancel()

    async def _listen(self, socket: WebSocket, scope: trio.CancelScope) -> None:
        try:
            while True:
                self._heard(await socket.receive_text())
        except (WebSocketDisconnect, KeyError):  # a binary message has no text
            scope.cancel()

    def _heard(self, text: str) -> None:
        """Handle a message from the browser; ignore one that is not valid."""
        try:
            message = json.loads(text) if len(text) <= MOST_CHARS else None
        except (ValueError, RecursionError):
            return
        match message:
            case {"type": "resume", "epoch": epoch, "mark": mark}:
                self.resume(epoch, mark)
            case {"type": "watch", "topics": topics}:
                self.watch(topics)
            case _:
                pass

    async def _stream(self, socket: WebSocket) -> None:
        begun = False
        while self._may_continue():
            # Before `take`: changes during the rendering and sending wake the wait below.
            self._woken = trio.Event()
            while unrendered := self.unrendered():
                await self._offload(partial(_render, unrendered))
            messages = [*([] if begun else self.begin()), *self.take()]
            begun = True
            with trio.fail_after(SEND_S):
                for message in messages:
                    await socket.send_text(message)
            # Before the wait and not after it, so that the first change after a quiet time is sent at once.
            await trio.sleep(SEND_PAUSE_S)
            with trio.move_on_after(QUIET_S) as quiet:
                await self._woken.wait()
            if quiet.cancelled_caught:
                await socket.send_text(_json("ping"))
        await socket.send_text(_json("over"))


def _render(parts: Sequence[Part]) -> None:
    for part in parts:
        part.render()


def _json(type: str, **fields: object) -> str:
    return _compact({"type": type, **fields})


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def shapes(entries: list[TranscriptEntry]) -> list[Mapping[str, Any]]:
    """Return entries with their Markdown rendered, in the order in which they are shown. Blocking."""
    for entry in entries:
        if entry.kind != "you":
            _render(entry.parts)
    return [entry.shape() for entry in sorted(entries, key=lambda entry: entry.at)]
