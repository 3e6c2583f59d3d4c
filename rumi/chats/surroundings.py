"""What a turn is told about its surroundings: the owner's time zone, the limits, and the chat's workspace."""

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import trio

from rumi.agent.breakers import TurnLimits
from rumi.agent.prompts.environment import Environment, environment_block, folder_fact, instruction_blocks
from rumi.errors import RumiError
from rumi.platform.zones import rule_at, zone_of_machine
from rumi.sandbox.overview import Overview

logger = logging.getLogger(__name__)

LOOK_S: Final = 5.0
"""Maximum wait of a turn for the look at its surroundings, in seconds; then the turn is told less."""

INSTRUCTIONS_SHARE: Final = 1 / 8
"""Maximum share of a model's context for instruction files: small models get the beginning of long ones."""

CHARS_PER_TOKEN: Final = 3


@dataclass(frozen=True, slots=True)
class SurroundingsNote:
    """Blocks for the next prompt note. `tainted` is true if they show text that may come from outside."""

    blocks: tuple[str, ...] = ()
    tainted: bool = False


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Looks at a chat's surroundings. It never starts a container, and a chat without files costs nothing."""

    zone_of: Callable[[str], Awaitable[str]]
    """Returns the time zone of a chat's owner; empty if it is unknown."""
    look: Callable[[str], Awaitable[Overview]]
    """Looks at a chat's workspace."""
    budget_left: Callable[[str], Awaitable[str]]
    """Returns in words what is left of the tightest budget of a chat; empty without budgets."""
    folder_of: Callable[[str], str] = lambda chat: ""
    """Returns the user's folder that a chat works on, for people; empty for a chat with its own files."""

    async def zone(self, chat: str) -> str:
        """Return the time zone of a chat's owner; empty if it is unknown or cannot be found out."""
        with trio.move_on_after(LOOK_S):
            try:
                return await self.zone_of(chat)
            except RumiError as error:
                logger.warning("chat %s: a turn without its time zone: %s", chat, error)
        return ""

    async def note(
        self,
        chat: str,
        limits: TurnLimits,
        noted: Environment,
        *,
        context_tokens: int,
        tainted: bool,
        files_tainted: bool,
    ) -> SurroundingsNote:
        """Return what the notes do not state yet. Never raise an expected error.

        An instruction file is content from outside if a turn that had read such content may have written it.
        In that case names of files may be from outside too; they are shown only if the session is tainted.
        """
        try:
            with trio.move_on_after(LOOK_S):
                seen, left = await self.look(chat), await self.budget_left(chat)
                max_chars = instruction_chars(context_tokens)
                files, outside = instruction_blocks(
                    noted, seen.instructions, files_tainted=files_tainted, max_chars=max_chars
                )
                facts = [f"a turn: at most {limits.max_turns} model calls, {_duration(limits.timeout_s)}"]
                facts += [f"budget: {left}"] if left else []
                folder = self.folder_of(chat)
                facts += [folder_fact(folder)] if folder else []
                names = tainted or outside or not files_tainted
                block = environment_block(noted, facts, seen, names=names)
                return SurroundingsNote(tuple(filter(None, (block, *files))), outside)
            logger.warning("chat %s: a turn without its surroundings: they take too long", chat)
        except (RumiError, OSError) as error:
            logger.warning("chat %s: a turn without its surroundings: %s", chat, error)
        return SurroundingsNote()


def instruction_chars(context_tokens: int) -> int:
    """Return the maximum number of characters of instruction files, for a model with such a context."""
    return int(context_tokens * INSTRUCTIONS_SHARE * CHARS_PER_TOKEN)


def variables(zone: str, now: float | None = None) -> tuple[str, ...]:
    """Return the variables of the environment that a turn's commands get, each as `NAME=value`.

    `now` is the present time in seconds since 1970, by default this machine's.
    """
    return (f"TZ={rule_at(zone or zone_of_machine(), time.time() if now is None else now)}",)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
