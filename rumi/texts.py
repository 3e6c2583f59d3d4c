"""Texts for people, and their translation with gettext.

Each text is written in English where it is used: the English sentence is the key of the catalogue
`rumi/locale/LANGUAGE/LC_MESSAGES/rumi.po`. Placeholders such as `{name}` stand for values.

- `gettext` and `ngettext` return a text in a known language.
- `Text` is for code that does not know the reader's language: an English string that keeps its key and its
  fields. Logs, programs and models use the string; `translate` translates it for a reader.

`make texts` collects the texts of the code into the catalogues and compiles them.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

if TYPE_CHECKING:
    from gettext import NullTranslations

Language: TypeAlias = str
"""A language that texts exist in, as the name of its catalogue's folder, such as `es` or `es_AR`; or `en`."""

LOCALE: Final = Path(__file__).with_name("locale")
"""The folder of the catalogues, one folder for each language."""

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class Text(str):
    """An English text that can be translated later: a string that keeps its key and its fields.

    The fields are the values of the placeholders: texts, errors, and numbers are kept, other values are
    converted to strings. If the text has a plural form, `many` is the key of the plural, and `count` selects
    the form. The results of string operations are plain strings, and stay in English.
    """

    __slots__ = ("fields", "key", "many", "number")

    key: str
    fields: Mapping[str, str | float]
    many: str
    number: int

    def __new__(cls, key: str, /, *, many: str = "", count: Any = None, **fields: Any) -> Self:
        """Return the text with this English key and these values of its placeholders."""
        if count is not None:
            fields["count"] = count
        kept = {name: _kept(value) for name, value in fields.items()}
        number = count if isinstance(count, int) else 1
        self = super().__new__(cls, _filled(many if many and number != 1 else key, kept))
        self.key, self.many, self.number, self.fields = key, many, number, kept
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Support copies and pickles."""
        return text_of, (self.to_json(),)

    def in_language(self, language: Language) -> str:
        """Return the text in the language. A text that the catalogue does not have stays in English."""
        if language == "en":
            return str(self)
        catalogue = _catalogue(language)
        if self.many:
            template = catalogue.ngettext(self.key, self.many, self.number)
        else:
            template = catalogue.gettext(self.key) if self.key else ""
        return _filled(template, _translated(language, self.fields))

    def to_json(self) -> dict[str, Any]:
        """Return the key and the fields as a JSON object, which `text_of` reads."""
        fields = {name: json_of(value) for name, value in self.fields.items()}
        plural = {"many": self.many, "count": self.number} if self.many else {}
        return {"key": self.key, "fields": fields, **plural}


def json_of(value: object) -> object:
    """Return a `Text` as a JSON object that `text_of` reads, and any other value unchanged."""
    return value.to_json() if isinstance(value, Text) else value


def text_of(value: object) -> str:
    """Return the text of a JSON value: a `Text` for an object of `Text.to_json`, otherwise a plain string."""
    if not isinstance(value, dict):
        return str(value)
    stored = value.get("fields", {})
    fields = {name: text_of(field) if isinstance(field, dict) else field for name, field in stored.items()}
    if many := value.get("many", ""):
        fields |= {"many": many, "count": value.get("count", 1)}
    return Text(str(value.get("key", "")), **fields)


def joined(texts: Iterable[str], separator: str = " ") -> Text:
    """Return several texts as one, which can still be translated."""
    parts = {f"part{number}": text for number, text in enumerate(texts)}
    return Text(separator.join(f"{{{name}}}" for name in parts), **parts)


def translate(language: Language, text: str) -> str:
    """Return a `Text` in the language, and any other string unchanged: it may be someone else's words."""
    return text.in_language(language) if isinstance(text, Text) else text


def gettext(language: Language, key: str, /, **fields: object) -> str:
    """Return the text with this English key in the language, with these values of its placeholders."""
    template = key if language == "en" else _catalogue(language).gettext(key)
    return _filled(template, _translated(language, fields))


def ngettext(language: Language, one: str, many: str, count: int, /, **fields: object) -> str:
    """Return the form of the text that fits `count`, which is also the value of the placeholder `{count}`."""
    if language == "en":
        template = one if count == 1 else many
    else:
        template = _catalogue(language).ngettext(one, many, count)
    return _filled(template, {"count": count, **_translated(language, fields)})


@cache
def languages() -> tuple[Language, ...]:
    """Return the languages that texts exist in: English, and each language that has a catalogue."""
    return ("en", *sorted(path.parents[1].name for path in LOCALE.glob("*/LC_MESSAGES/rumi.mo")))


def os_error(error: OSError) -> str:
    """Return the reason of an error of the operating system, such as a full disk."""
    reason = error.strerror or str(error) or type(error).__name__
    return _OS_ERRORS.get(reason, reason)


def _kept(value: object) -> str | float:
    if isinstance(value, (Text, int, float)):
        return value
    if isinstance(value, OSError) and value.strerror in _OS_ERRORS:
        where = "" if value.filename is None else f": {value.filename!r}"
        return Text("[Errno {number}] {why}{where}", number=value.errno, why=os_error(value), where=where)
    text = getattr(value, "text", None)
    return text if isinstance(text, Text) else str(value)


def _translated(language: Language, fields: Mapping[str, object]) -> Mapping[str, object]:
    if language == "en":
        return fields
    return {
        name: translate(language, value) if isinstance(value, str) else value
        for name, value in fields.items()
    }


def _filled(template: str, fields: Mapping[str, object]) -> str:
    # No str.format: a template may contain other braces, and a placeholder must not reach attributes.
    if not fields:
        return template
    return _PLACEHOLDER.sub(lambda found: str(fields.get(found[1], found[0])), template)


_MORE: Final[dict[tuple[str, Path], None]] = {}
"""The catalogues of plugins. Only texts that Rumi's own catalogue does not have are taken from them."""


def add_catalogues(domain: str, folder: Path) -> None:
    """Add the catalogues `LANGUAGE/LC_MESSAGES/DOMAIN.mo` in a folder, for texts that Rumi does not have."""
    if (domain, folder) not in _MORE:
        _MORE[domain, folder] = None
        _catalogue.cache_clear()


@cache
def _catalogue(language: Language) -> "NullTranslations":
    from gettext import translation  # imported here: a process whose user reads English needs none

    names = [language, language.partition("_")[0]]
    found = translation("rumi", LOCALE, names, fallback=True)
    for domain, folder in _MORE:
        try:
            found.add_fallback(translation(domain, folder, names, fallback=True))
        except (OSError, ValueError):  # not a catalogue: its texts stay in English
            continue
    return found


_OS_ERRORS: Final[Mapping[str, Text]] = {
    str(text): text
    for text in (
        Text("Permission denied"),
        Text("No such file or directory"),
        Text("No space left on device"),
        Text("Disk quota exceeded"),
        Text("Read-only file system"),
        Text("Is a directory"),
        Text("Not a directory"),
        Text("File exists"),
        Text("Input/output error"),
        Text("Connection refused"),
        Text("Operation not permitted"),
        Text("File name too long"),
        Text("Too many levels of symbolic links"),
        Text("Address already in use"),
        Text("Cannot assign requested address"),
    )
}
