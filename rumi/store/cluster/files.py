"""Moves files with their chat from worker to worker, and ends sandboxes when the worker's lease ends."""

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
from rumi.texts import os_error

logger = logging.getLogger(__name__)

LEAVE_S: Final = 30.0
"""Maximum time to store the files of a chat that stops on this worker, in seconds."""


@dataclass(frozen=True, slots=True)
class SandboxLease:
    """Limits the run time of a worker's sandboxes: they end when the worker's lease ends.

    A chat that was handed over before the lease ended no longer has a sandbox on this worker.
    """

    ownership: Ownership
    length_s: float

    def valid_until(self) -> float:
        """Return the end of the lease on the clock CLOCK_BOOTTIME, which all processes of a machine share."""
        return self.ownership.boottime_until


class CarriedFiles:
    """Fetches the files of a chat or a task to this worker, and stores them for the next worker.

    `partition_key` determines which worker serves the files. It is the chat's id; for a task without a chat,
    it is the task's owner.
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
        """Replace the content of the chat's or task's folder with the stored files.

        On cancellation, the folder contains either the old files or the stored ones, never a mixture.

        Raises:
            RumiError: The folder still contains the old files, so no command should run in it.
        """
        try:
            await self._carrier.fetch(key, self._fence(partition_key))
        except OSError as error:
            raise RumiError(
                "The chat's files cannot be fetched: {reason}.",
                "Make room on the disk.",
                reason=os_error(error),
            ) from error
        except SpoiltWorkspace as error:
            raise RumiError("The chat's stored files are damaged.", "Restore the database.") from error

    async def store(self, key: str, partition_key: str) -> RumiError | None:
        """Store the folder's files. Return an error to show to the chat's user, or None."""
        try:
            await self._carrier.store(key, self._fence(partition_key))
        except Unpackable as error:
            return error
        # The user gets no message: the next worker serves the chat, with the files as last stored.
        except (LeaseLostError, JournalError) as error:
            logger.warning("the files of %s were not stored: %s", key, error)
        except OSError as error:
            return RumiError("The chat's files were not stored: {reason}.", reason=os_error(error))
        return None

    async def leave(self, key: str, partition_key: str) -> None:
        """Store files created since the last turn, and make the carrier forget the folder."""
        with trio.move_on_after(LEAVE_S):
            if (error := await self.store(key, partition_key)) is not None:
                logger.warning("the files of %s were not stored: %s", key, error)
        self._carrier.forget(key)
