"""The part of a system prompt that lists skills."""

from math import inf
from typing import Final

from rumi.models import text_tokens
from rumi.skills.types import PromptSkills

MOST_LINE_CHARS: Final = (500, 240, 120, 60)
"""How much of a description a prompt carries: the most of these with which all of them have room."""

INTRODUCTION = (
    "Skills are ways of working that somebody has written down. Where one fits the task, call use_skill with "
    "its name before you begin, and do what it returns. Their descriptions:"
)


def skills_block(skills: PromptSkills, max_tokens: float = inf) -> str:
    """The lines, in a block that no description can end or leave; empty where there is no skill.

    Where they take more than `max_tokens`, their descriptions are cut, and if that is not enough, those that
    fit least are left out.
    """
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


def _block(skills: PromptSkills, shown: int, most_chars: int) -> str:
    lines = [f"- {each.name}: {_one_line(each.description, most_chars)}" for each in skills.shown[:shown]]
    if more := skills.more + len(skills.shown) - shown:
        lines.append(
            f"({more} more {'is' if more == 1 else 'are'} not listed: call use_skill with a "
            "few words about the task as its name, and it says which come nearest)"
        )
    return "\n".join([INTRODUCTION, "<skills>", *lines, "</skills>"])


def _one_line(text: str, most_chars: int) -> str:
    """A description as data: on one line, without tags of ours, without what is not seen."""
    line = text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
    line = " ".join(line.split())
    if len(line) > most_chars:
        line = f"{line[: most_chars - 1]}…"
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
