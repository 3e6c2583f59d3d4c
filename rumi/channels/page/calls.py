"""Control calls that the page's visitor makes: `POST /call` with the fields that `docs/calls.md` lists."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, Protocol, TypeAlias

from pydantic import Field

from actors import ActorError
from rumi.channels.page.rendering.blocks import blocks_of
from rumi.channels.page.talks import Talk
from rumi.errors import RumiError
from rumi.platform.caller import Caller, ControlCall, Rights
from rumi.platform.calls import Declaration, answer, call, declared_in, lookup
from rumi.platform.chat_ids import LOCAL
from rumi.platform.threads import Offload
from rumi.texts import Language

logger = logging.getLogger(__name__)

NEVER: Final = frozenset({"make_way", "status"})
"""Calls that the page does not make. `make_way` would end the process that serves the page. `status` returns
the dump of all owners; the page's board shows it without what belongs to other owners.
"""

FROM_SERVER: Final = frozenset({"caller", "passed", "away"})
"""Fields that only the server may add to a request."""


MOST_RENDERED: Final = 200_000
"""Maximum characters of a text that the page has rendered at once."""

RenderedText: TypeAlias = Annotated[str, Field(max_length=MOST_RENDERED)]


WITH_ALL_RIGHTS: Final = frozenset({"usage", "budgets.list", "stop"})
"""Calls that are made with the rights `all` although they need them only for a part of their work.

The figures of `usage` and `budgets.list` are the home's costs, and contain nothing that was said. `stop`
stops everything only with these rights.
"""


class UnknownCall(Exception):
    """No such call is available to the page."""


class CallFailed(Exception):
    """The call failed because of a bug or an unreachable actor. The log says why."""


class OpenChats(Protocol):
    """The chats that the page's visitor may open."""

    def talk(self, chat: str) -> Talk:
        """Return the followed chat. Raises `UsageError` if it is not the visitor's."""
        ...


@dataclass(frozen=True, slots=True)
class PageModels:
    """The calls about the model that a chat uses on the page, as `/model` in a terminal.

    The choice belongs to the page, and not to the chat: a terminal has its own. After a restart, a chat goes
    on with the model of the last message that the page has sent into it.
    """

    chats: OpenChats

    @call("models.chosen")
    async def chosen(self, caller: Caller, *, chat: str) -> object:
        """Return the model that works on the page's messages of a chat."""
        talk = self.chats.talk(chat)
        await talk.begin()
        return {"chat": chat, "model": talk.chat.model}

    @call("models.use")
    async def use(self, caller: Caller, *, chat: str, model: str) -> object:
        """Use this model, a name or an alias, for the page's messages of a chat from now on; return it.

        Raises:
            RumiError: The model cannot be used.
        """
        talk = self.chats.talk(chat)
        await talk.begin()
        await talk.chat.use_model(model)
        return {"chat": chat, "model": talk.chat.model}


@dataclass(frozen=True, slots=True)
class PageTexts:
    """The call that renders Markdown from the results of other calls, such as a research's answer."""

    offload: Offload

    @call("render")
    async def render(self, caller: Caller, *, text: RenderedText) -> object:
        """Return the blocks of a Markdown text, with offsets in it, as entries of a chat have them."""
        return {"blocks": [block.form() for block in await self.offload(partial(blocks_of, text))]}


@dataclass(frozen=True, slots=True)
class VisitorCalls:
    """The control calls that are available to the page's visitor.

    `calls` answer requests, at the worker that a request concerns; `declared` has the declarations of all
    calls and streams by name. Both are what the control socket serves. The parts in `own` answer the calls
    that only the page has.

    The page's visitor has opened a login link that only the home's owner gets, so the visitor is the owner.
    Calls that are declared with the rights `all` get these rights, and so do those in `WITH_ALL_RIGHTS`. All
    other calls get the rights `own`, so that the page shows no rows of other owners by accident.
    """

    calls: Mapping[str, ControlCall]
    declared: Mapping[str, Declaration]
    own: Sequence[object] = ()

    async def make(self, request: Mapping[str, object], channel: str, language: Language) -> dict[str, Any]:
        """Make the call that a request names; return its result or its refusal as a JSON object.

        A request without a `language` gets `language`. Errors are in that language.

        Raises:
            UnknownCall: The request names no call that is available here.
            CallFailed: The call failed because of a bug or an unreachable actor.
        """
        called = request.get("call")
        name = called if isinstance(called, str) else ""
        declared, made = lookup(self.declared, name, request), self.calls.get(name)
        for part in self.own:
            if found := lookup(declared_in(type(part)), name, request):
                declared, made = found, partial(answer, part, name)
        if declared is None or declared.stream or name in NEVER or made is None:
            raise UnknownCall
        given = {key: value for key, value in request.items() if key not in FROM_SERVER}
        if given.get("language") is None:
            given["language"] = language
        try:
            rights: Rights = "all" if declared.name in WITH_ALL_RIGHTS else declared.rights
            result = await made(Caller(channel, LOCAL, rights), given)
        except RumiError as error:
            return {
                "ok": False,
                "error": error.message.in_language(language),
                "advice": error.advice.in_language(language),
            }
        except ActorError as error:
            raise CallFailed from error
        except Exception as error:
            logger.error("the control call %s failed", declared.name, exc_info=error)
            raise CallFailed from error
        return {"ok": True, "result": result}
