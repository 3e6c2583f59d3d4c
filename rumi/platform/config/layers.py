"""Collects configuration values from all sources in layers, validates them, and reports errors."""

import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from rumi.errors import ConfigError
from rumi.platform.config.files import read_text
from rumi.platform.config.fitting import fitted, types_in
from rumi.platform.config.people import check_people, check_services
from rumi.platform.config.providers import CHOICES, OFFLINE
from rumi.platform.config.schema import (
    GENERAL,
    BrowserPasswordSection,
    CalendarSection,
    CustomServerSection,
    GroupSection,
    MailSection,
    MatrixSection,
    McpSection,
    PersonSection,
    PluginSection,
    PriceSection,
    RoleSection,
    Section,
    Settings,
    TelegramBotSection,
    TelegramSection,
    TriggerSection,
)
from rumi.platform.config.secrets import NAMES
from rumi.platform.home_path import unquoted
from rumi.platform.redact import HIDDEN, Redactor
from rumi.texts import Text, joined

Key: TypeAlias = tuple[str, ...]

_PREFIX = "RUMI_"
_NESTED: Mapping[Key, type[Section]] = {
    ("model", "custom"): CustomServerSection,
    ("browser", "passwords"): BrowserPasswordSection,
}
_PRICES: Key = ("prices",)
_MCP: Key = ("mcp",)
_TELEGRAM: Key = ("telegram",)
_TRIGGERS: Key = ("triggers",)
_NAMED: Mapping[Key, type[Section]] = {
    ("people",): PersonSection,
    ("roles",): RoleSection,
    ("groups",): GroupSection,
    _TRIGGERS: TriggerSection,
    ("calendars",): CalendarSection,
    ("mail",): MailSection,
    ("plugins",): PluginSection,
    ("matrix",): MatrixSection,
}
_TABLES = (*_NESTED, _PRICES, _MCP, *_NAMED)
"""Sections in which users choose the names of the subsections."""
MAPS: tuple[Key, ...] = (("model", "aliases"), ("model", "keys"))
"""Sections in which users choose the names of the keys."""
_SECRET_NAME = re.compile(r"key|token$|secret|passw", re.IGNORECASE)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")
_SHOWN_CHARS = 120
_EXPECTED = {
    "tuple_type": 'a list, such as ["a", "b"]',
    "string_type": "a text in quotes",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
}


