"""`rumi status --watch`: shows the actor tree and refreshes it on the terminal, or prints it repeatedly."""

import json
import os
import sys
import termios
import tty
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias, cast, get_args

import trio
from rich.console import Console, RenderableType
from rich.live import Live
from rich.segment import Segment, SegmentLines
from rich.text import Text

from rumi import texts
from rumi.channels.attach.connection import ControlClient, connect
from rumi.channels.attach.status_view import Order, StatusFilter, chats_of, render
from rumi.errors import RumiError
from rumi.platform.caller import TERMINAL
from rumi.platform.printable import escaped
from rumi.platform.texts.translation import error_text
from rumi.texts import Language, gettext, translate

EVERY_S = 1.0

Lines: TypeAlias = list[list[Segment]]

STATUS_S = 10.0
"""Maximum seconds for a status call. The call waits for no actor; only a suspended process is slower."""

KEYS: Final = texts.Text("s sort · ↑ ↓ select · x stop · r reset · q quit")

ORDERS: Final[Mapping[Order, texts.Text]] = {
    "age": texts.Text("by age"),
    "name": texts.Text("by name"),
    "restarts": texts.Text("by restarts"),
    "mail": texts.Text("by mail"),
}

UP, DOWN = ("\x1b[A", "\x1bOA", "k"), ("\x1b[B", "\x1bOB", "j")

QUIT = ("q", "\x03", "\x04")


async def watch(path: Path, as_json: bool, language: Language, console: Console) -> int:
    """Show the status every second on the console, until the user quits; return the exit code.

    Raises:
        RumiError: the watched process has ended.
    """
    async with connect(path, TERMINAL) as client:
        if as_json:
            while True:
                sys.stdout.write(escaped(json.dumps(await _status(client), ensure_ascii=False)) + "\n")
                sys.stdout.flush()
                await trio.sleep(EVERY_S)
        if not (console.is_terminal and sys.stdin.isatty()):  # no cursor to move, or no keys to read
            while True:
                console.print(render(await _status(client), StatusFilter(language=language)))
                await trio.sleep(EVERY_S)
        return await Watch(console, client, language).run()


async def _status(client: ControlClient) -> dict[str, Any]:
    return cast(dict[str, Any], await client.call("status", STATUS_S))


class Watch:
    """The interactive screen: shows the tree, lets the user select a chat, and makes calls for that chat."""

    def __init__(self, console: Console, client: ControlClient, language: Language) -> None:
        self._console = console
        self._client = client
        self._choice = StatusFilter(language=language)
        self._said = ""
        self._sure = ""
        self._status: dict[str, Any] = {}
        self._pressed = trio.Event()

    async def run(self) -> int:
        """Draw the status and handle keys until the user quits."""
        with Live(console=self._console, screen=True, auto_refresh=False) as live:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._draw, live)
                async with _keys() as keys:
                    async for key in keys:
                        if key in QUIT:
                            break
                        self._press(key, nursery)
                        self._pressed.set()
                nursery.cancel_scope.cancel()
        return 0

    async def _draw(self, live: Live) -> None:
        asked = -EVERY_S
        while True:
            if trio.current_time() - asked >= EVERY_S / 2 or not self._status:
                self._status = await _status(self._client)
                asked = trio.current_time()
            live.update(self._page(), refresh=True)
            self._pressed = trio.Event()
            with trio.move_on_after(EVERY_S):
                await self._pressed.wait()

    def _page(self) -> RenderableType:
        language = self._choice.language
        below = f"{self._said}\n" if self._said else ""
        keys = f"{translate(language, ORDERS[self._choice.order])} · {translate(language, KEYS)}"
        foot = self._lines(Text(f"\n{below}{keys}", style="dim"))
        rows = max(1, self._console.height - len(foot))
        return SegmentLines([*self._tree(rows)[:rows], *foot], new_lines=True)

    def _tree(self, rows: int) -> Lines:
        """Return the tree in at most `rows` lines.

        If the whole tree is longer, actors without chats and some chats are left out.
        """
        whole = self._lines(render(self._status, self._choice))
        if len(whole) <= rows:
            return whole
        # Measured with one chat: every further chat adds a line, so this tells how many of them fit.
        terse = replace(self._choice, terse=True, most=1, many=1)
        most = max(1, rows - len(self._lines(render(self._status, terse))) + 1)
        return self._lines(render(self._status, replace(terse, most=most, many=most)))

    def _lines(self, what: RenderableType) -> Lines:
        return self._console.render_lines(what, pad=False)

    def _press(self, key: str, nursery: trio.Nursery) -> None:
        chat = self._choice.selected
        if key != "r":
            self._sure = ""
        if key == "s":
            orders = get_args(Order)
            following = orders[(orders.index(self._choice.order) + 1) % len(orders)]
            self._choice = replace(self._choice, order=following)
        elif key in UP or key in DOWN:
            self._select(-1 if key in UP else 1)
        elif key in ("x", "r") and not chat:
            self._said = gettext(self._choice.language, "Select a chat first, with ↑ and ↓.")
        elif key == "x":
            nursery.start_soon(self._do, "stop", chat)
        elif key == "r" and self._sure != chat:
            self._sure = chat
            self._said = gettext(
                self._choice.language,
                "Reset {chat}? Its container and history will be removed. Press r once more.",
                chat=chat,
            )
        elif key == "r":
            self._sure = ""
            nursery.start_soon(self._do, "reset", chat)

    def _select(self, step: int) -> None:
        every = replace(self._choice, most=sys.maxsize)
        chats = [item["id"] for item in chats_of(self._status, every)] if self._status else []
        if not chats:
            return
        at = chats.index(self._choice.selected) + step if self._choice.selected in chats else 0
        self._choice = replace(self._choice, selected=chats[max(0, min(at, len(chats) - 1))])

    async def _do(self, call: str, chat: str) -> None:
        """Make the call on a separate connection, so that the status can be refreshed during the call."""
        self._said = f"{chat}: {call}…"
        try:
            async with connect(self._client.address, self._client.caller) as client:
                answer = str(await client.call(call, chat=chat, language=self._choice.language))
        except RumiError as error:
            answer = error_text(self._choice.language, error)
        self._said = f"{chat}: {' '.join(answer.split())}"
        self._pressed.set()


@asynccontextmanager
async def _keys() -> AsyncIterator[AsyncIterator[str]]:
    """Yield an iterator over pressed keys. Within the block, the terminal is in cbreak mode without echo."""
    descriptor = sys.stdin.fileno()

    async def pressed() -> AsyncIterator[str]:
        while True:
            await trio.lowlevel.wait_readable(descriptor)
            data = os.read(descriptor, 64)
            if not data:
                return
            for key in _split(data.decode("utf-8", "ignore")):
                yield key

    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield pressed()
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _split(data: str) -> Iterator[str]:
    while data:
        length = 3 if data.startswith(("\x1b[", "\x1bO")) else 1
        yield data[:length]
        data = data[length:]
