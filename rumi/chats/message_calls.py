"""Control calls about single messages of a chat: begin anew from one, drop one that waits."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rumi.errors import RumiError, UsageError
from rumi.platform.caller import Caller
from rumi.platform.calls import CHAT, call
from rumi.platform.chat_ids import ChatIds, check_chat_id, unknown_chat
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.branches import find_branching
from rumi.store.journal.inbox import find_waiting, knows_chat
from rumi.store.journal.records import Attachment
from rumi.texts import Language, gettext

if TYPE_CHECKING:
    from rumi.chats.inbox import Inbox


@dataclass(frozen=True, slots=True)
class MessageCalls:
    """The control calls about messages. A caller sees only chats of owners in its scope.

    `inbox` accepts messages; None if no Rumi runs. `attachment` returns an uploaded file by its reference.
    """

    ask: AskJournal
    ids: ChatIds
    inbox: "Inbox | None" = field(default=None, kw_only=True)
    attachment: Callable[[str], Attachment] | None = field(default=None, kw_only=True)

    @call("chats.branch", key=CHAT)
    async def branch(
        self,
        caller: Caller,
        *,
        chat: str,
        message: int,
        text: str | None = None,
        files: list[str] | None = None,
        language: Language | None = None,
    ) -> object:
        """Say something in place of an earlier `message`: a new session continues from before that message.

        Without `text`, the same text and files are sent again; `files` are names of uploaded files. The old
        session stays, and can be reopened. While a turn runs, the new message waits. The answer has the new
        `message` and a `note` about what stays as it is.

        Raises:
            UsageError: The chat is unknown, or a chat cannot begin anew from this message.
            RumiError: The message could not be stored.
        """
        inbox = self._running()
        known = await self._mine(caller, chat)
        earlier = await self.ask(find_branching(known, message))
        if earlier is None:
            raise UsageError(
                "The chat cannot begin anew from the message {message}.",
                "Choose a message that a person wrote and that was worked on.",
                message=message,
            )
        said = earlier.text if text is None else text
        attachments = earlier.attachments if text is None else ()
        if files is not None:
            if self.attachment is None:
                raise UsageError("This Rumi takes no files.")
            attachments = tuple(self.attachment(name) for name in files)
        if not said.strip() and not attachments:
            raise UsageError("The message is empty.", "Write a text.")
        if text is not None and said.lstrip().startswith("/"):
            raise UsageError("A command cannot take the place of a message.", "Send it as a new message.")
        language = language or earlier.language
        number = await inbox.accept(
            known,
            said,
            language,
            attachments,
            channel=earlier.channel,
            model=earlier.model,
            project=earlier.project,
            branches=earlier.id,
        )
        note = gettext(
            language or "en",
            "Files and other effects of the earlier turns stay as they are. /undo takes them back.",
        )
        return {"message": number, "note": note}

    @call("chats.drop", key=CHAT)
    async def drop(self, caller: Caller, *, chat: str, message: int) -> object:
        """Drop a message that waits for its turn, and return its `text` and the names of its `files`.

        `dropped` is False if the message does not wait: its turn has begun, or it has its reply.

        Raises:
            UsageError: The chat is unknown.
            RumiError: The journal does not answer.
        """
        inbox = self._running()
        known = await self._mine(caller, chat)
        found = await self.ask(find_waiting(known, message))
        if found is None or not await inbox.chats.drop(known, message):
            return {"dropped": False, "text": "", "files": []}
        names = [one.name or one.reference for one in found.attachments if one.kind in ("file", "voice")]
        return {"dropped": True, "text": found.text, "files": names}

    def _running(self) -> "Inbox":
        if self.inbox is None:
            raise RumiError("No Rumi runs here, so nobody works on messages.", "Start one: rumi serve")
        return self.inbox

    async def _mine(self, caller: Caller, chat: str) -> str:
        """Return a known chat of the terminal or the page.

        In other chats several people may write, and a caller must not speak or drop for one of them.
        """
        return self.ids.check_chosen(await self._known(caller, chat))

    def _sees(self, caller: Caller, chat: str) -> bool:
        return caller.scope in (None, self.ids.owner_of(chat))

    async def _known(self, caller: Caller, chat: str) -> str:
        check_chat_id(chat)
        # The same error for both, so that a caller cannot find out which chats of others exist.
        if not self._sees(caller, chat) or not await self.ask(knows_chat(chat)):
            raise unknown_chat(chat)
        return chat
