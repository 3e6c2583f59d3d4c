"""Control calls about chats."""

import builtins
import shlex
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from secrets import choice
from string import ascii_lowercase, digits
from typing import Final, Literal

from rumi.agent.prompts.message_entries import without_note
from rumi.chats.events import TurnState
from rumi.chats.exporting import entries_markdown, lists_markdown
from rumi.chats.folder_changes import counted, paths_in
from rumi.chats.folders import ChatFolders, FolderError
from rumi.chats.hub import Hub
from rumi.chats.message_calls import MessageCalls
from rumi.errors import UsageError
from rumi.platform.caller import Caller
from rumi.platform.calls import CHAT, call
from rumi.platform.excerpts import excerpt, marks_in
from rumi.platform.markdown import stripped
from rumi.platform.openat import shown
from rumi.platform.texts.folders import folder_name
from rumi.platform.timestamps import utc
from rumi.store.journal.filing import (
    archive_chat,
    chat_lines,
    find_titles,
    name_chat,
    pin_chat,
    titles_of,
)
from rumi.store.journal.history import MOST_ENTRY
from rumi.store.journal.inbox import knows_chat
from rumi.store.journal.lists import ListItem, items_of, lists_of
from rumi.store.journal.reading import list_chats, read_history, read_onward, search_history
from rumi.store.journal.records import ChatLine, StoredChat, StoredEntry
from rumi.store.journal.reopening import list_sessions
from rumi.texts import Language

PAGE: Final = 200
"""Maximum number of entries in one answer."""

MOST_CHATS: Final = 10_000

MOST_SESSIONS: Final = 200
"""Maximum number of sessions in one answer."""

MOST_TITLE: Final = 100
"""Maximum length of a chat's title, in characters."""

ID_LETTERS: Final = ascii_lowercase + digits
ID_CHARS: Final = 8
"""Letters and length of the ids of new chats, after `c-`."""

PAGE_CHARS: Final = 400_000
"""Maximum number of characters of a diff in one answer; a longer line is an answer of its own."""


@dataclass(frozen=True, slots=True)
class ChatCalls(MessageCalls):
    """The control calls about chats. A caller sees and deletes only chats of owners in its scope.

    `remove` deletes a chat, but keeps its facts. `folders` are the folders that chats work on. `hub` knows
    what chats do now; None if no Rumi runs.
    """

    remove: Callable[[str], Awaitable[None]]
    folders: ChatFolders | None = None
    hub: Hub | None = None

    @call("chats.list")
    async def list(
        self, caller: Caller, *, limit: int = 0, before: int = 0, archived: bool | None = None
    ) -> object:
        """Return the chats, latest first; those that are pinned, or only those that are `archived` or not.

        A `limit` bounds the chats that are not pinned; the `number` of the last one is the `before` of the
        next page, which has no pinned ones. `text` is what was said last, `by` you or the assistant. `state`
        is "works", "asks" or "idle"; `unread` counts replies that nobody has received, `waiting` calls that
        wait for a yes.
        """
        known = await self.ask(list_chats(limit=MOST_CHATS))
        known = tuple(one for one in known if archived in (None, one.archived))
        mine = [one for one in known if self._sees(caller, one.chat)]
        rest = [one for one in mine if not one.pinned and one.last < _before(before)]
        shown = [one for one in mine if one.pinned and before <= 0] + (rest[:limit] if limit > 0 else rest)
        lines = dict[str, ChatLine]()
        for start in range(0, len(shown), PAGE):  # other requests come between two parts
            part = tuple(one.chat for one in shown[start : start + PAGE])
            lines |= await self.ask(chat_lines(part))
        return [self._listed(one, lines[one.chat]) for one in shown]

    def _listed(self, stored: StoredChat, line: ChatLine) -> dict[str, object]:
        return {
            "chat": stored.chat,
            "title": stored.title,
            "automatic": stored.automatic,
            "pinned": stored.pinned,
            "archived": stored.archived,
            "at": utc(stored.at),
            "number": stored.last,
            "text": stripped(line.text),
            "by": line.by,
            "unread": line.unread,
            "session": line.session,
            "waiting": line.waiting,
            "state": "idle" if self.hub is None else state_of(self.hub.turn(stored.chat)),
        }

    @call("chats.new")
    async def new(self, caller: Caller) -> object:
        """Return a free id for a new chat. The chat exists as soon as something is said in it."""
        while True:
            chat = f"c-{''.join(choice(ID_LETTERS) for _ in range(ID_CHARS))}"
            if not await self.ask(knows_chat(chat)):
                return {"chat": chat}

    @call("chats.rename", key=CHAT)
    async def rename(self, caller: Caller, *, chat: str, title: str) -> object:
        """Set the title of a chat; an empty title removes it. The answer has the title as it is stored.

        Raises:
            UsageError: The chat is unknown, or the title is too long.
        """
        known = await self._known(caller, chat)
        shown = " ".join("".join(c if c.isprintable() else " " for c in title).split())
        if len(shown) > MOST_TITLE:
            raise UsageError("The title is longer than {most} characters.", most=MOST_TITLE)
        await self.ask(name_chat(known, shown))
        return {"title": shown}

    @call("chats.pin", key=CHAT)
    async def pin(self, caller: Caller, *, chat: str, pinned: bool = True) -> None:
        """Pin a chat to the top of lists, or unpin it."""
        await self.ask(pin_chat(await self._known(caller, chat), pinned))

    @call("chats.archive", key=CHAT)
    async def archive(self, caller: Caller, *, chat: str, archived: bool = True) -> None:
        """Archive a chat, or take it out of the archive. Nothing is deleted."""
        await self.ask(archive_chat(await self._known(caller, chat), archived))

    @call("chats.export")
    async def export(
        self,
        caller: Caller,
        *,
        chat: str,
        form: Literal["markdown", "json"] = "markdown",
        after: int = 0,
        language: Language | None = None,
    ) -> object:
        """Return what was said in a chat, oldest first, page by page; the last page has its lists.

        `next` is the `after` of the next page, 0 after the last. In the form "markdown" a page is a `text`,
        in the form "json" it has `entries` and `lists`.

        Raises:
            UsageError: The chat is unknown.
        """
        known, after = await self._known(caller, chat), max(0, after)
        entries = await self.ask(read_onward(known, after, PAGE + 1))
        following = entries[PAGE - 1].id if len(entries) > PAGE else 0
        entries = entries[:PAGE]
        lists = () if following else await self._lists_of(known)
        if form == "json":
            return {
                "entries": [entry_as_json(entry) for entry in entries],
                "lists": [_list_as_json(name, items) for name, items in lists],
                "next": following,
            }
        language = language or "en"
        earlier = await self.ask(read_history(known, after + 1, 1)) if after else ()
        head = "" if after else f"# {known}\n"
        body = entries_markdown(language, entries, earlier[0].session if earlier else None)
        return {"text": head + body + lists_markdown(language, lists), "next": following}

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
        found = await self._lists_of(await self._known(caller, chat))
        return {"lists": [_list_as_json(name, items) for name, items in found]}

    async def _lists_of(self, chat: str) -> Sequence[tuple[str, tuple[ListItem, ...]]]:
        return [
            (entry.name, await self.ask(items_of(chat, entry.name)))
            for entry in await self.ask(lists_of(chat))
        ]

    @call("chats.search")
    async def search(self, caller: Caller, *, words: str, chat: str = "", before: int = 0) -> object:
        """Return entries with all `words`, of one `chat` or of all; `next` is the `before` of the next page.

        Each has the title of its chat, an `excerpt` with the `marks` of the words in it, as beginnings and
        ends in units of UTF-16, and the `entry` of a page that shows it: `m12` for the message 12, `t12` for
        the answer to it. The first page also has the chats whose titles have all words, as `titles`.

        Raises:
            UsageError: There are no words, or the chat is unknown.
        """
        known = await self._known(caller, chat) if chat else ""
        if not words.strip():
            raise UsageError("There is nothing to search for.", "Name a word.")
        found = await self.ask(search_history(words, known, before=_before(before)))
        seen = [entry for entry in found.entries if self._sees(caller, entry.chat)]
        listed = await self.ask(titles_of(tuple({entry.chat for entry in seen})))
        named = () if chat or before > 0 else await self.ask(find_titles(words))
        return {
            "entries": [found_as_json(entry, words, listed.get(entry.chat, "")) for entry in seen],
            "titles": [
                {"chat": name, "title": title, "marks": marks_in(title, words)}
                for name, title in named
                if self._sees(caller, name)
            ],
            "next": found.next,
        }

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
        lines, following = page_of_lines(found.lines, max(0, after))
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


