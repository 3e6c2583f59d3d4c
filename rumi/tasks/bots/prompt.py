"""The instructions of one iteration of a bot."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rumi.memory.block import escaped
from rumi.store.journal.records import IterationRecord
from rumi.tasks.bots.config import BotConfig
from rumi.tasks.bots.files import BotSkill

PROMPTS: Final = Path(__file__).parent / "prompts"
"""The folder of the bots' prompt texts. A home may replace these texts."""

SKILLS_CHARS: Final = 60_000
"""Maximum length of all skills in a prompt, in characters."""

SUMMARY_CHARS: Final = 2_000
SUMMARIES: Final = 5
"""Number of recent iterations with a summary in a prompt; each summary has at most `SUMMARY_CHARS`."""


def instructions(
    words: str,
    sandbox: str,
    config: BotConfig,
    skills: Sequence[BotSkill],
    blocks: Sequence[str],
    before: Sequence[IterationRecord],
    progress: str,
) -> str:
    """Return the instructions of an iteration.

    `words` is the text that all bots get; `sandbox` describes what commands can do. `blocks` are complete
    prompt blocks, such as the bot's memory. `before` contains the most recent iterations, oldest first.
    `progress` is the number of this iteration, in words.
    """
    # The parts that change least come first: the prompts of a bot then share a prefix that a server caches.
    return "\n\n".join(
        filter(
            None,
            (
                words,
                sandbox,
                f'<instructions bot="{config.name}">\n{config.instructions}\n</instructions>',
                _skills(skills),
                *blocks,
                _summaries(before),
                progress,
            ),
        )
    )


def progress_in_words(number: int, most: int, budget: str) -> str:
    """Return the iteration's number and the budget left, in words that get more urgent near the end."""
    if not most:
        return f"This is iteration {number}; their number has no limit. {budget}".strip()
    left = most - number
    lines = [f"This is iteration {number} of {most}: {left} follow{'s' if left == 1 else ''}.", budget]
    if left <= 0:
        lines.append(
            "It is the last one. Finish now: call session_complete with what is true, or say plainly what is "
            "missing and what would help."
        )
    elif left <= max(1, most // 5):
        lines.append("Little is left. Begin nothing new: bring what you have to its end, and check it.")
    elif left <= most // 2:
        lines.append("More than half is used. Put first what the goal needs.")
    return " ".join(filter(None, lines))


def in_short(answer: str) -> str:
    """Return an iteration's answer, shortened to `SUMMARY_CHARS`, as its summary."""
    text = answer.strip()
    return text if len(text) <= SUMMARY_CHARS else f"{text[: SUMMARY_CHARS - 1]}…"


def _skills(skills: Sequence[BotSkill]) -> str:
    if not skills:
        return ""
    lines = ["<own_skills>", "Ways of working that you, or people for you, have written down:"]
    chars_left = SKILLS_CHARS
    for skill in skills:
        about = f": {escaped(skill.description)}" if skill.description else ""
        chars_left -= len(skill.text)
        text = skill.text if chars_left >= 0 else "(left out: there is no room for it)"
        lines += ["", f"## {escaped(skill.name)}{about}", text]
    return "\n".join([*lines, "</own_skills>"])


def _summaries(before: Sequence[IterationRecord]) -> str:
    if not before:
        return ""
    lines = [
        f"- {iteration.number}: {escaped(in_short(iteration.summary))}" for iteration in before[-SUMMARIES:]
    ]
    first = "What you said at the end of your last iterations, oldest first:"
    return "\n".join(["<iterations>", first, *lines, "</iterations>"])
