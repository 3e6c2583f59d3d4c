"""Detection of the language of texts for a person."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

from rumi.texts import Language, languages

if TYPE_CHECKING:
    LanguageSetting: TypeAlias = str
else:
    LanguageSetting = Literal[("auto", *languages())]
"""The setting `language`: a language that texts exist in, or `auto`."""


def detect_language(setting: LanguageSetting, environment: Mapping[str, str]) -> Language:
    """Return the configured language; for `auto`, the language of the environment's locale, or English.

    The C locale is ignored: servers set it for programs, so it does not show the language of a person.
    """
    if setting != "auto":
        return setting
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        locale = environment.get(name, "")
        if locale and locale.split(".")[0].lower() not in ("c", "posix"):
            return known_language(locale) or "en"
    return "en"


def known_language(tag: object) -> Language | None:
    """Return the language for a locale or a language tag such as `es_AR.UTF-8`, `es-419` or `pt`.

    Return the language without its region if there are no texts for the region, and None if there are no
    texts in the language at all.
    """
    found = (
        re.match(r"([A-Za-z]{2,3})(?:[-_]([A-Za-z]{2}))?(?![A-Za-z])", tag) if isinstance(tag, str) else None
    )
    if found is None:
        return None
    language, region = found[1].lower(), (found[2] or "").upper()
    return next((name for name in (f"{language}_{region}", language) if name in languages()), None)


def language_of_browser(accepted: str, default: Language) -> Language:
    """Return the language that an `Accept-Language` header prefers, such as `es-AR,es;q=0.9,en;q=0.8`."""
    preferences: list[tuple[float, int, Language]] = []
    for index, preference in enumerate(accepted.split(",")[:32]):
        name, _, rest = preference.strip().partition(";")
        weight = rest.strip().removeprefix("q=") if rest else "1"
        language = known_language(name)
        if language and weight.replace(".", "", 1).isdecimal() and float(weight) > 0:
            preferences.append((-float(weight), index, language))
    return min(preferences)[2] if preferences else default
