"""What the process that holds the home answers on its control socket, by name."""

from collections.abc import Mapping
from dataclasses import dataclass

import trio

from rumi.chats import Inbox, check_chat_id
from rumi.control import Call
from rumi.errors import UsageError
from rumi.status import StatusSource


@dataclass(frozen=True, slots=True)
class Switchboard:
    """The calls: of the house, and those that rooms bring along as `more`."""

    status: StatusSource
    inbox: Inbox
    more: Mapping[str, Call]

    def calls(self) -> dict[str, Call]:
        """Each call by its name."""
        return {"status": self._status, "stop": self._stop, "reset": self._reset, **self.more}

    async def _status(self, request: Mapping[str, object]) -> object:
        await trio.lowlevel.checkpoint()
        return self.status.dump()

    async def _stop(self, request: Mapping[str, object]) -> object:
        return await self._command(request, "/stop")

    async def _reset(self, request: Mapping[str, object]) -> object:
        return await self._command(request, "/reset")

    async def _command(self, request: Mapping[str, object], text: str) -> str:
        chat = request.get("chat")
        if not isinstance(chat, str):
            raise UsageError("The request names no chat.")
        return await self.inbox.command(check_chat_id(chat), text)
