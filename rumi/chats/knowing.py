"""What is known about the user, and which skills there are: for a turn, and for themselves."""

import logging
from dataclasses import dataclass

import trio

from actors import ActorError
from rumi import texts
from rumi.chats.means import Means
from rumi.errors import RumiError
from rumi.memory import Block, Facts, memory_block, memory_command, owner_of
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
    """Blocks for the prompt: facts about the user, and skills. `tainted`: one has the words of strangers."""

    memory: str
    skills: str
    tainted: bool


async def what_is_known(means: Means, chat: str, language: Language, said: str) -> Known:
    """What a turn about what was `said` is told; nothing of what does not answer. Never raises."""
    facts = await _facts(means, chat, language)
    skills, outside = await _skills(means, chat, said)
    return Known(facts.text, skills, facts.tainted or outside)


async def _facts(means: Means, chat: str, language: Language) -> Block:
    if means.memory is None:
        return Block()
    try:
        with trio.move_on_after(FACTS_S):
            facts = await means.memory(Facts(owner_of(chat)))
            most = min(FACTS_TOKENS, int(means.limits.context_tokens * FACTS_SHARE))
            return memory_block(language, facts, max_facts=means.limits.max_facts, max_tokens=most)
        logger.warning("chat %s: a turn without facts: the memory is silent", chat)
    except RumiError as error:
        logger.warning("chat %s: a turn without facts: %s", chat, error)
    return Block()


async def _skills(means: Means, chat: str, query: str) -> tuple[str, bool]:
    limits = means.limits
    if means.skills is None or limits.max_skills < 1:
        return "", False
    try:
        with trio.move_on_after(SKILLS_S):
            found = await means.skills(ForPrompt(query, limits.max_skills))
            return skills_block(found, int(limits.context_tokens * SKILLS_SHARE)), found.outside
        logger.warning("chat %s: a turn without skills: nobody says which there are", chat)
    except (RumiError, ActorError) as error:
        logger.warning("chat %s: a turn without skills: %s", chat, error)
    return "", False


async def about_memory(means: Means, chat: str, language: Language, rest: str) -> str:
    """Do what stands behind `/memory`; the reply, in Markdown. It waits no longer than a turn would."""
    if means.memory is None:
        return texts.not_yet(language, "/memory")
    try:
        with trio.move_on_after(FACTS_S):
            return await memory_command(means.memory, owner_of(chat), language, rest)
    except RumiError as error:
        return f"❌ {error}"
    return "❌ The memory does not answer. Try again in a moment."


async def about_skills(means: Means, language: Language, rest: str) -> str:
    """Do what stands behind `/skills`; the reply, in Markdown."""
    if means.skills is None:
        return texts.not_yet(language, "/skills")
    try:
        with trio.move_on_after(SKILLS_S):
            return await skills_command(means.skills, language, rest)
    except (RumiError, ActorError) as error:
        logger.warning("the skills do not answer: %s", error)
    return "❌ The skills do not answer. Try again in a moment."
