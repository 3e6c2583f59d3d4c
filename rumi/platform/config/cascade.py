"""Loading of the configuration: flags, environment variables, config.toml and defaults.

Each of these sources overrides the sources listed after it. The loaded configuration records the origin of
each value.
"""

import hashlib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from rumi.errors import ConfigError
from rumi.platform.config.editing import as_toml
from rumi.platform.config.layers import ConfigLayers
from rumi.platform.config.plugins import Plugins
from rumi.platform.config.providers import PROVIDERS
from rumi.platform.config.schema import (
    McpSection,
    PluginSection,
    Section,
    Settings,
    TelegramBotSection,
    TelegramSection,
    references,
)
from rumi.platform.config.secrets import (
    NAMES,
    Secret,
    Secrets,
    key_references,
    key_setting,
    load_secrets,
    private_addresses,
)
from rumi.platform.redact import Redactor
from rumi.texts import Text

FILE_NAME = "config.toml"

OWN = ("language", "skills.disabled", "telegram.", "terminal.workspace")
"""Configuration keys, or prefixes of keys, that an attached client may set differently from the daemon."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of `rumi config show`: a key, its value as TOML (empty if not set), and its origin.

    The value of a secret is shown only as `set` or `not set`.
    """

    key: str
    value: str
    origin: str
    secret: bool = False

    def to_json(self) -> dict[str, object]:
        """Return the row as JSON. A secret has no value; `set` says if a key or a secret has one."""
        value = None if self.secret or not self.value else tomllib.loads(f"value = {self.value}")["value"]
        return {
            "key": self.key,
            "value": value,
            "origin": self.origin or None,
            "secret": self.secret,
            "set": bool(self.origin) and (self.secret or value is not None),
        }


@dataclass(frozen=True, slots=True)
class Loaded:
    """The effective configuration.

    `origins` maps every dotted key to the origin of its value: `default`, `config.toml`, the name of a
    variable (`RUMI_…`) or `flag`. `notes` are warnings for the user. `plugins` are the enabled plugins.
    """

    settings: Settings
    origins: Mapping[str, str]
    secrets: Secrets = field(repr=False)
    notes: tuple[str, ...]
    plugins: Plugins = field(default_factory=Plugins, repr=False)

    def key(self, name: str) -> Secret | None:
        """Return the API key of the provider with this scheme or `custom:NAME`; None if no key is configured.

        Raises:
            ConfigError: The key's reference names a variable that is not set, or its command has failed.
        """
        if (fault := self.secrets.faults.get(name)) is not None:
            raise ConfigError(fault.message, fault.advice)
        return self.secrets.keys.get(name)

    def bots(self) -> dict[str, Secret | None]:
        """Return a mapping of each Telegram bot's name to its token, or to None if the token is not set.

        The first bot has an empty name. If it has no token, it is included only if there are no other bots.
        """
        first, found = self.secrets.telegram_token, self.secrets.referenced
        named = {name: found.get(TelegramBotSection.variable(name)) for name in self.settings.telegram.bots}
        return named if first is None and named else {"": first, **named}

    def is_of_this_run(self, key: str) -> bool:
        """Return True if the key's value comes from a flag or a variable, so it applies only to this run."""
        return self.origins[key] not in ("default", FILE_NAME)

    def marks(self) -> dict[str, str]:
        """Return a hash of each configured value, to compare the configurations of two processes.

        Secrets are hashed as well. The keys in `OWN` are excluded, because a difference in them does no harm:
        each client and each turn may have a different language and different disabled skills, only `rumi
        telegram` uses Telegram's settings, and only a client asks where to work.
        """
        values = [(key, repr(value)) for key, value in _leaves(self.settings)]
        secrets = self.secrets
        known = {
            **{_key_name(name): key for name, key in secrets.keys.items() if name not in secrets.commands},
            "TAVILY_API_KEY": secrets.tavily_api_key,
            "KAGI_API_KEY": secrets.kagi_api_key,
            "KAGI_SESSION_TOKEN": secrets.kagi_session_token,
            "TABSTACK_API_KEY": secrets.tabstack_api_key,
        }
        values += [(name, secret.reveal() if secret else "") for name, secret in known.items()]
        values += [(PROVIDERS[name].base_url_variable, url) for name, url in secrets.base_urls.items()]
        return {
            key: hashlib.sha256(f"{key}={value}".encode()).hexdigest()[:16]
            for key, value in values
            if not key.startswith(OWN)
        }

    def rows(self) -> list[Row]:
        """Return a row for every configuration key, followed by a row for every secret."""
        # A user may have written a key into a command by mistake, or a calendar's private address as it is.
        hide = Redactor(private_addresses(self.settings).values()).text
        rows = [Row(key, hide(as_toml(value)), self.origins[key]) for key, value in _leaves(self.settings)]
        for name in (*NAMES, *map(TelegramBotSection.variable, self.settings.telegram.bots)):
            origin = self.secrets.origins.get(name, "")
            rows.append(Row(name, "set" if origin else "not set", origin, secret=True))
        return rows


def load_settings(home: Path, environment: Mapping[str, str], flags: Mapping[str, object]) -> Loaded:
    """Read the whole configuration. `flags` maps dotted keys (`model.default`) to values; None means not set.

    Raises:
        ConfigError: A key is unknown, a value is not allowed, or a file cannot be read.
    """
    layers = ConfigLayers()
    layers.add_file(home / FILE_NAME)
    layers.add_environment(environment)
    layers.add_flags(flags)
    settings = layers.settings()
    origins = {key: layers.origin(key) for key, _ in _leaves(settings)}
    secrets = load_secrets(home, environment, key_references(settings), variables_of(settings))
    given = {name: Secret(url) for name, url in private_addresses(settings).items()}
    secrets = replace(secrets, keys={**secrets.keys, **given})
    plugins = Plugins(settings.plugins, home, secrets)
    return Loaded(settings, origins, secrets, (*_notes(home), *layers.notes), plugins)


def _key_name(name: str) -> str:
    """Return the name by which users know a model server's API key."""
    return PROVIDERS[name].key_variable if name in PROVIDERS else key_setting(name)


def variables_of(settings: Settings) -> frozenset[str]:
    """Return the names of variables that MCP servers refer to or that hold tokens of additional bots."""
    servers = settings.mcp.values()
    texts = (
        text
        for server in servers
        for text in (*server.env.values(), *server.headers.values(), server.client_secret)
    )
    tokens = map(TelegramBotSection.variable, settings.telegram.bots)
    return frozenset((*(name for text in texts for name in references(text)), *tokens))


def _notes(home: Path) -> tuple[str, ...]:
    path = home / ".env"
    try:
        open_to_others = path.stat().st_mode & 0o077
    except OSError:
        return ()
    return (Text("{path} can be read by others: chmod 600 {path}", path=path),) if open_to_others else ()


def _leaves(section: Section, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield each dotted key with its value. Sections whose names users choose are included."""
    named = section.bots if isinstance(section, TelegramSection) else {}
    for name in (*type(section).model_fields, *named):
        value = getattr(section, name)
        if isinstance(value, Section):
            yield from _leaves(value, f"{prefix}{name}.")
        elif isinstance(value, dict) and not isinstance(section, McpSection | PluginSection):
            for key, inner in value.items():
                if isinstance(inner, Section):
                    yield from _leaves(inner, f"{prefix}{name}.{key}.")
                else:
                    yield f"{prefix}{name}.{key}", inner
        else:
            yield f"{prefix}{name}", value
