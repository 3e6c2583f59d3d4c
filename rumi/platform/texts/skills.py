"""Texts about skills, for people and for prompts."""

from rumi.platform.texts.language import Language, pick


def skills_known(language: Language, count: int) -> str:
    """Return the line above the list of enabled skills."""
    if count == 0:
        return pick(language, "No hay ninguna habilidad activa.", "No skill is on.")
    if count == 1:
        return pick(language, "Sé usar esta habilidad:", "I can use this skill:")
    return pick(language, f"Sé usar estas {count} habilidades:", f"I can use these {count} skills:")


def skills_more(language: Language, count: int) -> str:
    """Say how many skills did not fit into the list."""
    return pick(language, f"(y {count} más)", f"(and {count} more)")


def skills_off(language: Language, names: str) -> str:
    """Return the line with the names of disabled skills."""
    return pick(language, f"Desactivadas: {names}.", f"Switched off: {names}.")


def skills_wrong(language: Language, count: int) -> str:
    """Say that some skills cannot be loaded, and that `rumi skills` lists them."""
    if count == 1:
        return pick(
            language,
            "1 habilidad no se puede cargar: `rumi skills list` dice por qué.",
            "1 skill cannot be loaded: `rumi skills list` says why.",
        )
    return pick(
        language,
        f"{count} habilidades no se pueden cargar: `rumi skills list` dice por qué.",
        f"{count} skills cannot be loaded: `rumi skills list` says why.",
    )


def how_to_use_skills(language: Language) -> str:
    """Say how to use skills in a chat."""
    return pick(
        language,
        "Pedime algo que encaje con una, o nombrala. `/skills NOMBRE` la muestra.",
        "Ask for something that one fits, or name it. `/skills NAME` shows one.",
    )


def skill_unknown(language: Language, name: str) -> str:
    """Say that there is no skill of that name."""
    return pick(
        language,
        f"No conozco la habilidad {name}. Con /skills ves las que hay.",
        f"I don't know the skill {name}. /skills lists those that there are.",
    )


def skill_source(language: Language, kind: str) -> str:
    """Return the name of a skill's origin, in one or two words."""
    es, en = {
        "bundled": ("viene con Rumi", "comes with Rumi"),
        "home": ("de esta instalación", "of this installation"),
        "dirs": ("de una carpeta de la configuración", "of a folder in the configuration"),
        "project": ("del proyecto", "of the project"),
    }[kind]
    return pick(language, es, en)


def skill_state(language: Language, *, off: bool, has_code: bool) -> str:
    """Describe the state of a skill: enabled or disabled, with or without code."""
    what = (
        pick(language, "con código", "with code")
        if has_code
        else pick(language, "instrucciones", "instructions")
    )
    how = pick(language, "desactivada", "off") if off else pick(language, "activa", "on")
    return f"{how}, {what}"
