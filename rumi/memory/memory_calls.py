"""Control-socket calls about the memory; requests and answers are JSON objects.

Each request concerns one `owner`. `list` lists the facts whose numbers are greater than `after`. `set` stores
a `value` under a `key`; it replaces other facts under the key, unless `also` is true. `forget` deletes the
facts under a `key`. `history` returns the history of a `key`. `extract` extracts facts from the owner's
messages now, even if the session continues. `forget_everything` deletes everything that is stored about the
owner.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Final, TypeAlias

import trio

from rumi.errors import UsageError
from rumi.memory.actor import AskMemory
from rumi.memory.messages import Fact
from rumi.memory.rows import facts_of, forget_key, past_facts, remember_fact
from rumi.memory.writing import checked, folded, written
from rumi.platform.caller import Caller, ControlCall
from rumi.platform.chat_ids import LOCAL, ChatIds
from rumi.platform.timestamps import utc

ExtractForOwner: TypeAlias = Callable[[str], Awaitable[int]]
ForgetAll: TypeAlias = Callable[[str], Awaitable[Mapping[str, int | None]]]

PAGE_CHARS: Final = 100_000
"""Approximate maximum size of a page of a list, which must fit into one message of the control socket."""
EXTRACT_S: Final = 50.0
"""Maximum time that an answer waits for the extraction, in seconds; then it continues in the background."""


def memory_call(
    ask: AskMemory, extract_for_owner: ExtractForOwner, ids: ChatIds, forget_all: ForgetAll | None = None
) -> ControlCall:
    """Return the function that answers these control calls.

    `extract_for_owner` extracts facts; on cancellation the extraction continues in the background. `ids` maps
    chats to owners; `forget_all` deletes everything that is stored about an owner.
    """

    async def answer(caller: Caller, request: Mapping[str, object]) -> object:
        """Execute a request.

        Raises:
            UsageError: the request is invalid.
            FactRefused: the fact is not stored. The error gives the reason.
            MemoryUnavailable: the memory cannot be used.
        """
        owner = caller.owner_in(ids.owner(request["owner"]) if "owner" in request else None)
        match request.get("do"):
            case "list":
                return await _list(ask, owner, request.get("after"))
            case "set":
                also = request.get("also") is True
                return await _set(ask, owner, _text(request, "key"), _text(request, "value"), also)
            case "history":
                return await _history(ask, owner, _text(request, "key"))
            case "forget_everything" if forget_all is not None:
                return {"deleted": dict(await forget_all(owner))}
            case "forget":
                key = _text(request, "key")
                return {"key": written(key), "forgotten": await ask(forget_key(owner, key))}
            case "extract":
                return await _extract(extract_for_owner, owner)
            case _:
                raise UsageError(
                    "The memory does not know this request.",
                    "It can list, set, forget, extract, history and forget_everything.",
                )

    return answer


def check(request: Mapping[str, object], ids: ChatIds) -> None:
    """Check the owner, key and value of a request.

    Raises:
        UsageError: the request is invalid.
    """
    ids.owner(request.get("owner", LOCAL))
    for name in {"key", "value"} & request.keys():
        _text(request, name)


async def _list(ask: AskMemory, owner: str, after: object) -> object:
    facts = await ask(facts_of(owner))
    start = after if isinstance(after, int) and after > 0 else 0
    page: list[dict[str, object]] = []
    size = 0
    for fact in facts[start:]:
        size += len(fact.key) + len(fact.value) + 200
        if page and size > PAGE_CHARS:
            break
        page.append(fact_as_json(owner, fact))
    return {"facts": page, "all": len(facts)}


async def _set(ask: AskMemory, owner: str, key: str, value: str, also: bool) -> object:
    fact = checked(key, value)
    others = await ask(remember_fact(owner, fact, also=also))
    return {"key": fact.key, "value": fact.value, "others": [other.value for other in others]}


async def _history(ask: AskMemory, owner: str, key: str) -> object:
    past = await ask(past_facts(owner, key))
    now = [fact for fact in await ask(facts_of(owner)) if folded(fact.key) == folded(key)]
    return [
        *({**fact_as_json(owner, past_fact.fact), "ended": utc(past_fact.ended)} for past_fact in past),
        *({**fact_as_json(owner, fact), "ended": None} for fact in now),
    ]


async def _extract(extract_for_owner: ExtractForOwner, owner: str) -> object:
    new_facts = None
    with trio.move_on_after(EXTRACT_S):
        new_facts = await extract_for_owner(owner)
    return {"learned": new_facts}


def fact_as_json(owner: str, fact: Fact) -> dict[str, object]:
    """Return the fact as a JSON object, with times in the format of RFC 3339."""
    return {"owner": owner, **asdict(fact), "created": utc(fact.created), "updated": utc(fact.updated)}


def _text(request: Mapping[str, object], name: str) -> str:
    text = request.get(name)
    if not isinstance(text, str) or not written(text):
        raise UsageError("The {name} cannot be empty.", name=name)
    return text
