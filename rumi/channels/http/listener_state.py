"""State of the listener: delivery handlers, the readiness of the process, and response counts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

AGAIN_S: Final = 1
"""Seconds after which the other server may repeat a delivery that could not be stored."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The response to a delivery. A text that starts with `{` is JSON.

    `again_s` is the number of seconds after which the other server may repeat the delivery; 0 if unknown.
    """

    status: int
    text: str = ""
    again_s: int = 0


NOT_STORED: Final = Answer(503, "Nothing can be stored now.", AGAIN_S)


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
        """Return a status code to refuse a request; 0 to read its body. Called before the body is read."""
        ...

    async def take(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """Store a delivery, and return the response. After a cancellation, it may or may not be stored."""
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
