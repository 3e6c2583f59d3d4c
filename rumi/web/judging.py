"""Judging of URL lists by the guard: one verdict per URL, in the same order, without any connections."""

from collections.abc import AsyncIterable, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

import trio

from rumi.web.guard import AddressGuard, Verdict
from rumi.web.messages import FetchError
from rumi.web.resolver import Resolver, SystemResolver
from rumi.web.url import MAX_URL_BYTES

LONGEST_LINE_BYTES: Final = 2 * MAX_URL_BYTES
MOST_WAITING: Final = 4096  # verdicts that wait for an earlier one; about 64 MB with the longest lines
_MAX_BATCH: Final = 512
_REMEMBERED_NAMES: Final = 10_000
_REMEMBERED_S: Final = 60

_AT_ONCE: Final = 256
_THREADS: Final = 2 * _AT_ONCE  # one half is for abandoned lookups that still hold a thread

Read = Callable[[], Awaitable[bytes]]
ReportVerdicts = Callable[[Sequence[Verdict]], Awaitable[None]]


async def judge_list(
    read: Read, report: ReportVerdicts, *, allow: Collection[str] = (), timeout_s: float = 10
) -> None:
    """Judge a list of URLs, one per line, with the system's resolver; see `judge_all`.

    `read` returns the list in chunks, and b"" at the end of the list. `timeout_s` limits the lookup of one
    name.
    """
    resolver = SystemResolver(trio.CapacityLimiter(_THREADS), timeout_s)
    await judge_all(AddressGuard(RememberingResolver(resolver), allow), lines_of(read), report, _AT_ONCE)


async def lines_of(read: Read) -> AsyncIterable[bytes]:
    """Yield the lines of a text that arrives in chunks.

    The lines have no line ends. To limit memory, each line is cut to `LONGEST_LINE_BYTES`.
    """
    unfinished = b""
    while chunk := await read():
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield (unfinished + line)[:LONGEST_LINE_BYTES].removesuffix(b"\r")
            unfinished = b""
        unfinished = (unfinished + rest)[:LONGEST_LINE_BYTES]
    if unfinished:
        yield unfinished


async def judge_all(
    guard: AddressGuard, lines: AsyncIterable[bytes], report: ReportVerdicts, at_once: int
) -> None:
    """Judge every line that is not blank; report each verdict when it and all earlier verdicts are known.

    Judges `at_once` lines concurrently, and holds at most about `MOST_WAITING` lines in memory. On
    cancellation, ends immediately. Exceptions from `report` propagate.
    """
    permits = trio.CapacityLimiter(at_once)
    results: trio.MemorySendChannel[_Result]
    results, in_order = trio.open_memory_channel(MOST_WAITING)

    async def take_in() -> None:
        async with results:
            async for line in lines:
                if line.strip():
                    result = _Result()
                    # Waits while the channel is full, so a slow verdict stops the reading of more lines.
                    await results.send(result)
                    nursery.start_soon(_judge, guard, line, result, permits)

    async with in_order, trio.open_nursery() as nursery:
        nursery.start_soon(take_in)
        async for first in in_order:
            await _report_ready(first, in_order, report)


class RememberingResolver:
    """A resolver that caches another resolver's answers for a minute, including failures."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._known: dict[str, _Answer] = {}

    async def addresses(self, host: str) -> Sequence[str]:
        """Return the other resolver's addresses. Concurrent requests for the same name share one lookup.

        Raises:
            FetchError: The other resolver failed.
        """
        known = self._known.get(host)
        if known is None or trio.current_time() > known.until:
            known = await self._ask(host)
        await known.said.wait()
        # A new exception for each caller: a raised one collects the traceback of each.
        if known.error is not None:
            raise FetchError(known.error.message, known.error.advice)
        return known.addresses

    async def _ask(self, host: str) -> "_Answer":
        while len(self._known) >= _REMEMBERED_NAMES:
            self._known.pop(next(iter(self._known)))
        answer = self._known[host] = _Answer(trio.current_time() + _REMEMBERED_S)
        try:
            answer.addresses = tuple(await self._resolver.addresses(host))
        except FetchError as error:
            answer.error = error
        finally:
            answer.said.set()
        return answer


@dataclass(slots=True)
class _Answer:
    until: float
    said: trio.Event = field(default_factory=trio.Event)
    addresses: tuple[str, ...] = ()
    error: FetchError | None = None


@dataclass(slots=True)
class _Result:
    known: trio.Event = field(default_factory=trio.Event)
    verdict: Verdict | None = None


async def _judge(guard: AddressGuard, line: bytes, result: _Result, permits: trio.CapacityLimiter) -> None:
    try:
        url = line.decode()
    except UnicodeDecodeError:
        result.verdict = Verdict(line.decode(errors="replace"), False, "The line is not UTF-8.", "")
    else:
        async with permits:
            result.verdict = await guard.judge(url)
    result.known.set()


async def _report_ready(
    first: _Result, in_order: "trio.MemoryReceiveChannel[_Result]", report: ReportVerdicts
) -> None:
    """Wait for a result, and report it together with the results after it that are already known."""
    ready: list[Verdict] = []
    result = first
    while True:
        if ready and not result.known.is_set():
            await report(ready)
            ready = []
        await result.known.wait()
        assert result.verdict is not None
        ready.append(result.verdict)
        if len(ready) == _MAX_BATCH:
            break
        try:
            result = in_order.receive_nowait()
        except (trio.WouldBlock, trio.EndOfChannel):
            break
    await report(ready)
