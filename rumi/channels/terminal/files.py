"""Files that a message hands on: `-f FILE`, and `@file` in a text that was typed or given with `-p`.

The window's process reads them, with its user's rights, before the message is sent.
"""

import os
import re
import stat
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import trio

from rumi.channels.terminal.words import Phrases
from rumi.errors import UsageError
from rumi.platform.file_kinds import kind_of_file
from rumi.store.journal.records import Attachment

MOST_FILES: Final = 8
"""Files that one message hands on."""

HEAD_BYTES: Final = 1024
"""How much of a file is read at least, to know its kind."""

_NAMED = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|(\S+))')
_AFTER = ".,;:!?)]}'\""
"""What may stand right behind a name in a sentence."""


def named_in(text: str) -> tuple[str, ...]:
    """Return the files that `@name` in a text means: only those that exist. Other words are text."""
    found = []
    for quoted, word in _NAMED.findall(text):
        names = [quoted] if quoted else [word, word.rstrip(_AFTER)]
        found += [name for name in names if name and _is_file(name)][:1]
    return tuple(dict.fromkeys(found))


async def handed_files(
    names: Sequence[str], max_chars: int, words: Phrases, report: Callable[[str], Awaitable[None]]
) -> tuple[Attachment, ...]:
    """Return the files' texts, at most `max_chars` in all; files that are no text as they are.

    `tell` says what was left out of a text.

    Raises:
        UsageError: a file cannot be read, or there are too many.
    """
    if len(names) > MOST_FILES:
        raise UsageError(words.too_many_files.format(count=MOST_FILES))
    handed = []
    for name in names:
        text: str | None = await trio.to_thread.run_sync(
            _text_of, name, max_chars, words, abandon_on_cancel=True
        )
        if text is None:
            path = Path(os.path.abspath(os.path.expanduser(name)))  # noqa: ASYNC240 - they ask no disk
            handed.append(Attachment("file", reference=str(path), name=path.name))
            continue
        if len(text) > max_chars:
            await report(words.file_cut.format(name=name, count=max_chars))
        if text.strip():
            cut = len(text) > max_chars
            handed.append(Attachment("words", source=f"file {name}", text=text[:max_chars], cut=cut))
        max_chars = max(0, max_chars - len(text))
    return tuple(handed)


def _is_file(name: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(Path(name).expanduser()).st_mode)
    except (OSError, ValueError, RuntimeError):
        return False


def _text_of(name: str, max_chars: int, words: Phrases) -> str | None:
    """Return the beginning of a text file, one character more than is allowed if it is longer.

    None if it is not a text.
    """
    try:
        # Not blocking: opening a FIFO would wait for a writer.
        descriptor = os.open(Path(name).expanduser(), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(words.not_a_file.format(name=name))
            data = file.read(max(HEAD_BYTES, 4 * max_chars + 4))
    except (OSError, ValueError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{name} cannot be read: {why}.") from None
    if b"\0" in data or kind_of_file(data, name) is not None:
        return None
    return data.decode("utf-8-sig", "replace")[: max_chars + 1]
