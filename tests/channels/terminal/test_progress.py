import os

import pytest
import trio
from trio.testing import MockClock

from rumi.channels.terminal.progress import show_progress
from rumi.channels.terminal.streams import OutputStream
from tests.channels.terminal.ptys import terminal


class Sheet(OutputStream):
    def __init__(self) -> None:
        super().__init__(-1)
        self.text = ""

    async def write(self, text: str) -> None:
        await trio.lowlevel.checkpoint()
        self.text += text


async def test_without_a_terminal_each_long_step_is_one_line_when_it_lasts_and_one_when_it_is_over(
    autojump_clock: MockClock,
) -> None:
    sheet = Sheet()
    async with show_progress(moving=False, output=sheet) as steps:
        steps.step("Looking for an engine")
        await trio.sleep(0.2)
        steps.step("Building the image")
        for number in range(5):
            steps.detail(f"step {number}")
            await trio.sleep(1)
        steps.step("Checking")
        await trio.sleep(0.1)
    assert sheet.text == "Building the image…\n✓ Building the image · 5.0 s\n"


async def test_short_steps_leave_nothing(autojump_clock: MockClock) -> None:
    for moving in (True, False):
        sheet = Sheet()
        async with show_progress(moving=moving, output=sheet) as steps:
            steps.step("Quick")
            await trio.sleep(0.3)
        assert sheet.text == ""


async def test_an_error_leaves_the_line_ended(autojump_clock: MockClock) -> None:
    sheet = Sheet()
    with pytest.raises(ValueError, match="no engine"):
        async with show_progress(moving=True, output=sheet) as steps:
            steps.step("Building")
            await trio.sleep(2)
            raise ValueError("no engine")
    assert sheet.text.endswith("\x1b[?25h")


async def test_on_a_terminal_one_line_moves_and_long_steps_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    async with terminal(columns=40) as window:
        async with show_progress(output=window.streams.errors) as steps:
            steps.step("Building the image")
            steps.detail("RUN something with a very long line \x1b[31mthat does not fit")
            await window.see("s · RUN some")
            assert len(window.shown) == 1
        os.write(window.slave, b"shell$")
        await window.see("shell$")
        assert len(window.shown) == 2
        assert window.shown[0].startswith("✓ Building the image · ")
        assert not window.screen.cursor.hidden
