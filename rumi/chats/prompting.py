"""What a turn begins with: its instructions, and as much of the history as there is room for."""

from collections.abc import Sequence
from datetime import datetime

from rumi.agent import Confirm, Surroundings, TurnInput, build_prompt, complete
from rumi.chats.conversation import Conversation
from rumi.chats.history import window
from rumi.chats.knowing import Known
from rumi.chats.means import Means
from rumi.chats.summing import shown
from rumi.models import Message, ModelRequest, request_tokens
from rumi.texts import Language
from rumi.tools import Tool

HISTORY_SHARE = 0.5
"""How much of the model's context the history may take at the most."""

PROMPT_SHARE = 0.7
"""How much of it all that a turn begins with may take: the rest is for its results, and the reply."""

LEAST_ROOM = 256
"""How many tokens there are for history, whatever else is in the prompt."""


def turn_input(
    means: Means,
    chat: str,
    conversation: Conversation,
    known: Known,
    tools: Sequence[Tool],
    language: Language,
    confirm: Confirm,
) -> TurnInput:
    """Everything that the turn works with whose question is the history's last message."""
    limits = means.limits
    instructions = build_prompt(
        tools=[tool.spec for tool in tools],
        around=Surroundings(
            today=datetime.fromtimestamp(means.now()).astimezone().date(),
            chat=chat,
            max_turns=limits.turn.max_turns,
            timeout_s=limits.turn.timeout_s,
            command_timeout_s=limits.command_timeout_s,
        ),
        memory=known.memory,
        skills=known.skills,
    )
    before = (shown(conversation.summary),) if conversation.summary is not None else ()
    first = ModelRequest(
        (Message("system", instructions), *before), tuple(tool.spec for tool in tools)
    )  # which stands in every prompt
    conversation.room = min(
        int(limits.context_tokens * HISTORY_SHARE),
        max(LEAST_ROOM, int(limits.context_tokens * PROMPT_SHARE) - request_tokens(first)),
    )
    kept = window(conversation.entries, max_messages=limits.history_messages, max_tokens=conversation.room)
    return TurnInput(
        instructions=instructions,
        history=(*before, *complete([entry.message for entry in kept])),
        model=means.model_for(chat, language),
        tools=tools,
        limits=limits.turn,
        language=language,
        context_tokens=limits.context_tokens,
        tainted=conversation.tainted,
        given=conversation.given,
        confirm=confirm,
    )