def state_of(turn: TurnState) -> Literal["works", "asks", "idle"]:
    """Return what a chat does now, as lists of chats show it."""
    if turn.question is not None:
        return "asks"
    works = turn.queued or (turn.turn and turn.finished is None)
    return "works" if works else "idle"


def page_entry(stored: StoredEntry) -> str:
    """Return the id of the page's entry that shows a stored entry; empty if none does."""
    turn, role = stored.entry.turn, stored.entry.message.role
    number = turn.removeprefix("t")
    return f"{'m' if role == 'user' else 't'}{number}" if number.isdecimal() else ""


def found_as_json(stored: StoredEntry, words: str, title: str) -> dict[str, object]:
    """Return an entry that a search has found as a JSON object, with what a list of hits shows."""
    shown = excerpt(stored.entry.message.content, words)
    return entry_as_json(stored) | {
        "entry": page_entry(stored),
        "title": title,
        "excerpt": shown.text,
        "marks": shown.marks,
    }


def _list_as_json(name: str, items: Sequence[ListItem]) -> dict[str, object]:
    return {"list": name, "items": [asdict(item) for item in items]}


def entry_as_json(stored: StoredEntry) -> dict[str, object]:
    """Return the entry as a JSON object, with times in the format of RFC 3339.

    A user's text is as the user wrote it. What only the program says to the model has the role `system`.
    """
    message = stored.entry.message
    role, text = message.role, message.content
    if role == "user":
        text = without_note(text)
        role, text = ("user", text) if text else ("system", message.content)
    return {
        "id": stored.id,
        "chat": stored.chat,
        "session": stored.session,
        "time": utc(stored.at),
        "turn": stored.entry.turn,
        "role": role,
        "text": text,
        "tool_calls": [
            {"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls
        ],
        "tool_call_id": message.tool_call_id,
        "tainted": stored.entry.tainted,
        "undone": stored.undone,
    }


def page_of_lines(of: Sequence[str], after: int) -> tuple[list[str], int]:
    """Return the lines of a diff behind the first `after`, as many as fit, and where the next page begins."""
    chars, end = 0, after
    while end < len(of) and (end == after or chars + len(of[end]) < PAGE_CHARS):
        chars += len(of[end]) + 1
        end += 1
    return list(of[after:end]), end if end < len(of) else 0


def _before(number: int) -> int:
    return number if number > 0 else MOST_ENTRY
