"""Whether a home's disk takes anything, at a start, and what its owner can delete. Blocking, briefly."""

import contextlib
import os
from collections.abc import Sequence

from rumi import texts
from rumi.databases import FULL
from rumi.errors import UsageError
from rumi.home import Home
from rumi.reserve import Large, Reserve, largest
from rumi.texts import Language

NEEDED_BYTES = 256_000
"""What a start writes at most: empty logs of the databases, the lock, the control socket."""


def require_room(home: Home, language: Language) -> bool:
    """See to it that a start can write; whether the reserve had to be given back for that.

    For who holds the home.

    Raises:
        UsageError: the disk is full and there is no reserve, or it refuses to be written.
    """
    reserve = Reserve(home.reserve)
    error = _try_to_write(home)
    used = error is not None and error.errno in FULL and reserve.give_back()
    if used:
        error = _try_to_write(home)
    if error is None:
        return used
    if error.errno not in FULL:
        raise home.unusable(error)
    full = texts.cannot_start_on_full_disk(language, home.root)
    raise UsageError(full, how_to_make_room(language, reserve, largest(home.root)))


def how_to_make_room(language: Language, reserve: Reserve, large: Sequence[Large]) -> str:
    """How much has to be free, what is large, and how to delete it."""
    found = [(str(each.path), each.bytes / 1e6, each.command) for each in large]
    return texts.make_room(language, reserve.wanted / 1e6, found)


def _try_to_write(home: Home) -> OSError | None:
    """What keeps a small file from being written."""
    draft = home.run / "room"
    try:
        try:
            draft.unlink(missing_ok=True)
            handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(handle, 0, NEEDED_BYTES)
            finally:
                os.close(handle)
        finally:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
    except OSError as error:
        return error
    return None
