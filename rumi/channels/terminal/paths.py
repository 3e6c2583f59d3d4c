"""Completion of `@` with the paths below the working folder."""

import heapq
import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from rumi.channels.terminal.mentions import as_mention, dropped, expanded
from rumi.platform.printable import one_line

MOST_LISTED: Final = 20_000
"""Maximum number of entries of one folder that are looked at."""

MOST_OFFERED: Final = 200
"""Maximum number of names that are offered at once."""

_BEGUN: Final = re.compile(r"""(?<![^\s(\[{])@(?:"([^"\n]*)|'([^'\n]*)|((?:\\.|[^\s\\])*))\Z""")


class PathCompleter(Completer):
    """Completes the path behind an `@`. It reads a folder, so it must run in a thread."""

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield the paths that begin with the text behind the `@`, folders first."""
        line = document.current_line_before_cursor
        begun = _BEGUN.search(line)
        if begun is None or document.text.startswith("!"):
            return
        typed = next((part for part in begun.groups() if part is not None), "")
        if begun[3]:
            typed = typed.replace("\\ ", " ")
        folder, _, start = typed.rpartition("/")
        folder = f"{folder}/" if "/" in typed else ""
        length = len(begun[0])
        for is_file, name in _matching(folder, start):
            path = f"{folder}{name}" + ("" if is_file else "/")
            text = as_mention(path)
            if not is_file:  # more may follow
                text = text.removesuffix(text[1]) if text[1] in "\"'" else text
            yield Completion(text, start_position=-length, display=one_line(name) + ("" if is_file else "/"))


def pasted(text: str, document: Document) -> str:
    """Return the text to insert for a paste: paths of dropped files become mentions, except in a command."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if document.text.startswith("!") or not (paths := dropped(text)):
        return text
    before = document.char_before_cursor
    blank = " " if before and not before.isspace() else ""
    return blank + "".join(f"{as_mention(path)} " for path in paths)


def _matching(folder: str, start: str) -> list[tuple[bool, str]]:
    found = ((is_file, name) for name, is_file in _entries(folder) if _fits(name, start))
    return heapq.nsmallest(MOST_OFFERED, found)


def _fits(name: str, start: str) -> bool:
    if name == ".git" or (name.startswith(".") and not start.startswith(".")) or not name.isprintable():
        return False
    return name.startswith(start) or name.casefold().startswith(start.casefold())


def _entries(folder: str) -> Iterator[tuple[str, bool]]:
    try:
        with os.scandir(expanded(folder or ".")) as entries:
            for entry in islice(entries, MOST_LISTED):
                try:
                    yield entry.name, not entry.is_dir()
                except OSError:  # a link that leads nowhere
                    continue
    except (OSError, ValueError, RuntimeError):
        return
