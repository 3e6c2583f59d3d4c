"""What the listener serves: who takes deliveries, whether the process is ready, and counts of its answers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol


class Taker(Protocol):
    """Takes what another server delivers by POST, such as a webhook's updates."""

    @property
    def path(self) -> str:
        """Its path on the listener."""
        ...

    @property
    def most_bytes(self) -> int:
        """The largest body that it takes."""
        ...

    def refuses(self, headers: Mapping[str, str]) -> int:
        """Return the status of a request that it refuses by its headers, before the body is read; else 0."""
        ...

    async def take(self, body: bytes) -> bool | None:
        """Store what came. Return False if it cannot be stored now and may come again; None if it is
        unreadable.

        Cancelled, it has stored it or has not.
        """
        ...


class ListenerState:
    """The state that the routes read, which outlives every incarnation of the server.

    `requests` counts the answers by their status; `ending` is set when the process takes nothing more.
    """

    status: Callable[[], Mapping[str, Any]]

    def __init__(self, takers: Sequence[Taker] = ()) -> None:
        self.takers = tuple(takers)
        self.ending = False
        self.requests: dict[int, int] = {}

    def unready(self) -> list[str]:
        """Return why the process should get no requests, one line each; empty when it is ready."""
        dump = self.status()
        reasons = ["The process is ending."] if self.ending else []
        trouble = dump["storage"]["trouble"]
        if trouble is not None:
            reasons.append(f"The journal cannot be written: {trouble}.")
        for child in dump["tree"]["children"]:
            if child["state"] != "running":
                reasons.append(f"The actor {child['id']} is not running: {child['state']}.")
            elif child["figures"].get("unready"):
                reasons.append(f"The actor {child['id']} is not ready: {child['figures']['unready']}.")
        return reasons
