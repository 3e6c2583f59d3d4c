"""The interface of what takes deliveries, which other servers make by POST to the listener."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

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
