"""The files of chats that move between workers, and the lease with which their sandboxes end."""

import logging
from dataclasses import dataclass
from typing import Final

import trio

from rumi.errors import RumiError
from rumi.sandbox.carrying import WorkspaceCarrier
from rumi.sandbox.lease import LeaseLostError
from rumi.sandbox.packing import SpoiltWorkspace, Unpackable
from rumi.store.journal.store import JournalError
from rumi.store.ownership import Ownership, partition_of

logger = logging.getLogger(__name__)

LEAVE_S: Final = 30.0
"""How long a chat that ends may take to store its files."""


@dataclass(frozen=True, slots=True)
class SandboxLease:
    """The worker's lease, for its sandboxes: a chat that is handed over has none by then."""

    ownership: Ownership
    length_s: float

    def valid_until(self) -> float:
        """Return when it ends, by the clock that goes on while a process is paused."""
        return self.ownership.boottime_until


class CarriedFiles:
    """Brings the files of a chat or a task to this worker, and stores them for the next one.

    `place` is what decides who serves it: the chat, or who asked for a task.
    """

    def __init__(self, carrier: WorkspaceCarrier, ownership: Ownership) -> None:
        self._carrier = carrier
        self._ownership = ownership

    def _fence(self, partition_key: str) -> int:
        fence = self._ownership.fences.get(partition_of(partition_key))
        if fence is None:
            raise LeaseLostError
        return fence

    async def fetch(self, key: str, partition_key: str) -> None:
        """Make the folder as it was stored. Cancelled, it is as before or as stored.

        Raises:
            RumiError: It is as before, and nothing should work with it.
        """
        try:
            await self._carrier.fetch(key, self._fence(partition_key))
        except OSError as error:
            raise RumiError(
                f"The chat's files cannot be fetched: {error.strerror or error}.", "Make room on the disk."
            ) from error
        except SpoiltWorkspace as error:
            raise RumiError("The chat's stored files are damaged.", "Restore the database.") from error

    async def store(self, key: str, partition_key: str) -> RumiError | None:
        """Store the folder as it is. Return what the chat's user should know, None if all is well."""
        try:
            await self._carrier.store(key, self._fence(partition_key))
        except Unpackable as error:
            return error
        except (LeaseLostError, JournalError) as error:  # the next worker has the former files
            logger.warning("the files of %s were not stored: %s", key, error)
        except OSError as error:
            return RumiError(f"The chat's files were not stored: {error.strerror or error}.")
        return None

    async def leave(self, key: str, partition_key: str) -> None:
        """Store what came since the last turn, and forget what is known of the folder."""
        with trio.move_on_after(LEAVE_S):
            if (error := await self.store(key, partition_key)) is not None:
                logger.warning("the files of %s were not stored: %s", key, error)
        self._carrier.forget(key)
