"""Stores the files of chats in the journal's database. The workspace carrier uses this to move files."""

from collections.abc import Mapping, Sequence
from typing import Final

import trio

from rumi.sandbox.lease import LeaseLostError
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.workspaces import (
    collect_pieces,
    get_pieces,
    keep_workspace,
    load_workspace,
    missing_pieces,
    put_pieces,
)

SLICE_PAUSE_S: Final = 0.01


class JournalPieces:
    """A `PieceStore` in the journal's database.

    The files of a chat are stored as pieces. A manifest lists the pieces.
    """

    def __init__(self, ask: AskJournal) -> None:
        self._ask = ask

    async def manifest(self, chat: str, fence: int) -> bytes:
        """Return the stored manifest, empty if none is stored. After this, earlier owners cannot write.

        Raises:
            LeaseLostError: A later owner has loaded the manifest.
        """
        manifest = await self._ask(load_workspace(chat, fence))
        if manifest is None:
            raise LeaseLostError
        return manifest

    async def missing(self, chat: str, keys: Sequence[str]) -> Sequence[str]:
        """Return those of the given keys for which no piece is stored."""
        return await self._ask(missing_pieces(chat, tuple(keys)))

    async def put(self, chat: str, fence: int, pieces: Mapping[str, bytes]) -> None:
        """Store pieces under their keys.

        Raises:
            LeaseLostError: A later owner has loaded the manifest. Nothing was stored.
        """
        if not await self._ask(put_pieces(chat, fence, tuple(pieces.items()))):
            raise LeaseLostError

    async def get(self, chat: str, keys: Sequence[str]) -> Mapping[str, bytes]:
        """Return the pieces stored under these keys."""
        return dict(await self._ask(get_pieces(chat, tuple(keys))))

    async def set_manifest(
        self, chat: str, fence: int, manifest: bytes, keys: Sequence[str], size: int
    ) -> Sequence[str]:
        """Replace the manifest if all its pieces are stored; otherwise return the keys of missing pieces.

        Raises:
            LeaseLostError: A later owner has loaded the manifest. Nothing has changed.
        """
        missing = await self._ask(keep_workspace(chat, fence, manifest, tuple(keys), size))
        if missing is None:
            raise LeaseLostError
        return missing

    async def collect_garbage(self, chat: str, fence: int) -> None:
        """Delete, in slices, the chat's pieces that its manifest does not list.

        On cancellation, some of these pieces remain.
        """
        while await self._ask(collect_pieces(chat, fence)):  # noqa: ASYNC110  # others go first
            await trio.sleep(SLICE_PAUSE_S)
