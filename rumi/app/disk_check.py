"""Startup check that the home's disk can be written; advises which files to delete. Blocks briefly."""

import contextlib
from collections.abc import Sequence

from rumi.errors import UsageError
from rumi.platform.disk_reserve import Large, Reserve, allocate, largest
from rumi.platform.home import Home
from rumi.platform.texts import storage as storage_texts
from rumi.store.sqlite import FULL
from rumi.texts import Language, gettext

NEEDED_BYTES = 256_000
"""Maximum number of bytes written at startup: empty WAL files, the lock, the control socket."""


def require_writable_disk(home: Home, language: Language) -> bool:
    """Check that the disk can be written. Return True if the reserve file was deleted to make this possible.

    The caller has locked the home.

    Raises:
        UsageError: The disk is full and there is no reserve file, or writing fails for another reason.
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
    full = gettext(language, "The disk of {home} is full.", home=home.root)
    raise UsageError(full, free_space_advice(language, reserve, largest(home.root)))


def free_space_advice(language: Language, reserve: Reserve, large: Sequence[Large]) -> str:
    """Return a text that says how much space must be free, which files are large, and how to delete them."""
    found = [(str(candidate.path), candidate.bytes / 1e6, candidate.command) for candidate in large]
    return storage_texts.how_to_free_space(language, reserve.wanted / 1e6, found)


def _try_to_write(home: Home) -> OSError | None:
    """Try to write a small file; return the error, or None if the write succeeded."""
    draft = home.run / "room"
    try:
        try:
            allocate(draft, NEEDED_BYTES)
        finally:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
    except OSError as error:
        return error
    return None
