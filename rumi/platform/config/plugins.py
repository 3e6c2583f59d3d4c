"""Plugins: installed distributions that extend Rumi by entry points, and how they are found and loaded.

A distribution names its extensions in the entry point groups `GROUPS`. Each entry point leads to a
`Registration`. A plugin is loaded only if `[plugins.NAME] enabled = true` names its distribution: being
installed is not enough, because loading runs its code. Rumi's own channels are registered the same way.
"""

import dataclasses
import importlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, TypeVar

from rumi.errors import ConfigError, RumiError, single
from rumi.platform.config.schema import PluginSection
from rumi.platform.config.secrets import Secrets, plugin_key
from rumi.texts import Text, add_catalogues

API: Final = (1, 0)
"""The version of the interface `rumi.api`: a plugin for 1.0 works with 1.0 and every later 1.x."""

GROUPS: Final = ("rumi.channels", "rumi.tools", "rumi.models", "rumi.tasks", "rumi.readers")

FOLDER: Final = "plugins"
"""The name of the folder in the home in which each plugin has a folder."""

ENTRY_NAME: Final = re.compile(r"[a-z][a-z0-9]{0,15}")
_VERSION: Final = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})")
_MOST_NOTES: Final = 20
MOST_NOTE_CHARS: Final = 500

R = TypeVar("R", bound="Registration")


@dataclass(frozen=True, slots=True)
class PluginEntry:
    """An entry point: its group, its name in the group, and its target, `module:attribute`."""

    group: str
    name: str
    target: str

    def load(self) -> object:
        """Import and return the target.

        Raises:
            Exception: The import failed. A module may raise anything.
        """
        module, _, attribute = self.target.partition(":")
        found: object = importlib.import_module(module)
        for name in filter(None, attribute.split(".")):
            found = getattr(found, name)
        return found


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """A distribution with entry points for Rumi. `name` is normalized: lower case, with `-`."""

    name: str
    version: str
    entries: tuple[PluginEntry, ...]


