"""What tests of the readers' processes share: a page through them, and who is there."""

import os
from collections.abc import Callable
from pathlib import Path

import trio

from rumi.web.messages import PageText
from rumi.web.readers.pages.readers import Readers

URL = "https://site.example/"
# Half a minute of work inside one call of a C library, which holds Python's lock.
SLOW = b"<p " + b" ".join(b"a%d=1" % n for n in range(150_000)) + b">x"
PATIENCE_S = 20


async def read(readers: Readers, body: bytes, media_type: str = "text/html") -> PageText:
    return await readers.read(body, media_type=media_type, charset=None, url=URL, max_chars=20_000)


def pids() -> set[int]:
    """The processes that this one has started and that read pages."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            words = (status.parent / "cmdline").read_bytes()
        except (OSError, ValueError):
            continue
        if parent == os.getpid() and (not words or b"rumi.web.readers.pages.process" in words):
            found.add(int(status.parent.name))
    return found


async def none_of(processes: Callable[[], set[int]]) -> None:
    """Wait until there is none: they end by themselves, and only /proc shows it."""
    with trio.fail_after(PATIENCE_S):
        while processes():  # noqa: ASYNC110 - there is no event that another process's end would set
            await trio.sleep(0.02)


async def one_ready(readers: Readers) -> int:
    """Have a reader that waits for a page; the processor time that it has used, in ticks."""
    await read(readers, b"x", "text/plain")
    (pid,) = pids()
    return _ticks(pid)[1]


async def one_at_work(since: int) -> int:
    """Wait until a reader is in the midst of a page; its pid. At `since` ticks it was not yet."""
    with trio.fail_after(PATIENCE_S):
        while True:
            for pid in pids():
                state, ticks = _ticks(pid)
                if state == "R" and ticks > since + 20:
                    return pid
            await trio.sleep(0.02)


def _ticks(pid: int) -> tuple[str, int]:
    spent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return spent[0], int(spent[11])
