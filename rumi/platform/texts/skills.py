"""Texts about skills, for people and for prompts."""

from rumi.texts import Language, Text, gettext, translate


def skills_known(language: Language, count: int) -> str:
    """Return the line above the list of enabled skills."""
    if count == 0:
        return gettext(language, "No skill is on.")
    if count == 1:
        return gettext(language, "I can use this skill:")
    return gettext(language, "I can use these {count} skills:", count=count)


def skills_more(language: Language, count: int) -> str:
    """Say how many skills did not fit into the list."""
    return gettext(language, "(and {count} more)", count=count)


def skills_off(language: Language, names: str) -> str:
    """Return the line with the names of disabled skills."""
    return gettext(language, "Switched off: {names}.", names=names)


def skills_wrong(language: Language, count: int) -> str:
    """Say that some skills cannot be loaded, and that `rumi skills` lists them."""
    if count == 1:
        return gettext(language, "1 skill cannot be loaded: `rumi skills list` says why.")
    return gettext(language, "{count} skills cannot be loaded: `rumi skills list` says why.", count=count)


def how_to_use_skills(language: Language) -> str:
    """Say how to use skills in a chat."""
    return gettext(language, "Ask for something that one fits, or name it. `/skills NAME` shows one.")


def skill_unknown(language: Language, name: str) -> str:
    """Say that there is no skill of that name."""
    return gettext(language, "I don't know the skill {name}. /skills lists those that there are.", name=name)


def skill_source(language: Language, kind: str) -> str:
    """Return the name of a skill's origin, in one or two words."""
    source = {
        "bundled": Text("comes with Rumi"),
        "home": Text("of this installation"),
        "dirs": Text("of a folder in the configuration"),
        "project": Text("of the project"),
    }[kind]
    return translate(language, source)


def skill_state(language: Language, *, off: bool, has_code: bool) -> str:
    """Describe the state of a skill: enabled or disabled, with or without code."""
    what = gettext(language, "with code") if has_code else gettext(language, "instructions")
    how = gettext(language, "off") if off else gettext(language, "on")
    return f"{how}, {what}"
