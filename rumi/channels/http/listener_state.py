"""State of the listener: delivery handlers, the readiness of the process, and response counts."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol


class Taker(Protocol):
    """Accepts deliveries that another server makes by POST, such as the updates of a webhook."""

    @property
    def path(self) -> str:
        """URL path on the listener."""
        ...

    @property
    def most_bytes(self) -> int:
        """Maximum size of a request body, in bytes."""
        ...

    def refuses(self, headers: Mapping[str, str]) -> int:
        """Return a status code to refuse a request; 0 to accept it. Called before the body is read."""
        ...

    async def take(self, body: bytes) -> bool | None:
        """Store a delivery. Return False if it cannot be stored now, None if it is unreadable.

        If the result is False, the other server may repeat the delivery. After a cancellation, the delivery
        may or may not be stored.
        """
        ...


class ListenerState:
    """State that the listener's routes read. It outlives restarts of the server.

    `requests` counts the responses by status code. `ending` is True when the process accepts no more
    deliveries.
    """

    status: Callable[[], Mapping[str, Any]]

    def __init__(self, takers: Sequence[Taker] = ()) -> None:
        self.takers = tuple(takers)
        self.ending = False
        self.requests: dict[int, int] = {}

    def unready(self) -> list[str]:
        """Return the reasons why the process should get no requests, one line each; empty if it is ready."""
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
