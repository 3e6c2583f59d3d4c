"""Numbers, dates and times as a reader's language writes them, by Babel."""

from datetime import date, datetime

from rumi.texts import Language

# The English texts are written in British order: day, month, year.
_LOCALES = {"en": "en_GB"}


def number(language: Language, value: float, digits: int = 0) -> str:
    """Return a number with `digits` decimals and the language's separators."""
    from babel.numbers import format_decimal  # imported here: clients that only chat need none of Babel

    pattern = "#,##0" if not digits else f"#,##0.{'0' * digits}"
    return str(format_decimal(value, format=pattern, locale=_locale(language)))


def full_date(language: Language, day: date) -> str:
    """Return a date in words, with its day of the week."""
    from babel.dates import format_date

    pattern = "EEEE d MMMM y" if language == "en" else "full"
    return format_date(day, pattern, locale=_locale(language))


def day_and_month(language: Language, day: datetime) -> str:
    """Return a date in words, without its year."""
    from babel.dates import format_skeleton

    return format_skeleton("MMMMd", day, locale=_locale(language))


def weekday(language: Language, number: int) -> str:
    """Return the name of a day of the week; 0 is Monday."""
    from babel.dates import get_day_names

    return str(get_day_names("wide", locale=_locale(language))[number])


def language_name(language: Language) -> str:
    """Return the name of a language in that language, such as `Español` or `Español (Argentina)`."""
    from babel import Locale

    name = Locale.parse(language).display_name or language
    return name[0].upper() + name[1:]


def _locale(language: Language) -> str:
    return _LOCALES.get(language, language)
