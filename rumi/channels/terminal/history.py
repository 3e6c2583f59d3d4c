"""The input history: what was typed in earlier chats."""

import os
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from typing_extensions import override


def open_history(path: Path | None) -> History:
    """Return the input history, stored in a file that only its owner can read.

    If the file cannot be used, the history exists only in memory.
    """
    if path is None:
        return InMemoryHistory()
    try:
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except OSError:
        return InMemoryHistory()
    return _History(str(path))


class _History(FileHistory):
    """Input history in a file. A line that cannot be written, for example on a full disk, is dropped."""

    @override
    def store_string(self, string: str) -> None:
        with suppress(OSError):
            super().store_string(string)
