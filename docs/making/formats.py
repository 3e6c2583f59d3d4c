"""Write the formats of numbers and dates of each language into `rumi/locale/formats.json`, from CLDR.

Run by `make texts`. CLDR is the Unicode Consortium's data of languages, which Babel has for hundreds of them
in 34 MB. Rumi needs a few lines for each language of its texts.
"""

import json
import re
from typing import Final

from babel import Locale

from rumi.texts import LOCALE, languages

TARGET: Final = LOCALE / "formats.json"

_LOCALES: Final = {"en": "en_GB"}
"""The English texts are written in British order: day, month, year."""

_FIELDS: Final = {"EEEE": "{weekday}", "MMMM": "{month}", "y": "{year}", "d": "{day}"}


def rendered() -> str:
    """Return the formats of all languages as JSON."""
    formats = {language: _formats(language) for language in languages()}
    return json.dumps(formats, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def _formats(language: str) -> dict[str, object]:
    locale = Locale.parse(_LOCALES.get(language, language))
    symbols = locale.number_symbols["latn"]
    months, days = locale.months["format"]["wide"], locale.days["format"]["wide"]
    # CLDR puts a comma behind the day of the week, which looks odd in an English sentence.
    full = "EEEE d MMMM y" if language == "en" else locale.date_formats["full"].pattern
    name = Locale.parse(language).display_name or language
    return {
        "decimal": symbols["decimal"],
        "group": symbols["group"],
        "months": [months[number] for number in range(1, 13)],
        "weekdays": [days[number] for number in range(7)],
        "full_date": _python_format(full),
        "day_and_month": _python_format(locale.datetime_skeletons["MMMMd"].pattern),
        "name": name[0].upper() + name[1:],
    }


def _python_format(pattern: str) -> str:
    """Translate a pattern of CLDR, in which literal text may be in quotes."""
    tokens = re.finditer(r"'(?P<literal>[^']*)'|(?P<field>([A-Za-z])\3*)|(?P<other>[^A-Za-z'])", pattern)
    return "".join(
        _FIELDS[token["field"]] if token["field"] else token["literal"] or token["other"] or ""
        for token in tokens
    )


def main() -> None:
    """Write the file."""
    TARGET.write_text(rendered(), "utf-8")


if __name__ == "__main__":
    main()