@dataclass(frozen=True, slots=True)
class PluginContext:
    """What a plugin gets of this installation: its settings, its secrets and its folder.

    `settings` is an instance of the registration's `settings` class; None if it has none. `folder` is in the
    home; it may not exist yet. `secret` returns a secret of `[plugins.NAME.secrets]` by its name, and raises
    `ConfigError` if it is not set or cannot be read. `role` is the role of the people on its channels.
    """

    plugin: str
    settings: object
    folder: Path
    secret: Callable[[str], str] = field(repr=False)
    role: str = "member"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The base of what entry points lead to. `api` is the version of `rumi.api` for which it was written.

    `settings` is a dataclass, whose fields are the keys of `[plugins.NAME.settings]`. `locale` is the folder
    of catalogues for the plugin's own texts: `LANGUAGE/LC_MESSAGES/plugin.mo`, with the English texts as
    keys.
    """

    group: ClassVar[str] = ""

    api: str
    settings: type[object] | None = None
    locale: Path | None = None


@dataclass(frozen=True, slots=True)
class PluginPart(Generic[R]):
    """A loaded registration with its entry point's name and its plugin's context."""

    name: str
    registration: R
    context: PluginContext


class PluginNotes:
    """What is wrong in plugins, by what fails, for the status, `rumi plugins` and `rumi doctor`.

    A later success removes the note.
    """

    def __init__(self) -> None:
        self._notes: dict[str, dict[str, str]] = {}

    def add(self, plugin: str, what: str, error: BaseException) -> None:
        """Note that `what` of a plugin has failed, such as `receive` of its channel."""
        only = single(error)
        said = only.text if isinstance(only, RumiError) else fault_of(only)
        notes = self._notes.setdefault(plugin, {})
        notes.pop(what, None)
        notes[what] = Text("{what}: {said}", what=what, said=said) if what else said
        if len(notes) > _MOST_NOTES:
            del notes[next(iter(notes))]

    def clear(self, plugin: str, what: str) -> None:
        """Remove the note that `what` of a plugin has failed: it works now."""
        self._notes.get(plugin, {}).pop(what, None)

    def of(self, plugin: str) -> tuple[str, ...]:
        """Return the notes on a plugin, oldest first."""
        return tuple(self._notes.get(plugin, {}).values())


class Plugins:
    """The plugins that the configuration enables. Each is loaded when its kind of extension is first needed.

    A plugin that cannot be loaded leaves a note, and the others are used.
    """

    def __init__(
        self,
        sections: Mapping[str, PluginSection] | None = None,
        home: Path = Path(),
        secrets: Secrets | None = None,
    ) -> None:
        self._sections = sections or {}
        self._home = home
        self._secrets = secrets or Secrets()
        self._installed: dict[str, InstalledPlugin] | None = None
        self._loaded: dict[PluginEntry, object] = {}
        self._parts: dict[str, tuple[PluginPart[Any], ...]] = {}  # by group: each turn asks for them
        self.notes = PluginNotes()

    @property
    def enabled(self) -> tuple[str, ...]:
        """The names of the enabled plugins."""
        return tuple(name for name, section in self._sections.items() if section.enabled)

    def with_secrets(self, secrets: Secrets) -> "Plugins":
        """Return the same plugins, with secrets that were read meanwhile."""
        copied = Plugins(self._sections, self._home, secrets)
        copied._installed, copied._loaded, copied.notes = self._installed, self._loaded, self.notes
        return copied

    def installed(self) -> Mapping[str, InstalledPlugin]:
        """Return all installed plugins by name, also those that are not enabled. Blocking."""
        if self._installed is None:
            self._installed = {plugin.name: plugin for plugin in find_plugins()}
        return self._installed

    def use(self, plugin: InstalledPlugin, registrations: Mapping[PluginEntry, object]) -> None:
        """Use a plugin that is not installed, with its loaded registrations: for tests."""
        self._installed = {**(self._installed or {}), plugin.name: plugin}
        self._loaded |= registrations
        self._parts.clear()

    def of(self, kind: type[R]) -> tuple[PluginPart[R], ...]:
        """Return what the enabled plugins register in the group of `kind`; the first call imports it. Blocks.

        A registration that cannot be used is left out, and leaves a note.
        """
        if kind.group not in self._parts:
            self._parts[kind.group] = self._made(kind)
        return self._parts[kind.group]

    def _made(self, kind: type[R]) -> tuple[PluginPart[R], ...]:
        found: dict[str, PluginPart[R]] = {}
        for plugin in self.enabled:
            installed = self.installed().get(plugin)
            if installed is None:
                self.notes.add(plugin, "", RumiError("It is not installed in this environment."))
                continue
            for entry in installed.entries:
                if entry.group != kind.group:
                    continue
                try:
                    if entry.name in found:
                        other = found[entry.name].context.plugin
                        raise RumiError(
                            "{group} has {name} already: the plugin {other} brings it.",
                            group=entry.group,
                            name=entry.name,
                            other=other,
                        )
                    registration = self._registration(entry, kind)
                    context = self._context(plugin, registration.settings, installed)
                except BaseException as error:
                    if not is_fault(error):
                        raise
                    self.notes.add(plugin, f"{entry.group}: {entry.name}", error)
                    continue
                found[entry.name] = PluginPart(entry.name, registration, context)
        return tuple(found.values())

    def _registration(self, entry: PluginEntry, kind: type[R]) -> R:
        if ENTRY_NAME.fullmatch(entry.name) is None:
            raise RumiError(
                "{group} names {name}: a name has up to 16 lower-case letters and digits.",
                group=entry.group,
                name=f"{entry.name!r}",
            )
        found = self._load(entry)
        if not isinstance(found, kind):
            raise RumiError(
                "{target} is no {kind}, which {group} needs.",
                target=entry.target,
                kind=kind.__name__,
                group=entry.group,
            )
        if not isinstance(found.api, str) or not is_compatible(found.api):
            raise RumiError(
                "{target} is for version {api} of rumi.api, and this Rumi has {own}.",
                target=entry.target,
                api=found.api,
                own=".".join(map(str, API)),
            )
        if found.locale is not None:
            add_catalogues("plugin", found.locale)
        return found

    def _load(self, entry: PluginEntry) -> object:
        """Import an entry point's target, once.

        Raises:
            RumiError: The import failed.
        """
        if entry not in self._loaded:
            try:
                self._loaded[entry] = entry.load()
            except BaseException as error:
                if not is_fault(error):
                    raise
                raise RumiError(
                    "{target} cannot be imported: {why}",
                    target=entry.target,
                    why=fault_of(error),
                ) from error
        return self._loaded[entry]

    def _context(
        self, plugin: str, settings: type[object] | None, installed: InstalledPlugin
    ) -> PluginContext:
        section = self._sections[plugin]
        of_all = []  # all registrations of a plugin share its settings
        for entry in installed.entries:
            with suppress(RumiError):
                if isinstance(registration := self._load(entry), Registration):
                    of_all.append(registration.settings)
        values = _validated(plugin, settings, section.settings, of_all)

        def secret(name: str) -> str:
            key = plugin_key(plugin, name)
            if (fault := self._secrets.faults.get(key)) is not None:
                raise fault
            if (found := self._secrets.keys.get(key)) is None:
                raise ConfigError(
                    "The plugin {plugin} needs the secret {name}.",
                    'Set it in config.toml: [plugins.{plugin}.secrets] {name} = "$VARIABLE"',
                    plugin=plugin,
                    name=name,
                )
            return found.reveal()

        return PluginContext(plugin, values, self._home / FOLDER / plugin, secret, section.role)


def is_fault(error: BaseException) -> bool:
    """Return True for what a plugin's code may raise without ending the process.

    `sys.exit()` in a plugin ends nothing. Ctrl-C and cancellations are not the plugin's, and go on.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(is_fault(each) for each in error.exceptions)
    return isinstance(error, Exception | SystemExit | GeneratorExit)


