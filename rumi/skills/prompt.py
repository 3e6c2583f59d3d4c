"""The part of a system prompt that lists skills."""

from rumi.skills.types import PromptSkills

MOST_LINE_CHARS = 500
"""How much of a description a prompt carries: with 20 skills that is no more than about 3,000 tokens."""

INTRODUCTION = (
    "Skills are ways of working that somebody has written down. Where one fits the task, call use_skill with "
    "its name before you begin, and do what it returns. Their descriptions:"
)


def skills_block(skills: PromptSkills) -> str:
    """The lines, in a block that no description can end or leave; empty where there is no skill."""
    if not skills.shown and not skills.more:
        return ""
    lines = [f"- {each.name}: {_one_line(each.description)}" for each in skills.shown]
    if skills.more:
        lines.append(
            f"({skills.more} more {'is' if skills.more == 1 else 'are'} not listed: call use_skill with a "
            "few words about the task as its name, and it says which come nearest)"
        )
    return "\n".join([INTRODUCTION, "<skills>", *lines, "</skills>"])


def _one_line(text: str) -> str:
    """A description as data: on one line, without tags of ours, without what is not seen."""
    line = "".join(c if c.isprintable() else " " for c in text)
    line = " ".join(line.split())
    if len(line) > MOST_LINE_CHARS:
        line = f"{line[: MOST_LINE_CHARS - 1]}…"
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
