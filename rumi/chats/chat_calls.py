"""Control calls about chats."""

import builtins
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Final

from rumi.chats.folder_changes import counted, paths_in
from rumi.chats.folders import ChatFolders, FolderDiff, FolderError
from rumi.errors import UsageError
from rumi.platform.caller import Caller
from rumi.platform.calls import CHAT, call
from rumi.platform.chat_ids import ChatIds, check_chat_id, unknown_chat
from rumi.platform.openat import shown
from rumi.platform.texts.folders import folder_name
from rumi.platform.timestamps import utc
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.history import MOST_ENTRY
from rumi.store.journal.inbox import knows_chat
from rumi.store.journal.lists import items_of, lists_of
from rumi.store.journal.reading import list_chats, read_history, search_history
from rumi.store.journal.records import StoredEntry
from rumi.store.journal.reopening import list_sessions

PAGE: Final = 200
"""Maximum number of entries in one answer."""

MOST_CHATS: Final = 10_000

MOST_SESSIONS: Final = 200
"""Maximum number of sessions in one answer."""

PAGE_CHARS: Final = 400_000
"""Maximum number of characters of a diff in one answer; a longer line is an answer of its own."""


@dataclass(frozen=True, slots=True)
class ChatCalls:
    """The control calls about chats. A caller sees and deletes only chats of owners in its scope.

    `remove` deletes a chat, but keeps its facts. `folders` are the folders that chats work on.
    """

    ask: AskJournal
    remove: Callable[[str], Awaitable[None]]
    ids: ChatIds
    folders: ChatFolders | None = None

    @call("chats.list")
    async def list(self, caller: Caller) -> object:
        """Return the chats, latest first."""
        return [
            asdict(stored) | {"at": utc(stored.at)}
            for stored in await self.ask(list_chats(limit=MOST_CHATS))
            if self._sees(caller, stored.chat)
        ]

    @call("chats.show")
    async def show(self, caller: Caller, *, chat: str, before: int = 0) -> object:
        """Return the last entries of a chat's history with numbers below `before`; 0 means the latest."""
        known = await self._known(caller, chat)
        entries = await self.ask(read_history(known, _before(before), PAGE))
        return {"entries": [entry_as_json(entry) for entry in entries]}

    @call("chats.sessions")
    async def sessions(self, caller: Caller, *, chat: str = "", owner: str = "") -> object:
        """Return the sessions of a `chat`, or of all chats of an `owner`, the latest first."""
        if chat:
            chats = [await self._known(caller, chat)]
        else:
            known = await self.ask(list_chats(limit=MOST_CHATS))
            chats = [one.chat for one in known if self._sees(caller, one.chat)]
            chats = [one for one in chats if owner in ("", self.ids.owner_of(one))]
        found = [one for each in chats for one in await self.ask(list_sessions(each, MOST_SESSIONS))]
        found.sort(key=lambda session: session.at, reverse=True)
        return [asdict(session) | {"at": utc(session.at)} for session in found[:MOST_SESSIONS]]

    @call("chats.lists")
    async def lists(self, caller: Caller, *, chat: str) -> object:
        """Return the lists that a chat shares, with their items."""
        known = await self._known(caller, chat)
        found = [
            (entry.name, await self.ask(items_of(known, entry.name)))
            for entry in await self.ask(lists_of(known))
        ]
        return {"lists": [{"list": name, "items": [asdict(item) for item in items]} for name, items in found]}

    @call("chats.search")
    async def search(self, caller: Caller, *, words: str, chat: str = "", before: int = 0) -> object:
        """Return entries with all `words`, of one `chat` or of all; `next` is the `before` of the next page.

        Raises:
            UsageError: There are no words, or the chat is unknown.
        """
        known = await self._known(caller, chat) if chat else ""
        if not words.strip():
            raise UsageError("There is nothing to search for.", "Name a word.")
        found = await self.ask(search_history(words, known, before=_before(before)))
        seen = [entry_as_json(entry) for entry in found.entries if self._sees(caller, entry.chat)]
        return {"entries": seen, "next": found.next}

    @call("chats.delete", key=CHAT)
    async def delete(self, caller: Caller, *, chat: str) -> None:
        """Delete a chat."""
        await self.remove(await self._known(caller, chat))

    @call("chats.diff", key=CHAT)
    async def diff(
        self, caller: Caller, *, chat: str, files: builtins.list[str], token: str = "", after: int = 0
    ) -> object:
        """Return the changes to the folder that a chat works on, all or those of `files`, page by page.

        `lines` are those of the diff `after` a number of lines; `next` is the `after` of the next page, or 0.
        A next page names the `token` of the first.

        Raises:
            UsageError: The chat is unknown.
            FolderError: The chat works on no folder, or its changes are not those of the first page any more.
        """
        known = await self._known(caller, chat)
        linked = None if self.folders is None else self.folders.linked(known)
        if self.folders is None or linked is None:
            raise FolderError("The chat {chat} works on no folder: it has files of its own.", chat=chat)
        paths = await paths_in(self.folders, known, shlex.join(files))
        found = await self.folders.diff(known, paths)
        if token and found.token != token:
            raise FolderError("The files have changed meanwhile.", "Try again.")
        lines, following = _page(found, max(0, after))
        return {
            "folder": folder_name(linked.folder),
            "token": found.token,
            "files": [
                {
                    "letter": one.file.letter,
                    "path": shown(one.file.path),
                    "conflict": one.file.conflict,
                    "added": one.added,
                    "removed": one.removed,
                }
                for one in counted(found)
            ],
            "left_out": [[shown(path), reason] for path, reason in found.left_out],
            "lines": lines,
            "next": following,
        }

    def _sees(self, caller: Caller, chat: str) -> bool:
        return caller.scope in (None, self.ids.owner_of(chat))

    async def _known(self, caller: Caller, chat: str) -> str:
        check_chat_id(chat)
        # The same error for both, so that a caller cannot find out which chats of others exist.
        if not self._sees(caller, chat) or not await self.ask(knows_chat(chat)):
            raise unknown_chat(chat)
        return chat


def entry_as_json(stored: StoredEntry) -> dict[str, object]:
    """Return the entry as a JSON object, with times in the format of RFC 3339."""
    message = stored.entry.message
    return {
        "id": stored.id,
        "chat": stored.chat,
        "session": stored.session,
        "time": utc(stored.at),
        "turn": stored.entry.turn,
        "role": message.role,
        "text": message.content,
        "tool_calls": [
            {"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls
        ],
        "tool_call_id": message.tool_call_id,
        "tainted": stored.entry.tainted,
        "undone": stored.undone,
    }


def _page(diff: FolderDiff, after: int) -> tuple[list[str], int]:
    """Return the lines of a diff behind the first `after`, as many as fit, and where the next page begins."""
    chars, end = 0, after
    while end < len(diff.lines) and (end == after or chars + len(diff.lines[end]) < PAGE_CHARS):
        chars += len(diff.lines[end]) + 1
        end += 1
    return list(diff.lines[after:end]), end if end < len(diff.lines) else 0


def _before(number: int) -> int:
    return number if number > 0 else MOST_ENTRY
