"""The language of texts for people: detection and selection."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

Language: TypeAlias = Literal["es", "en"]

LanguageSetting: TypeAlias = Literal["auto", "es", "en"]


def detect_language(setting: LanguageSetting, environment: Mapping[str, str]) -> Language:
    """Return the configured language; for `auto`, the language of the environment's locale, or English.

    The C locale is ignored: servers set it for programs, so it does not show the language of a person.
    """
    if setting != "auto":
        return setting
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        locale = environment.get(name, "").lower()
        if locale and locale.split(".")[0] not in ("c", "posix"):
            return "es" if locale.startswith("es") else "en"
    return "en"


_TAGS: dict[str, Language] = {"es": "es", "en": "en"}


def language_of_browser(accepted: str, default: Language) -> Language:
    """Return the language that an `Accept-Language` header prefers, such as `es-AR,es;q=0.9,en;q=0.8`."""
    preferences: list[tuple[float, int, Language]] = []
    for index, preference in enumerate(accepted.lower().split(",")[:32]):
        name, _, rest = preference.strip().partition(";")
        weight = rest.strip().removeprefix("q=") if rest else "1"
        tag: Language | None = _TAGS.get(name.partition("-")[0])
        if tag and weight.replace(".", "", 1).isdecimal() and float(weight) > 0:
            preferences.append((-float(weight), index, tag))
    return min(preferences)[2] if preferences else default


def pick(language: Language, es: str, en: str) -> str:
    """Select the Spanish or the English text, according to the language."""
    return es if language == "es" else en


def in_language(language: Language, table: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Return a table's texts in this language, by name. The table has pairs of Spanish and English texts."""
    return {name: pick(language, *texts) for name, texts in table.items()}