class ConfigLayers:
    """Configuration values by key, each with its origin. Values added later replace earlier ones.

    `notes` are warnings for the user.
    """

    def __init__(self) -> None:
        self._values: dict[Key, tuple[object, str]] = {}
        self.notes: list[str] = []
        # Names of bots and triggers, because their sections may have no values.
        self._bots: set[str] = set()
        self._triggers: set[str] = set()

    def add_file(self, path: Path) -> None:
        """Add the values of a TOML file. A file that does not exist adds nothing.

        Raises:
            ConfigError: The file cannot be read, is not valid TOML, or has an unknown key.
        """
        self.add_text(read_text(path), path)

    def add_text(self, text: str, path: Path) -> None:
        """Add the values of the TOML text that a file has, or will have.

        Raises:
            ConfigError: The text is not valid TOML, or has an unknown key.
        """
        try:
            table = tomllib.loads(text)
        except ValueError as error:  # not only TOMLDecodeError: also for a number with thousands of digits
            lines = text.rstrip("\n").count("\n") + 1
            why = str(error).replace("at end of document", f"at line {lines}, the end")
            raise ConfigError(
                "{path} is not valid TOML: {why}.",
                "Put texts in quotes and lists in brackets.",
                path=path,
                why=why,
            ) from None
        except RecursionError:
            raise ConfigError(
                "{path} is nested too deeply.", "No key has more than a list.", path=path
            ) from None
        self._add_table(table, (), path.name)

    def add_environment(self, environment: Mapping[str, str]) -> None:
        """Add the values of the variables `RUMI_SECTION__KEY`, or `RUMI_KEY` for a key outside all sections.

        Variables that start with `RUMI_` but name no key, such as `RUMI_HOME`, are ignored.

        Raises:
            ConfigError: A name with two underscores names no key, or a value does not fit the key's type.
        """
        for name in sorted(environment):
            if not name.startswith(_PREFIX):
                continue
            key = tuple(name.removeprefix(_PREFIX).lower().split("__"))
            if key[:1] == _MCP and len(key) > 1:
                raise ConfigError(
                    "{name} is not allowed: servers of tools are named in config.toml only.",
                    "Unset it, and use: rumi mcp add",
                    name=name,
                )
            if len(key) == 1 and not (key[0] in Settings.model_fields and _section_at(key) is None):
                _refuse_single_underscore(name, key[0])
                if meant := _near(name):
                    note = Text("Unknown variable {name}: did you mean {meant}?", name=name, meant=meant)
                    self.notes.append(note)
                continue
            value = unquoted(environment[name])
            key = self._known(key, value, name)
            self._values[key] = (_converted(key, value, name), name)

    def add_flags(self, flags: Mapping[str, object], origin: str = "flag") -> None:
        """Add the values of command-line flags, by dotted key. None stands for a flag that was not used.

        Raises:
            ConfigError: A key is unknown, or a value cannot be converted to the key's type.
        """
        for dotted, value in flags.items():
            if value is None:
                continue
            key = self._known(split_key(dotted), value, origin)
            self._values[key] = (_converted(key, value, origin), origin)

    def origin(self, dotted: str) -> str:
        """Return the origin of a key's value or, if it has no value, of the value of its general key."""
        key = split_key(dotted)
        found = self._values.get(key) or self._values.get(GENERAL.get(key, ()))
        return found[1] if found else "default"

    def spelled(self, dotted: str, origin: str = "") -> Key:
        """Parse a dotted name into a key. A custom server's name is spelled as in the file.

        Raises:
            ConfigError: The key is unknown, or is a section; the message names `origin`.
        """
        return self._known(split_key(dotted), {}, origin)

    def value(self, dotted: str) -> object:
        """Return the value that was added for a key, before validation."""
        return self._values[self.spelled(dotted)][0]

    def settings(self) -> Settings:
        """Validate the values and return the settings; keys without a value get their defaults.

        Raises:
            ConfigError: A value is not allowed.
        """
        tree: dict[str, Any] = {
            _TELEGRAM[0]: {name: {} for name in sorted(self._bots)},
            _TRIGGERS[0]: {name: {} for name in sorted(self._triggers)},
        }
        general = {key: self._values[of] for key, of in GENERAL.items() if of in self._values}
        for key, (value, _) in (general | self._values).items():
            if value is None and key[:-1] in MAPS:  # an empty variable removes the entry of the file
                continue
            table = tree
            for name in key[:-1]:
                table = table.setdefault(name, {})
            table[key[-1]] = value
        try:
            settings = Settings.model_validate(tree)
        except ValidationError as error:
            raise self._not_allowed(error.errors(include_url=False)[0]) from None
        self._check_models(settings)
        check_people(settings)
        check_services(settings)
        return settings

    def _add_table(self, table: Mapping[str, object], prefix: Key, origin: str) -> None:
        section = _section_at(prefix)
        for name, value in table.items():
            key = (*prefix, name)
            if (
                section is not None
                and name not in section.model_fields
                and not (isinstance(value, dict) and _is_bot(key))
            ):
                raise _unknown(key, value, origin, section.model_fields)
            map_or_table = key in (*_TABLES, *MAPS)
            if prefix in MAPS or (section is not None and not map_or_table and _section_at(key) is None):
                self._values[key] = (_frozen(value), origin)
            elif not isinstance(value, dict):
                raise ConfigError(
                    "{key} = {value} ({origin}) is not allowed.",
                    "It is a section: [{key}].",
                    key=_dotted(key),
                    value=_shown(key, value),
                    origin=origin,
                )
            else:
                if _is_bot(key):
                    self._bots.add(name)
                if prefix == _TRIGGERS:
                    self._triggers.add(name)
                self._add_table(value, key, origin)

    def _known(self, key: Key, value: object, origin: str) -> Key:
        """Check that the key exists, and return it with the original spelling of a name within a section.

        Keys from environment variables are in lower case. The original spelling is taken from earlier layers.

        Raises:
            ConfigError: The key is unknown, or is a section.
        """
        if key[:2] in _NESTED and len(key) == 4:
            names = {known[2] for known in self._values if known[:2] == key[:2]}
            written = next((name for name in sorted(names) if name.lower() == key[2].lower()), key[2])
            key = (*key[:2], written, key[3])
        for length in range(len(key)):
            section = _section_at(key[:length])
            if section is None and key[:length] not in (*_TABLES, *MAPS):
                raise ConfigError(
                    "Unknown key {key} ({origin}).",
                    "{value} is not a section.",
                    key=_dotted(key),
                    origin=origin,
                    value=_dotted(key[:length]),
                )
            of_bot = length < len(key) - 1 and _is_bot(key[: length + 1])
            if section is not None and key[length] not in section.model_fields and not of_bot:
                raise _unknown(key, value, origin, section.model_fields, length)
        if _section_at(key) is not None or key in (*_TABLES, *MAPS):
            raise ConfigError(
                "{key} ({origin}) is a section and has no value.",
                "Name one of its keys: {prefix}{section}__KEY.",
                key=_dotted(key),
                origin=origin,
                prefix=_PREFIX,
                section="__".join(key).upper(),
            )
        return key

    def _not_allowed(self, error: ErrorDetails) -> ConfigError:
        names = tuple(str(part) for part in error["loc"] if isinstance(part, str) and part != "[key]")
        if error["type"] == "missing":
            return ConfigError(
                "{names} is missing.",
                "[{section}] needs it.",
                names=_dotted(names),
                section=_dotted(names[:-1]),
            )
        expected = _EXPECTED.get(error["type"]) or error["msg"].removeprefix("Value error, ").removeprefix(
            "Input should be "
        )
        key = next(
            (names[:length] for length in range(len(names), 0, -1) if names[:length] in self._values), ()
        )
        if not key:  # a custom server's name
            return ConfigError(
                "[{names}] is not allowed.", "Allowed: {expected}.", names=_dotted(names), expected=expected
            )
        value, origin = self._values[key]
        setting = _dotted(key)
        for index in (part for part in error["loc"] if isinstance(part, int)):
            if isinstance(value, tuple):
                value, setting = value[index], f"{setting}[{index}]"
        return ConfigError(
            "{setting} = {key} ({origin}) is not allowed.",
            "Allowed: {expected}.",
            setting=setting,
            key=_shown(key, value),
            origin=origin,
            expected=expected,
        )

    def _check_models(self, settings: Settings) -> None:
        """Check that every model name in the settings refers to an existing alias or custom server."""
        model = settings.model
        for key, name in [
            ("model.default", model.default),
            *((f"model.fallbacks[{at}]", name) for at, name in enumerate(model.fallbacks)),
            *((f"model.aliases.{alias}", name) for alias, name in model.aliases.items()),
            ("research.model", settings.research.model or model.default),
        ]:
            origin = self.origin(key.partition("[")[0])
            server = name.removeprefix("custom:")
            if server != name and server not in model.custom:
                known = (
                    ", ".join(f"custom:{server_name}" for server_name in model.custom) or "none is defined"
                )
                raise ConfigError(
                    "{key} = {shown} ({origin}) is not allowed.",
                    "It needs a section [model.custom.{server}]; custom models: {known}.",
                    key=key,
                    shown=_shown((), name),
                    origin=origin,
                    server=server,
                    known=known,
                )
            if ":" not in name and name != OFFLINE and name not in model.aliases:
                aliases = ", ".join(model.aliases) or "none is defined"
                raise ConfigError(
                    "{key} = {shown} ({origin}) is not allowed.",
                    "Allowed: {choices}; aliases: {aliases}.",
                    key=key,
                    shown=_shown((), name),
                    origin=origin,
                    choices=CHOICES,
                    aliases=aliases,
                )


