"""The terminal: a person at the keyboard, a pipe, one turn for a script, or JSON lines for a program.

`run_terminal` picks the kind that fits the streams and the options. All of them talk to a `ChatPort` and
know nothing of what is behind it. `show_progress` shows what happens before the chat begins.
"""

from rumi.channels.terminal.options import TerminalOptions
from rumi.channels.terminal.piped import what_to_send
from rumi.channels.terminal.progress import show_progress
from rumi.channels.terminal.run import run_terminal
from rumi.channels.terminal.streams import StandardStreams

__all__ = ["StandardStreams", "TerminalOptions", "run_terminal", "show_progress", "what_to_send"]
