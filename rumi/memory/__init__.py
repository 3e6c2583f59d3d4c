"""Memory: facts that last, each with one owner, and their extraction from a session."""

from rumi.chat_ids import LOCAL
from rumi.memory.actor import Ask, Memory, asking, asking_for_turn, open_memory
from rumi.memory.block import Block, escaped, memory_block, told_facts
from rumi.memory.command import memory_command
from rumi.memory.dates import SMALL_NUMBERS
from rumi.memory.extractor import Extracted, extract
from rumi.memory.filter import asks_to_forget, asks_to_remember
from rumi.memory.schema import MEMORY
from rumi.memory.serving import check, memory_calls
from rumi.memory.types import (
    MAX_FACTS,
    Fact,
    FactRefused,
    Facts,
    Forget,
    ForgetOwner,
    Learn,
    Learned,
    MemoryMessage,
    MemoryUnavailable,
    NewFact,
    PastFact,
    PastFacts,
    Remember,
    Share,
    Shared,
    Source,
    TakeFactsBack,
    TakenBack,
    Unshare,
)
from rumi.memory.writing import checked, written

__all__ = [
    "LOCAL",
    "MAX_FACTS",
    "MEMORY",
    "SMALL_NUMBERS",
    "Ask",
    "Block",
    "Extracted",
    "Fact",
    "FactRefused",
    "Facts",
    "Forget",
    "ForgetOwner",
    "Learn",
    "Learned",
    "Memory",
    "MemoryMessage",
    "MemoryUnavailable",
    "NewFact",
    "PastFact",
    "PastFacts",
    "Remember",
    "Share",
    "Shared",
    "Source",
    "TakeFactsBack",
    "TakenBack",
    "Unshare",
    "asking",
    "asking_for_turn",
    "asks_to_forget",
    "asks_to_remember",
    "check",
    "checked",
    "escaped",
    "extract",
    "memory_block",
    "memory_calls",
    "memory_command",
    "open_memory",
    "told_facts",
    "written",
]
