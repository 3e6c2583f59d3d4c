"""Completion of `/diff`, `/apply` and `/discard` with the names of files that the chat has changed."""

import re
import shlex
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

MOST_OFFERED: Final = 200
"""Maximum number of names that are offered at once."""

FRESH_S: Final = 2.0
"""How long known names are used while a person types, in seconds: reading the changes takes a moment."""

_COMMAND: Final = re.compile(r"/(?:diff|apply|discard)[^\S\n]+", re.IGNORECASE)
_BEGUN: Final = re.compile(r"""(?<!\S)(?:"([^"\n]*)|'([^'\n]*)|([^\s"']*))\Z""")


class ChangeCompleter(Completer):
    """Completes names of changed files. `changed` may take long, so it must run in a thread."""

    def __init__(self, changed: Callable[[], Sequence[str]] | None) -> None:
        self._changed = changed
        self._known: Sequence[str] = ()
        self._known_at = -FRESH_S

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield the names that begin with the last word before the cursor, then those that contain it."""
        before = document.text_before_cursor
        command = _COMMAND.match(before)
        if self._changed is None or command is None or "\n" in document.text:
            return
        begun = _BEGUN.search(before, command.end())
        if begun is None:
            return
        typed = next((part for part in begun.groups() if part is not None), "").casefold()
        named = set(_words(before[command.end() : begun.start()]))
        found = [path for path in self._names(self._changed) if typed in path.casefold()]
        found.sort(key=lambda path: not path.casefold().startswith(typed))
        for path in found[:MOST_OFFERED]:
            text = shlex.quote(path)
            if path not in named and text != begun[0]:
                yield Completion(text, start_position=-len(begun[0]), display=path)

    def _names(self, changed: Callable[[], Sequence[str]]) -> Sequence[str]:
        if time.monotonic() - self._known_at > FRESH_S:
            self._known = changed()
            self._known_at = time.monotonic()
        return self._known


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # an open quotation mark
        return text.split()
