"""What is known about the user, and which skills there are: for a turn, and for themselves."""

import logging
from dataclasses import dataclass
from datetime import datetime

import trio

from actors import ActorError
from rumi import texts
from rumi.chats.noting import Told, note
from rumi.chats.services import ChatServices
from rumi.errors import RumiError
from rumi.memory import Block, Facts, memory_block, memory_command
from rumi.models import context_of
from rumi.skills import ForPrompt, skills_block, skills_command
from rumi.texts import Language

logger = logging.getLogger(__name__)

FACTS_S = SKILLS_S = 5.0
"""How long a turn waits for the memory, and for the skills. Without them it is as on the first day."""

FACTS_TOKENS = 2000
FACTS_SHARE = 1 / 8
"""How much the facts may take: so many tokens, and no more than that of a small model's context."""

SKILLS_SHARE = 1 / 6
"""How much of a model's context the skills may take: one that takes little gets shorter descriptions."""


@dataclass(frozen=True, slots=True)
class Known:
    """A note for the prompt on the date, facts about the user, and skills; empty where all of it is told.

    `tainted`: the prompt shows words of strangers, in this note or in one before.
    """

    note: str
    tainted: bool


async def what_is_known(
    services: ChatServices, chat: str, language: Language, said: str, told: Told
) -> Known:
    """Return what a turn about what was `said` is told, besides what it is `told` already. Never raises.

    What does not answer is left out, and told when it does.
    """
    tokens = context_of(services.model_for(chat, language), services.limits.context_tokens)
    facts = await _facts(services, chat, language, tokens, told)
    skills, outside = await _skills(services, chat, said, tokens, told)
    today = datetime.fromtimestamp(services.now()).astimezone().date()
    return Known(note(told, today, facts.text, skills), facts.tainted or outside)


async def _facts(
    services: ChatServices, chat: str, language: Language, context_tokens: int, told: Told
) -> Block:
    if services.memory is None:
        return Block()
    try:
        with trio.move_on_after(FACTS_S):
            facts = await services.memory(Facts(services.ids.owner_of(chat)))
            most = min(FACTS_TOKENS, int(context_tokens * FACTS_SHARE))
            return memory_block(
                language, facts, max_facts=services.limits.max_facts, max_tokens=most, told=told.facts
            )
        logger.warning("chat %s: a turn without facts: the memory is silent", chat)
    except RumiError as error:
        logger.warning("chat %s: a turn without facts: %s", chat, error)
    return Block()


async def _skills(
    services: ChatServices, chat: str, query: str, context_tokens: int, told: Told
) -> tuple[str, bool]:
    limits = services.limits
    if services.skills is None or limits.max_skills < 1:
        return "", False
    try:
        with trio.move_on_after(SKILLS_S):
            found = await services.skills(ForPrompt(query, limits.max_skills, tuple(told.skills or ())))
            most = int(context_tokens * SKILLS_SHARE)
            return skills_block(found, most, told.skills), found.outside
        logger.warning("chat %s: a turn without skills: nobody says which there are", chat)
    except (RumiError, ActorError) as error:
        logger.warning("chat %s: a turn without skills: %s", chat, error)
    return "", False


async def about_memory(services: ChatServices, chat: str, language: Language, rest: str) -> str:
    """Do what stands behind `/memory`; the reply, in Markdown. It waits no longer than a turn would."""
    if services.memory is None:
        return texts.not_yet(language, "/memory")
    try:
        with trio.move_on_after(FACTS_S):
            return await memory_command(services.memory, services.ids.owner_of(chat), language, rest)
    except RumiError as error:
        return f"❌ {texts.told_error(language, error)}"
    return f"❌ {texts.told(language, 'The memory does not answer. Try again in a moment.')}"


async def about_skills(services: ChatServices, language: Language, rest: str) -> str:
    """Do what stands behind `/skills`; the reply, in Markdown."""
    if services.skills is None:
        return texts.not_yet(language, "/skills")
    try:
        with trio.move_on_after(SKILLS_S):
            return await skills_command(services.skills, language, rest)
    except (RumiError, ActorError) as error:
        logger.warning("the skills do not answer: %s", error)
    return f"❌ {texts.told(language, 'The skills do not answer. Try again in a moment.')}"
