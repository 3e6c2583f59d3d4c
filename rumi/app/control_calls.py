"""The calls that the daemon serves on its control socket, by name."""

from collections.abc import Mapping
from dataclasses import dataclass

import trio

from rumi.app.status import StatusSource
from rumi.app.stop_all import Everything
from rumi.chats.inbox import Inbox
from rumi.errors import UsageError
from rumi.platform.caller import Caller, ControlCall
from rumi.platform.chat_ids import ChatIds, check_chat_id
from rumi.platform.texts.language import known_language
from rumi.texts import Language


@dataclass(frozen=True, slots=True)
class ControlCalls:
    """The control calls of the process itself; `more` are the calls that other packages provide."""

    status: StatusSource
    inbox: Inbox
    ids: ChatIds
    language: Language
    everything: Everything
    more: Mapping[str, ControlCall]

    def calls(self) -> dict[str, ControlCall]:
        """Return the functions that serve the calls, by the name of the call."""
        return {
            "status": self._status,
            "stop": self._stop,
            "reset": self._reset,
            "undo": self._undo,
            "answer": self._answer,
            **self.more,
        }

    async def _status(self, caller: Caller, request: Mapping[str, object]) -> object:
        await trio.lowlevel.checkpoint()
        caller.check_all()
        return self.status.dump()

    async def _stop(self, caller: Caller, request: Mapping[str, object]) -> object:
        if request.get("all") is True:
            caller.check_all()
            language = _language(request) or self.language
            return await self.everything.stop(language, alone=request.get("passed") is True)
        return await self.inbox.stop(self._chat(caller, request), _language(request))

    async def _answer(self, caller: Caller, request: Mapping[str, object]) -> object:
        id, yes = request.get("id"), request.get("yes")
        if not isinstance(id, str) or not isinstance(yes, bool):
            raise UsageError("The request names no question.")
        return await self.inbox.chats.answer(self._chat(caller, request), id, yes)

    async def _undo(self, caller: Caller, request: Mapping[str, object]) -> object:
        return await self.inbox.undo(self._chat(caller, request), _language(request))

    async def _reset(self, caller: Caller, request: Mapping[str, object]) -> object:
        return await self.inbox.reset(self._chat(caller, request), _language(request))

    def _chat(self, caller: Caller, request: Mapping[str, object]) -> str:
        chat = request.get("chat")
        if not isinstance(chat, str):
            raise UsageError("The request names no chat.")
        return caller.chat_in(check_chat_id(chat), self.ids.owner_of)


def _language(request: Mapping[str, object]) -> Language | None:
    """Return the language that the request asks for, or None if the request names no known language."""
    return known_language(request.get("language"))
