"""The chat command `/skills`, which lists the skills or describes one."""

from typing import Final

from rumi.agent.skills.actor import AskSkills
from rumi.agent.skills.messages import Info, Listed, Listing, SkillEntry
from rumi.platform.markdown import plain
from rumi.platform.texts import skills as skill_texts
from rumi.texts import Language, gettext

MOST_LISTED: Final = 50
MOST_CHARS: Final = 160


async def skills_command(ask: AskSkills, language: Language, rest: str, project: str = "") -> str:
    """Return the Markdown answer to `/skills` with the argument `rest`.

    `project` is a folder whose skills are included.
    """
    name = rest.strip()
    if not name:
        return _listed(language, await ask(Listing(project)))
    found = await ask(Info(name, project))
    if not isinstance(found, SkillEntry):
        return gettext(
            language,
            "I don't know the skill {name}. /skills lists those that there are.",
            name=_verbatim(name[:80]),
        )
    return _described(language, found)


def _listed(language: Language, listed: Listed) -> str:
    on = [entry.skill for entry in listed.entries if entry.off is None]
    off = [entry.skill.name for entry in listed.entries if entry.off is not None]
    lines = [skill_texts.skills_known(language, len(on))]
    if on:
        lines.append("")
    lines += [
        f"- `{skill.name}`: {plain(skill.header.description, MOST_CHARS)}" for skill in on[:MOST_LISTED]
    ]
    if len(on) > MOST_LISTED:
        lines.append(skill_texts.skills_more(language, len(on) - MOST_LISTED))
    tail = []
    if off:
        more = (
            f", {skill_texts.skills_more(language, len(off) - MOST_LISTED)}" if len(off) > MOST_LISTED else ""
        )
        tail.append(
            gettext(
                language,
                "Switched off: {names}.",
                names=", ".join(f"`{name}`" for name in off[:MOST_LISTED]) + more,
            )
        )
    if listed.problems:
        tail.append(skill_texts.skills_wrong(language, len(listed.problems)))
    if on:
        tail.append(
            gettext(
                language,
                "Ask for something that a skill is for, or name the skill. `/skills NAME` shows one.",
            )
        )
    return "\n".join([*lines, *([""] if tail else []), *tail])


def _described(language: Language, entry: SkillEntry) -> str:
    skill = entry.skill
    state = skill_texts.skill_state(language, off=entry.off is not None, has_code=skill.has_code)
    version = f" {plain(skill.header.version, 40)}" if skill.header.version else ""
    source = skill_texts.skill_source(language, skill.source.kind)
    return f"`{skill.name}`{version} ({state}; {source})\n\n{plain(skill.header.description, 2000)}"


def _verbatim(text: str) -> str:
    clean = "".join(c if c.isprintable() and c != "`" else " " for c in text)
    return f"`{' '.join(clean.split())}`"
