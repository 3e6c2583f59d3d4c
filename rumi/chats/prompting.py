"""What a turn begins with: its instructions, and the history.

A prompt begins with all of the one before. Only a summary, or a cut where there is none, makes a new
beginning; see `rumi.chats.history`.
"""

import logging
from collections.abc import Sequence

from rumi.agent import Confirm, Surroundings, TurnInput, build_prompt, complete
from rumi.chats.history import HistoryRoom
from rumi.chats.noting import shown as shown_entries
from rumi.chats.services import ChatServices
from rumi.chats.session import ChatSession
from rumi.chats.summing import shown
from rumi.models import Message, Model, ModelRequest, context_of, prompt_share, request_tokens
from rumi.texts import Language
from rumi.tools import Tool

logger = logging.getLogger(__name__)


async def make_room(
    services: ChatServices, chat: str, chat_session: ChatSession, tools: Sequence[Tool], language: Language
) -> None:
    """Cut the history where no summary came in time, so that the turn has room; otherwise do nothing."""
    chat_session.room = _room(services, chat, chat_session, tools, services.model_for(chat, language))
    gone = chat_session.room.too_long(chat_session.entries)
    if gone:
        logger.info("chat %s: %d entries of its history are left out of prompts", chat, len(gone))
        await chat_session.cut(gone)


def turn_input(
    services: ChatServices,
    chat: str,
    chat_session: ChatSession,
    tools: Sequence[Tool],
    language: Language,
    confirm: Confirm,
) -> TurnInput:
    """Everything that the turn works with whose question is the history's last message."""
    model = services.model_for(chat, language)
    chat_session.room = _room(services, chat, chat_session, tools, model)
    instructions, before, messages = _parts(services, chat, chat_session, tools)
    return TurnInput(
        instructions=instructions,
        history=(*before, *complete(messages)),
        model=model,
        tools=tools,
        limits=services.limits.turn,
        language=language,
        context_tokens=services.limits.context_tokens,
        tainted=chat_session.tainted,
        given=chat_session.given,
        confirm=confirm,
        shortened=chat_session.shorten,
    )


def _room(
    services: ChatServices, chat: str, chat_session: ChatSession, tools: Sequence[Tool], model: Model
) -> HistoryRoom:
    """The room for prompts, and what of it is taken before any history."""
    limits = services.limits
    instructions, before, _ = _parts(services, chat, chat_session, tools)
    first = ModelRequest((Message("system", instructions), *before), tuple(tool.spec for tool in tools))
    room = prompt_share(context_of(model, limits.context_tokens))
    return HistoryRoom(room, request_tokens(first), limits.history_messages)


def _parts(
    services: ChatServices, chat: str, chat_session: ChatSession, tools: Sequence[Tool]
) -> tuple[str, tuple[Message, ...], tuple[Message, ...]]:
    """Instructions with the note on what holds, the summary if there is one, and what was said since."""
    limits = services.limits
    around = Surroundings(
        chat=chat,
        max_turns=limits.turn.max_turns,
        timeout_s=limits.turn.timeout_s,
        command_timeout_s=limits.command_timeout_s,
    )
    holds, messages = shown_entries(chat_session.entries)
    instructions = build_prompt(tools=[tool.spec for tool in tools], around=around, holds=holds)
    before = (shown(chat_session.summary),) if chat_session.summary is not None else ()
    return instructions, before, messages
