"""Control calls about the memory."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Final, TypeAlias

import trio
from pydantic import AfterValidator, ValidationInfo

from rumi.errors import UsageError
from rumi.memory.actor import AskMemory
from rumi.memory.messages import Fact
from rumi.memory.rows import facts_of, forget_key, past_facts, remember_fact
from rumi.memory.writing import checked, folded, written
from rumi.platform.caller import Caller
from rumi.platform.calls import PartitionKey, call, declared_in
from rumi.platform.chat_ids import LOCAL, ChatIds
from rumi.platform.timestamps import utc
from rumi.platform.unaccented import unaccented

ExtractForOwner: TypeAlias = Callable[[str], Awaitable[int]]
ForgetAll: TypeAlias = Callable[[str], Awaitable[Mapping[str, int | None]]]

PAGE_CHARS: Final = 100_000
"""Approximate maximum size of a page of a list, which must fit into one message of the control socket."""
EXTRACT_S: Final = 50.0
"""Maximum time that an answer waits for the extraction, in seconds; then it continues in the background."""


def _filled(text: str, info: ValidationInfo) -> str:
    """Return the text of a request's field unchanged.

    Raises:
        UsageError: The text is empty.
    """
    if not written(text):
        raise UsageError("The {name} cannot be empty.", name=info.field_name)
    return text


FilledText: TypeAlias = Annotated[str, AfterValidator(_filled)]


@dataclass(frozen=True, slots=True)
class MemoryCalls:
    """The control calls about the memory. Each request concerns one `owner`, by default the caller's.

    `extract_for_owner` extracts facts; on cancellation the extraction continues in the background.
    `forget_all` deletes everything that is stored about an owner. `ids` maps chats to owners.
    """

    ask: AskMemory
    ids: ChatIds
    extract_for_owner: ExtractForOwner | None = None
    forget_all: ForgetAll | None = None

    @call("memory.list")
    async def list(self, caller: Caller, *, owner: str | None = None, after: int = 0) -> object:
        """Return a page of the facts whose numbers are greater than `after`, and the number of all facts."""
        of = self._owner(caller, owner)
        facts = await self.ask(facts_of(of))
        return {"facts": _page(of, facts[max(after, 0) :]), "all": len(facts)}

    @call("memory.search")
    async def search(self, caller: Caller, *, words: FilledText, owner: str | None = None) -> object:
        """Return the facts with all `words` in their key or value, and the number of these facts.

        Case and accents do not matter. Of many facts, only the first are returned.
        """
        of, wanted = self._owner(caller, owner), _plain(words).split()
        found = [
            fact
            for fact in await self.ask(facts_of(of))
            if all(word in _plain(f"{fact.key} {fact.value}") for word in wanted)
        ]
        return {"facts": _page(of, found), "all": len(found)}

    @call("memory.set")
    async def set(
        self,
        caller: Caller,
        *,
        key: FilledText,
        value: FilledText,
        owner: str | None = None,
        also: bool = False,
    ) -> object:
        """Store a `value` under a `key`. It replaces other values under the key, unless `also` is true."""
        fact = checked(key, value)
        others = await self.ask(remember_fact(self._owner(caller, owner), fact, also=also))
        return {"key": fact.key, "value": fact.value, "others": [other.value for other in others]}

    @call("memory.history")
    async def history(self, caller: Caller, *, key: FilledText, owner: str | None = None) -> object:
        """Return the past and present facts under a `key`."""
        of = self._owner(caller, owner)
        past = await self.ask(past_facts(of, key))
        now = [fact for fact in await self.ask(facts_of(of)) if folded(fact.key) == folded(key)]
        return [
            *({**fact_as_json(of, past_fact.fact), "ended": utc(past_fact.ended)} for past_fact in past),
            *({**fact_as_json(of, fact), "ended": None} for fact in now),
        ]

    @call("memory.forget")
    async def forget(self, caller: Caller, *, key: FilledText, owner: str | None = None) -> object:
        """Delete the facts under a `key`."""
        forgotten = await self.ask(forget_key(self._owner(caller, owner), key))
        return {"key": written(key), "forgotten": forgotten}

    @call("memory.extract", key=PartitionKey("owner", default=LOCAL))
    async def extract(self, caller: Caller, *, owner: str | None = None) -> object:
        """Extract facts from the owner's messages now, even if the session continues."""
        assert self.extract_for_owner is not None, "only a complete app can extract facts"
        new_facts = None
        with trio.move_on_after(EXTRACT_S):
            new_facts = await self.extract_for_owner(self._owner(caller, owner))
        return {"learned": new_facts}

    @call("memory.forget_everything")
    async def forget_everything(self, caller: Caller, *, owner: str | None = None) -> object:
        """Delete everything that is stored about the owner."""
        assert self.forget_all is not None, "only a complete app can forget everything"
        return {"deleted": dict(await self.forget_all(self._owner(caller, owner)))}

    def _owner(self, caller: Caller, owner: str | None) -> str:
        return caller.owner_in(None if owner is None else self.ids.owner(owner))


def check(request: Mapping[str, object], ids: ChatIds) -> None:
    """Check the fields of a request.

    Raises:
        UsageError: the request is invalid.
    """
    declared_in(MemoryCalls)[f"memory.{request['do']}"].arguments(request)
    ids.owner(request.get("owner", LOCAL))


def _page(owner: str, facts: Sequence[Fact]) -> list[dict[str, object]]:
    """Return the first facts as JSON, as many as fit into an answer, and at least one."""
    page: list[dict[str, object]] = []
    size = 0
    for fact in facts:
        size += len(fact.key) + len(fact.value) + 200
        if page and size > PAGE_CHARS:
            break
        page.append(fact_as_json(owner, fact))
    return page


def _plain(text: str) -> str:
    return unaccented(text).casefold()


def fact_as_json(owner: str, fact: Fact) -> dict[str, object]:
    """Return the fact as a JSON object, with times in the format of RFC 3339."""
    return {"owner": owner, **asdict(fact), "created": utc(fact.created), "updated": utc(fact.updated)}
