"""Notifications from other workers about chats that have new entries."""

import logging
from typing import TYPE_CHECKING, Final, Protocol

import trio

from rumi.store.backend import PostgresServer
from rumi.store.ownership import channel_of, woken

if TYPE_CHECKING:
    from rumi.store.postgres import Postgres

logger = logging.getLogger(__name__)

AGAIN_S: Final = 1.0
"""Pause between attempts to listen, in seconds. During the pause, `Partitions` finds new entries by
polling."""


class Notifications(Protocol):
    """Receives the notifications that other workers send to one worker."""

    async def receive(self, worker: str) -> tuple[str, ...]:
        """Wait for notifications; return the chats that they name.

        Notifications may be lost, for example when the connection breaks. Cancelling the call loses none.
        """
        ...

    def close(self) -> None:
        """Stop receiving notifications."""
        ...


class PostgresNotifications:
    """A PostgreSQL connection that listens to a worker's channel."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._listener: Postgres | None = None
        self._worker = ""

    async def receive(self, worker: str) -> tuple[str, ...]:
        """Wait for notifications; return the chats that they name."""
        while True:
            try:
                if self._listener is None or self._worker != worker:
                    self.close()
                    self._listener = await trio.to_thread.run_sync(
                        self._server.listener, channel_of(worker), abandon_on_cancel=True
                    )
                    self._worker = worker
                await trio.lowlevel.wait_readable(self._listener.descriptor)
                # No checkpoint from here to the return: a cancellation could lose the notifications.
                chats = {
                    chat for notification in self._listener.notifications() for chat in woken(notification)
                }
                if chats:
                    return tuple(sorted(chats))
            except (self._server.error, OSError) as error:
                logger.warning("notifications of other workers are not heard: %s", error)
                self.close()
                await trio.sleep(AGAIN_S)

    def close(self) -> None:
        """Close the connection."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
