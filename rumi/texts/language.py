"""Which language people read."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

Language: TypeAlias = Literal["es", "en"]


def detect_language(setting: Literal["auto", "es", "en"], environment: Mapping[str, str]) -> Language:
    """The language of the configuration; with `auto` that of the environment's locale, otherwise English.

    The C locale says nothing about a person: servers set it so that programs agree.
    """
    if setting != "auto":
        return setting
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        locale = environment.get(name, "").lower()
        if locale and locale.split(".")[0] not in ("c", "posix"):
            return "es" if locale.startswith("es") else "en"
    return "en"


def pick(language: Language, es: str, en: str) -> str:
    """The one of two texts that is in that language."""
    return es if language == "es" else en
