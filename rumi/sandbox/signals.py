"""Signals to all that runs in a box, straight from this machine: at once, without a word with the engine."""

import contextlib
import os
import signal

from rumi.sandbox.use import Processes

ROUNDS = 20
"""How often newly started processes are looked for."""


def signal_all(processes: Processes, number: signal.Signals) -> bool:
    """Send a signal to every process of a box, those included that are started meanwhile.

    False where there was no end of new ones. It proves nothing: a box's `kill_all` does. Blocking, for some
    milliseconds.
    """
    done = set[int]()
    for _ in range(ROUNDS):
        new = set(processes()) - done
        if not new:
            return True
        with contextlib.ExitStack() as opened:
            handles = dict[int, int]()
            for pid in new:
                with contextlib.suppress(OSError):  # it has ended
                    handles[pid] = os.pidfd_open(pid)
                    opened.callback(os.close, handles[pid])
            # A process that ended before its handle was opened may have left its number to a stranger, who is
            # not in the box: only what is still listed gets the signal, by its handle.
            for pid in set(processes()) & handles.keys():
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(handles[pid], number)
        done |= new
    return False
