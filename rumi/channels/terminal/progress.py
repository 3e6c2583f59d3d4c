"""Progress on the error output before the chat begins, for example while an image is built.

On a terminal, one line shows a spinner and the elapsed time. Elsewhere, one plain line is printed for each
step that takes longer than `QUIET_S`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from rumi.channels.terminal.streams import OutputStream, capable
from rumi.platform.printable import one_line
from rumi.platform.texts.operating import short_duration
from rumi.texts import Language, translate

QUIET_S = 1.0
"""A step that takes fewer seconds than this is not shown."""

TICK_S = 0.1
"""Interval at which moving parts are redrawn, in seconds."""

_CLEAR = "\r\x1b[K"
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Progress:
    """Progress display of successive steps. `step` and `detail` return at once; `run` draws the display."""

    def __init__(self, output: OutputStream, *, moving: bool, language: Language) -> None:
        self._output = output
        self._language: Language = language
        self._moving = moving
        self._step = ""
        self._detail = ""
        self._since = 0.0
        self._shown = ""
        self._over: list[tuple[str, float]] = []

    def step(self, text: str) -> None:
        """End the current step and begin the next one."""
        self._end_step()
        self._step, self._detail = one_line(translate(self._language, text)), ""
        self._since = trio.current_time()

    def detail(self, text: str) -> None:
        """Set the text for the step's current activity, such as the last line of a build's output."""
        self._detail = one_line(translate(self._language, text))

    def _end_step(self) -> None:
        took = trio.current_time() - self._since
        if self._step and took >= QUIET_S:
            self._over.append((self._step, took))
        self._step = ""

    async def run(self) -> None:
        """Draw the changes of the display, until cancelled."""
        while True:
            await self.show()
            await trio.sleep(TICK_S)

    async def finish(self) -> None:
        """Remove the moving line; the lines of steps that took longer than `QUIET_S` remain."""
        self._end_step()
        await self.show()

    async def show(self) -> None:
        """Write the changes since the last call."""
        text = ""
        for step, took in self._over:
            text += f"{_CLEAR if self._moving else ''}✓ {step} · {short_duration(took)}\n"
        self._over.clear()
        since = trio.current_time() - self._since
        if self._moving:
            text += self._line(since)
        elif self._step and self._step != self._shown and since >= QUIET_S:
            self._shown = self._step
            text += f"{self._step}…\n"
        await self._output.write(text)

    def _line(self, since: float) -> str:
        if not self._step or since < QUIET_S:
            shown, self._shown = self._shown, ""
            return f"{_CLEAR}\x1b[?25h" if shown else ""
        from rich.text import Text

        spinner = SPINNER[int(trio.current_time() / TICK_S) % len(SPINNER)]
        detail = f" · {self._detail}" if self._detail else ""
        line = Text(f"{spinner} {self._step} {int(since)} s{detail}")
        line.truncate(self._output.columns_and_rows()[0] - 1, overflow="ellipsis")
        self._shown = line.plain
        return f"{_CLEAR}\x1b[?25l{line.plain}"


@asynccontextmanager
async def show_progress(
    language: Language = "en", *, moving: bool | None = None, output: OutputStream | None = None
) -> AsyncIterator[Progress]:
    """Show the progress of the block's steps. When the block ends or is cancelled, remove the moving line.

    The display goes to the error output by default. `moving` selects the spinner line; by default it is used
    if the output is a terminal with a movable cursor.
    """
    target = OutputStream(2, required=False) if output is None else output
    shown = Progress(target, moving=capable(target) if moving is None else moving, language=language)
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shown.run)
        try:
            yield shown
        except Exception as error:  # noqa: BLE001 - raised again below, outside the nursery's group
            failure = error
        finally:
            nursery.cancel_scope.cancel()
            # Shielded, or a cancelled command would leave the line and a hidden cursor; bounded, because a
            # terminal stopped with Ctrl-S blocks writes.
            with trio.CancelScope(shield=True), trio.move_on_after(1):
                await shown.finish()
    if failure is not None:
        raise failure