def parted(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Return the part of an error that is a plugin's fault, and the rest, such as a cancellation."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(is_fault)
    return (error, None) if is_fault(error) else (None, error)


def fault_of(error: BaseException) -> str:
    """Return what a plugin's error says, in one bounded line."""
    only = single(error)
    return only.message if isinstance(only, RumiError) else f"{type(only).__name__}: {only}"[:500]


def is_compatible(api: str) -> bool:
    """Return True if a registration for this version of `rumi.api` works with this version."""
    matched = _VERSION.fullmatch(api)
    return matched is not None and int(matched[1]) == API[0] and int(matched[2]) <= API[1]


def find_plugins() -> Iterator[InstalledPlugin]:
    """Yield the installed plugins, without importing any. Blocking: reads the metadata of all distributions.

    A distribution whose metadata cannot be read is no plugin.
    """
    from importlib.metadata import distributions

    seen: set[str] = set()
    for distribution in distributions():
        try:
            name = re.sub(r"[-_.]+", "-", str(distribution.metadata["Name"] or "")).lower()
            if name in seen:  # the first one on the path is the one that is imported
                continue
            seen.add(name)
            entries = tuple(
                PluginEntry(point.group, point.name, point.value.partition("[")[0].strip())
                for point in distribution.entry_points
                if point.group in GROUPS
            )
            version = distribution.version
        except Exception:  # noqa: BLE001  # metadata is a file that anybody can have changed
            continue
        if entries and name:
            yield InstalledPlugin(name, version or "", entries)


def _validated(
    plugin: str,
    settings: type[object] | None,
    values: Mapping[str, object],
    of_all: Collection[type[object] | None],
) -> object:
    """Return an instance of a plugin's settings class, made from its section.

    Raises:
        ConfigError: A key is unknown, or a value is not allowed.
    """
    known = {
        field.name for kind in of_all if dataclasses.is_dataclass(kind) for field in dataclasses.fields(kind)
    }
    if unknown := sorted(set(values) - known):
        raise ConfigError(
            "Unknown key plugins.{plugin}.settings.{key}.",
            "Known in [plugins.{plugin}.settings]: {names}.",
            plugin=plugin,
            key=unknown[0],
            names=", ".join(sorted(known)) or "-",
        )
    if settings is None:
        return None
    from pydantic import TypeAdapter, ValidationError

    fields = dataclasses.fields(settings) if dataclasses.is_dataclass(settings) else ()
    own = {field.name: values[field.name] for field in fields if field.name in values}
    try:
        return TypeAdapter(settings).validate_python(own)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(("plugins", plugin, "settings", *map(str, first["loc"])))
        if first["type"] == "missing":
            raise ConfigError("{key} is missing.", key=key) from None
        why = first["msg"].removeprefix("Value error, ")
        raise ConfigError("{key} is not allowed: {why}.", key=key, why=why) from None
