"""Control-socket calls about chats; requests and answers are JSON objects.

`list` lists the chats. `show` returns the history entries of a `chat` with numbers below `before`. `search`
finds entries with `words` in one `chat` or in all chats, also with numbers below `before`. `delete` deletes a
`chat`. A caller can see and delete the chats of its scope; the owner of the home can see and delete all
chats.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Final

from rumi.errors import UsageError
from rumi.platform.caller import Caller, ControlCall
from rumi.platform.chat_ids import ChatIds, check_chat_id, unknown_chat
from rumi.platform.timestamps import utc
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.history import MOST_ENTRY
from rumi.store.journal.inbox import knows_chat
from rumi.store.journal.reading import list_chats, read_history, search_history
from rumi.store.journal.records import FoundEntries, StoredEntry
from rumi.store.steps import Run

PAGE: Final = 200
"""Maximum number of entries in one answer."""

MOST_CHATS: Final = 10_000


def chat_call(ask: AskJournal, delete: Callable[[str], Awaitable[None]], ids: ChatIds) -> ControlCall:
    """Return the function that answers these control calls. `delete` deletes a chat, but keeps its facts."""

    def sees(caller: Caller, chat: str) -> bool:
        return caller.scope in (None, ids.owner_of(chat))

    async def known(caller: Caller, request: Mapping[str, object]) -> str:
        chat = check_chat_id(str(request.get("chat", "")))
        # The same error for both, so that a caller cannot find out which chats of others exist.
        if not sees(caller, chat) or not await ask(knows_chat(chat)):
            raise unknown_chat(chat)
        return chat

    async def answer(caller: Caller, request: Mapping[str, object]) -> object:
        """Execute a request.

        Raises:
            UsageError: the request is invalid, or the chat is unknown.
            JournalError: `state.db` cannot be used.
        """
        match request.get("do"):
            case "list":
                chats = await ask(list_chats(limit=MOST_CHATS))
                return [
                    asdict(stored_chat) | {"at": utc(stored_chat.at)}
                    for stored_chat in chats
                    if sees(caller, stored_chat.chat)
                ]
            case "show":
                chat = await known(caller, request)
                entries = await ask(read_history(chat, _before(request), PAGE))
                return {"entries": [entry_as_json(entry) for entry in entries]}
            case "search":
                chat = await known(caller, request) if request.get("chat") else ""
                found = await ask(_search(request, chat))
                seen = [entry_as_json(entry) for entry in found.entries if sees(caller, entry.chat)]
                return {"entries": seen, "next": found.next}
            case "delete":
                await delete(await known(caller, request))
                return None
            case _:
                raise UsageError(
                    "The chats do not know this request.", "They can list, show, search and delete."
                )

    return answer


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


def _before(request: Mapping[str, object]) -> int:
    value = request.get("before")
    return value if isinstance(value, int) and value > 0 else MOST_ENTRY


def _search(request: Mapping[str, object], chat: str) -> Run[FoundEntries]:
    words = request.get("words")
    if not isinstance(words, str) or not words.strip():
        raise UsageError("There is nothing to search for.", "Name a word.")
    return search_history(words, chat, before=_before(request))