def split_key(dotted: str) -> Key:
    """Split a dotted key into its parts. A model's name may contain dots: `prices.custom:a.b.input`."""
    parts = tuple(dotted.split("."))
    if parts[:1] == _PRICES and len(parts) > 3:
        return ("prices", ".".join(parts[1:-1]), parts[-1])
    return parts


def _section_at(key: Key) -> type[Section] | None:
    if key == ():
        return Settings
    if len(key) == 3 and key[:2] in _NESTED:
        return _NESTED[key[:2]]
    if len(key) == 2 and key[:1] == _PRICES:
        return PriceSection
    if len(key) == 2 and key[:1] == _MCP:
        return McpSection
    if len(key) == 2 and key[:1] in _NAMED:
        return _NAMED[key[:1]]
    if _is_bot(key):
        return TelegramBotSection
    found = Settings.model_fields.get(key[0]) if len(key) == 1 else None
    annotation = found.annotation if found else None
    return annotation if isinstance(annotation, type) and issubclass(annotation, Section) else None


def _is_bot(key: Key) -> bool:
    """Return True if the key denotes the section of an additional Telegram bot."""
    return len(key) == 2 and key[:1] == _TELEGRAM and key[1] not in TelegramSection.model_fields


def _unknown(
    key: Key, value: object, origin: str, known: Iterable[str], wrong: int | None = None
) -> ConfigError:
    """Return the error for an unknown key. `wrong` is the index of its unknown part, by default the last."""
    at = len(key) - 1 if wrong is None else wrong
    name, names, section = key[at], list(known), key[:at]
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.6)
    advice = []
    if name.upper() in NAMES:
        advice.append(Text("{name} belongs in the environment or in .env.", name=name.upper()))
    elif near:
        meant = _dotted((*section, near[0], *key[at + 1 :]))
        advice.append(Text("Did you mean {meant}?", meant=meant))
    shown = "" if isinstance(value, dict) else f" = {_shown(key, value)}"
    listed = ", ".join(names)
    if section:
        advice.append(Text("Known in [{section}]: {names}.", section=_dotted(section), names=listed))
    else:
        advice.append(Text("Known sections and keys: {names}.", names=listed))
    return ConfigError(
        "Unknown key {key}{shown} ({origin}).",
        joined(advice),
        key=_dotted(key),
        shown=shown,
        origin=origin,
    )


