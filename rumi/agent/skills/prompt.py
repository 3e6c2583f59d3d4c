"""The prompt block that lists the skills, and the block that states changes to the list."""

import re
from collections.abc import Iterable, Mapping
from math import inf
from typing import Final

from rumi.agent.skills.messages import InPrompt, PromptSkills
from rumi.models.model import text_tokens

MOST_LINE_CHARS: Final = (500, 240, 120, 60)
"""Maximum lengths of a description in a prompt; the largest length with which all skills fit is used."""

INTRODUCTION = (
    "Skills are ways of working that somebody has written down. Where one fits the task, call use_skill with "
    "its name before you begin, and do what it returns. Their descriptions:"
)
CHANGES = "Changes to the list of skills (+ can be used now, × no longer):"

_LISTED_SHARE: Final = 2
"""Maximum size of the list of skills and all its changes together, as a multiple of the token budget."""
_LINE: Final = re.compile(r"([-+×]) ([^:\n]+)(?:: (.*))?")


def skills_block(
    skills: PromptSkills, max_tokens: float = inf, noted: Mapping[str, str] | None = None
) -> str:
    """Return the block that lists the skills; empty if there are none.

    A skill's description cannot end the block.

    If the list exceeds `max_tokens`, the descriptions are cut. If that is not enough, the skills that match
    worst are left out. If the prompt already lists the skills in `noted` (see `noted_skills`), the block
    contains only new and removed skills.
    """
    if noted is not None:
        return _changes(skills, max_tokens, noted)
    shown = len(skills.shown)
    if not shown and not skills.more:
        return ""
    for most_chars in MOST_LINE_CHARS:
        text = _block(skills, shown, most_chars)
        if text_tokens(text) <= max_tokens:
            return text
    while shown and text_tokens(text) > max_tokens:
        shown -= 1
        text = _block(skills, shown, most_chars)
    return text


def noted_skills(notes: Iterable[str]) -> Mapping[str, str]:
    """Return the skills that a prompt with these notes lists, with descriptions.

    The oldest of the `notes` comes first.
    """
    noted: dict[str, str] = {}
    for note in notes:
        block, ended, _ = note.partition("<skills>\n")[2].partition("\n</skills>")
        for line in filter(None, map(_LINE.fullmatch, block.splitlines() if ended else ())):
            if line[1] == "×":
                noted.pop(line[2], None)
            else:
                noted[line[2]] = line[3] or ""
    return noted


def _changes(skills: PromptSkills, max_tokens: float, noted: Mapping[str, str]) -> str:
    lines = [f"× {name}" for name in skills.gone]
    left = max_tokens * _LISTED_SHARE - sum(text_tokens(f"- {name}: {noted[name]}\n") for name in noted)
    for skill in skills.shown:
        # The list may contain a shortened description, if the budget was small: that is not a change.
        listed = noted.get(skill.name)
        if any(listed == _one_line(skill.description, chars) for chars in MOST_LINE_CHARS):
            continue
        line = _line(skill, MOST_LINE_CHARS[1])
        left -= text_tokens(f"{line}\n")
        if left >= 0:
            lines.append(f"+ {line}")
    return "\n".join([CHANGES, "<skills>", *lines, "</skills>"]) if lines else ""


def _block(skills: PromptSkills, shown: int, most_chars: int) -> str:
    lines = [f"- {_line(skill, most_chars)}" for skill in skills.shown[:shown]]
    if more := skills.more + len(skills.shown) - shown:
        lines.append(
            f"({more} more {'is' if more == 1 else 'are'} not listed: call use_skill with a "
            "few words about the task as its name, and it says which come nearest)"
        )
    return "\n".join([INTRODUCTION, "<skills>", *lines, "</skills>"])


def _line(skill: InPrompt, most_chars: int) -> str:
    return f"{skill.name}: {_one_line(skill.description, most_chars)}"


def _one_line(text: str, most_chars: int) -> str:
    """Return a description as plain data: one line, tags escaped, without invisible characters."""
    line = text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
    line = " ".join(line.split())
    if len(line) > most_chars:
        line = f"{line[: most_chars - 1]}…"
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
