"""Files attached to a message with `-f FILE`, or with `@file` in a text that is typed or passed with `-p`.

The client's process reads the files, with its user's rights, before it sends the message.
"""

import os
import re
import stat
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import trio

from rumi.channels.terminal.options import FileLimits
from rumi.channels.terminal.words import Reader
from rumi.errors import UsageError
from rumi.platform.file_kinds import kind_of_file
from rumi.store.journal.records import Attachment
from rumi.texts import gettext, os_error

MOST_FILES: Final = 8
"""Maximum number of files attached to one message."""

HEAD_BYTES: Final = 1024
"""Minimum number of bytes that are read from a file to detect its kind."""

_NAMED = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|(\S+))')
_AFTER = ".,;:!?)]}'\""
"""Punctuation that may follow a file name in a sentence."""


def named_in(text: str) -> tuple[str, ...]:
    """Return the names of existing files that the text mentions as `@name`. Ignore `@` before other words."""
    found = []
    for quoted, word in _NAMED.findall(text):
        # The whole word first: a file name may end in punctuation.
        names = [quoted] if quoted else [word, word.rstrip(_AFTER)]
        found += [name for name in names if name and _is_file(name)][:1]
    return tuple(dict.fromkeys(found))


async def handed_files(
    names: Sequence[str], limits: FileLimits, reader: Reader, report: Callable[[str], Awaitable[None]]
) -> tuple[Attachment, ...]:
    """Return files as attachments: each with its path, to be stored as it is, and text files with their text.

    The texts have at most `limits.chars` characters in total; `report` is called with a sentence for each
    text that was cut. A text file that is too large to be stored is attached as text only, and that is
    reported.

    Raises:
        UsageError: a file cannot be read, or there are too many files.
    """
    if len(names) > MOST_FILES:
        raise UsageError("You can attach at most {count} files to a message.", count=MOST_FILES)
    handed, max_chars = list[Attachment](), limits.chars
    for name in names:
        # Abandoned if cancelled: a read may take long, for example from a network file system.
        text, size = await trio.to_thread.run_sync(_text_of, name, max_chars, reader, abandon_on_cancel=True)
        path = Path(os.path.abspath(os.path.expanduser(name)))  # noqa: ASYNC240 - they ask no disk
        original = Attachment("file", reference=str(path), name=path.name)
        if text is None:
            handed.append(original)
            continue
        if len(text) > max_chars:
            await report(
                gettext(
                    reader.language,
                    "Only the first {count} characters of {name} are used ([session] handed_chars).",
                    name=name,
                    count=max_chars,
                )
            )
        if text.strip():
            cut = len(text) > max_chars
            handed.append(Attachment("words", source=f"file {name}", text=text[:max_chars], cut=cut))
        max_chars = max(0, max_chars - len(text))
        if size <= limits.megabytes << 20:
            handed.append(original)
        else:
            await report(
                gettext(
                    reader.language,
                    "{name} is larger than {count} MB ([session] file_mb), so only its text is used.",
                    name=name,
                    count=limits.megabytes,
                )
            )
    return tuple(handed)


def _is_file(name: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(Path(name).expanduser()).st_mode)
    except (OSError, ValueError, RuntimeError):
        return False


def _text_of(name: str, max_chars: int, reader: Reader) -> tuple[str | None, int]:
    """Return the beginning of a text file, or None if the file does not contain text; and the file's size.

    The text is one character longer than `max_chars` if the file is longer, so that the caller can detect
    the cut.

    Raises:
        UsageError: the file cannot be read, or is not a regular file.
    """
    try:
        # Not blocking: opening a FIFO would wait for a writer.
        descriptor = os.open(Path(name).expanduser(), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise UsageError("{name} is not a file.", name=name)
            # A character has at most 4 bytes in UTF-8.
            data = file.read(max(HEAD_BYTES, 4 * max_chars + 4))
    except (OSError, ValueError, RuntimeError) as error:
        why = os_error(error) if isinstance(error, OSError) else str(error)
        raise UsageError("{name} cannot be read: {why}.", name=name, why=why) from None
    # Imported at first use, because most messages have no file.
    from rumi.platform.text_decoding import decode

    if kind_of_file(data, name) is not None or "\0" in (text := decode(data)):
        return None, status.st_size
    return text[: max_chars + 1], status.st_size
