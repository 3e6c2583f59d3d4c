"""A chat as a channel of this process reaches it, whichever worker serves it: by a window of its own."""

from pathlib import Path
from typing import Final

import trio

from rumi.channels.attach.client import OpenRequest, attach
from rumi.channels.attach.connection import connect
from rumi.channels.attach.reconnecting import ReconnectingChat
from rumi.errors import RumiError
from rumi.platform.caller import Caller
from rumi.platform.texts.language import Language

AGAIN_S: Final = 0.5
"""The pause until a window is opened once more: its worker has gone, or its chat has moved."""


class RoutedChat(ReconnectingChat):
    """A window by the control socket at `path` of this process, which passes it on to the chat's worker."""

    def __init__(self, path: Path, caller: Caller, chat: str, language: Language = "en") -> None:
        super().__init__(chat, language)
        self._path = path
        self._caller = caller
        self._request = OpenRequest(chat, person=True, language=language, single=True)

    async def keep_attached(self) -> None:
        """Open the window, and open it once more when it has closed, until cancelled."""
        while True:
            try:
                async with attach(self._path, self._caller, self._request, "rumi serve") as port:
                    self.connect(port)
                    try:
                        await port.ended()
                    finally:
                        self.disconnect("")
            except RumiError:
                pass
            await trio.sleep(AGAIN_S)

    async def answer(self, question: str, yes: bool) -> bool:
        """Answer the question that the chat's turn asks; return False where it waits for none.

        Raises:
            RumiError: The worker is not reached.
        """
        async with connect(self._path, self._caller) as client:
            return bool(await client.call("answer", chat=self.chat, id=question, yes=yes))
