"""The end of a process that has windows: what they are at may finish first."""

import signal
from collections.abc import Callable

import trio

from rumi.chats import Inbox
from rumi.windows.holder import Windows

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

INTERRUPT_S = 5.0
"""How long the turns that are cut off may take to end."""

LAST_WORDS_S = 1.0
"""How long the windows may take to be told the last replies."""


async def let_windows_finish(
    windows: Windows, inbox: Inbox, waiting: Callable[[int], object], patience_s: float
) -> None:
    """Take no more from windows, and let what they are at finish; a signal ends the wait.

    Turns that are left then are ended as interrupted, and that is told. `waiting` is called with the number
    of windows before a wait. Must be called in the main thread.
    """
    windows.wind_down()
    if not windows.at_work():
        return
    if patience_s > 0:
        waiting(windows.at_work())
        with trio.open_signal_receiver(*SIGNALS) as signals:
            async with trio.open_nursery() as nursery:
                nursery.cancel_scope.deadline = trio.current_time() + patience_s
                nursery.start_soon(_until_done, windows, nursery.cancel_scope)
                await anext(signals)
                nursery.cancel_scope.cancel()
    if windows.at_work():
        await inbox.wind_down(0, INTERRUPT_S)
        with trio.move_on_after(LAST_WORDS_S):
            await windows.done()


async def _until_done(windows: Windows, scope: trio.CancelScope) -> None:
    await windows.done()
    scope.cancel()
