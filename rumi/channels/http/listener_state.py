"""State of the listener: delivery handlers, the readiness of the process, and response counts."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rumi.channels.takers import Taker


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
