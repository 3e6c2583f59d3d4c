"""A fetcher of one's own for a test, and what it leaves behind."""

import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import trio

from actors import ActorRef, ChildSpec, Supervisor
from rumi.web.fetch.download import FetchLimits
from rumi.web.fetch.fetcher import Fetcher
from rumi.web.guard import AddressGuard
from rumi.web.messages import Fetch, FetchError, Method, Page, SearchResults, SearchWeb, WebMessage
from rumi.web.network import GuardedNetwork
from rumi.web.readers.pages.readers import Readers
from rumi.web.resolver import Resolver
from rumi.web.tabstack import Tabstack

BOUND_S = 30  # no fetch of a test takes longer, whatever is wrong with it
Searching = Callable[[SearchWeb], Awaitable[SearchResults]]


class Names:
    """A resolver that knows a few names at once."""

    def __init__(self, **names: Iterable[str]) -> None:
        self.names = {name.replace("__", "-").replace("_", "."): tuple(to) for name, to in names.items()}
        self.asked: list[str] = []

    async def addresses(self, host: str) -> tuple[str, ...]:
        self.asked.append(host)
        await trio.lowlevel.checkpoint()
        if host not in self.names:
            raise FetchError("The name has no address.")
        return self.names[host]


@dataclass
class World:
    """A running fetcher, and how to ask it."""

    ref: ActorRef[WebMessage]
    root: Supervisor

    async def fetch(
        self, url: str, chat: str = "one", method: Method = "GET", *, fresh: bool = False
    ) -> Page:
        """What came; raises what went wrong."""
        with trio.fail_after(BOUND_S):
            return await self.ref.ask(Fetch(url, chat, method, fresh=fresh))

    async def trouble(self, url: str, chat: str = "one", method: Method = "GET") -> FetchError:
        """Why nothing came."""
        try:
            page = await self.fetch(url, chat, method)
        except FetchError as error:
            return error
        raise AssertionError(f"it was fetched: {page}")

    def activity(self) -> str:
        (status,) = self.root.status().children
        return status.activity


@asynccontextmanager
async def fetcher(
    *allow: str,
    resolver: Resolver | None = None,
    tls: ssl.SSLContext | None = None,
    readers: Readers | None = None,
    search: Searching | None = None,
    guard: AddressGuard | None = None,
    tabstack: Tabstack | None = None,
    **limits: float,
) -> AsyncIterator[World]:
    """A fetcher that may go to `allow` besides the public web. Nothing of it is left afterwards."""
    network = GuardedNetwork(guard or AddressGuard(resolver or Names(), allow))
    chosen = replace(FetchLimits(), **limits)  # type: ignore[arg-type]
    reading = readers or Readers()

    async def no_search(request: SearchWeb) -> SearchResults:
        raise FetchError("Nothing is searched here.")

    root = Supervisor("web")
    ref = root.add(
        ChildSpec(
            "fetcher",
            lambda: Fetcher(network, reading, search or no_search, chosen, tls=tls, tabstack=tabstack),
            capacity=10_000,
        )
    )
    async with root.running():
        yield World(ref, root)


def open_sockets() -> int:
    """How many sockets this process has."""
    return sum(1 for link in _links() if link.startswith("socket:"))


def _links() -> list[str]:
    links = []
    for fd in Path("/proc/self/fd").iterdir():
        try:
            links.append(os.readlink(fd))
        except FileNotFoundError:  # it was the one that lists them
            continue
    return links


def children() -> set[int]:
    """The processes that this one has, those included that nobody has waited for."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that has ended meanwhile
            found |= {int(pid) for pid in (task / "children").read_text().split()}
    return found


class PeakMemory:
    """How much more memory this process has held since this was made, at its highest moment."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak: proc_pid_clear_refs(5)
        self._before = _status_bytes("VmRSS")

    def grown_bytes(self) -> int:
        return _status_bytes("VmHWM") - self._before


def _status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {field}")
