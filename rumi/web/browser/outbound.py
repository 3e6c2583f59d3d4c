"""The way out of a browser's sandbox: to every host that the guard allows."""

from typing import Final

import httpcore
from typing_extensions import override

from rumi.web.guard import AddressGuard
from rumi.web.messages import FetchRefused
from rumi.web.outbound import Host, Outbound

MOST_REMEMBERED: Final = 5


class BrowserOutbound(Outbound):
    """Opens the connections of a browser. `refused` are the reasons of refusals, until they are told."""

    def __init__(self, guard: AddressGuard) -> None:
        super().__init__(guard)
        self.refused: list[str] = []

    @override
    async def connect(self, host: Host, scheme: str = "https") -> httpcore.AsyncNetworkStream:
        try:
            return await super().connect(host, scheme)
        except FetchRefused as refused:
            if len(self.refused) < MOST_REMEMBERED and refused.message not in self.refused:
                self.refused.append(refused.message)
            raise
