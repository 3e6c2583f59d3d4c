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


def skills_wrong(language: Language, count: int) -> str:
    """Say that some skills cannot be loaded, and that `rumi skills` lists them."""
    if count == 1:
        return gettext(language, "1 skill cannot be loaded: `rumi skills list` says why.")
    return gettext(language, "{count} skills cannot be loaded: `rumi skills list` says why.", count=count)


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