def _refuse_single_underscore(name: str, rest: str) -> None:
    """Refuse a variable that has one underscore where two are needed, such as `RUMI_SANDBOX_MEMORY`."""
    for section in Settings.model_fields:
        fields = getattr(_section_at((section,)), "model_fields", {})
        key = rest.removeprefix(f"{section}_")
        if key != rest and key in fields and (section, key) not in _NESTED:
            meant = f"{_PREFIX}{section.upper()}__{key.upper()}"
            raise ConfigError(
                "Unknown variable {name}.",
                "Did you mean {meant}, with two underscores?",
                name=name,
                meant=meant,
            )


def _near(name: str) -> str:
    """Return the variable that is probably meant by an unknown variable; empty if none is similar."""
    rest = name.removeprefix(_PREFIX).upper()
    if rest == "HOME":
        return ""
    if rest in NAMES:
        return rest
    variables = [f"{_PREFIX}HOME"]
    for section in Settings.model_fields:
        found = _section_at((section,))
        keys = found.model_fields if found is not None else {}
        variables += [f"{_PREFIX}{section}__{key}".upper() for key in keys]
        if found is None and (section,) not in (*_TABLES, *MAPS):
            variables.append(f"{_PREFIX}{section}".upper())
    of_one_section = [variable for variable in variables if variable.endswith(f"__{rest}")]
    if len(of_one_section) == 1:
        return of_one_section[0]
    return next(iter(difflib.get_close_matches(name.upper(), variables, n=1, cutoff=0.85)), "")


def _converted(key: Key, value: object, origin: str) -> object:
    """Convert a text from a variable or a flag to the key's type; return other values unchanged."""
    if not isinstance(value, str):
        return _frozen(value)
    if key[:-1] in MAPS:
        return value or None
    section = _section_at(key[:-1])
    annotation = section.model_fields[key[-1]].annotation if section else str
    types = types_in(annotation)
    if type(None) in types and value == "":
        return None
    error = ConfigError(
        "{key} = {value} ({origin}) is not allowed.",
        key=_dotted(key),
        value=_shown(key, value),
        origin=origin,
    )
    if tuple in types:
        items = fitted(annotation, value)
        if not isinstance(items, tuple):
            error.advice = Text('Allowed: a list as JSON, such as ["a", "b"] or [1, 2].')
            raise error
        return items
    base = next((number_type for number_type in (bool, int, float) if number_type in types), None)
    if base is None:
        return value
    if not isinstance(found := fitted(annotation, value), str):
        return found
    try:
        return TypeAdapter(base).validate_python(value)
    except ValidationError as invalid:
        detail = invalid.errors(include_url=False)[0]
        error.advice = Text("Allowed: {allowed}.", allowed=_EXPECTED.get(detail["type"], detail["msg"]))
        raise error from None


def _frozen(value: object) -> object:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def _dotted(key: Key) -> str:
    return ".".join(name if _PLAIN_NAME.fullmatch(name) else json.dumps(name)[:_SHOWN_CHARS] for name in key)


def _without_secrets(key: Key, value: object) -> object:
    if isinstance(value, str) and any(_SECRET_NAME.search(name) for name in key[-2:]):
        return HIDDEN
    if isinstance(value, dict):
        return {name: _without_secrets((*key, str(name)), member) for name, member in value.items()}
    return value


def _shown(key: Key, value: object) -> str:
    """Return a value as it is shown in an error message: short, on one line, without secrets."""
    value = _without_secrets(key, value)
    if value == HIDDEN:
        return HIDDEN
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, TypeError):  # a number with thousands of digits, or a table with a date as its key
        text = f"({type(value).__name__})"
    text = Redactor(()).text(text)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
