"""Reads API keys and tokens from the environment and from `.env` in the home.

A `.env` in the working folder is never read: another person may have written it so that the keys are sent to
another server. `os.environ` is never changed, so that child processes do not inherit secrets that were read
from `.env`.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from rumi.errors import ConfigError
from rumi.platform.config.files import read_text
from rumi.platform.config.providers import PROVIDERS
from rumi.platform.config.sources import KEY_FORMS, key_source
from rumi.platform.home_path import unquoted

if TYPE_CHECKING:
    from rumi.platform.config.schema import Settings


@dataclass(frozen=True, slots=True)
class Secret:
    """Wraps a secret value, so that `repr`, f-strings and logs do not show it."""

    _value: str = field(repr=False)

    def reveal(self) -> str:
        """Return the plain value, for the code that sends it."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(hidden)"

    __str__ = __repr__


def plain(secret: Secret | None) -> str:
    """Return the plain value of a secret; empty if it is not set."""
    return "" if secret is None else secret.reveal()


@dataclass(frozen=True, slots=True)
class Secrets:
    """The secrets of this process. A secret that is not set is None.

    `origins` maps the name of each secret that is set to `environment` or `.env`. `keys` are the API keys of
    servers, secrets of triggers and passwords of the browser, by the provider's scheme, `custom:NAME`, or the
    name of a setting such as `voice.api_key`.
    `commands`, by the same names, are commands that print a key; the module `rumi.platform.config.commands`
    runs them. `faults`, also by these names, are the errors of keys that could not be read. `base_urls` are
    the URLs of test servers and proxies. The URLs are not secret, but secrets are sent to them. `referenced`
    has the values of variables that MCP servers refer to, and the tokens of additional bots.
    """

    telegram_token: Secret | None = None
    telegram_base_url: str | None = None
    tavily_api_key: Secret | None = None
    kagi_api_key: Secret | None = None
    kagi_session_token: Secret | None = None
    tabstack_api_key: Secret | None = None
    mcp_token: Secret | None = None
    store_token: Secret | None = None
    store_password: Secret | None = None
    referenced: Mapping[str, Secret] = field(default_factory=dict)
    keys: Mapping[str, Secret] = field(default_factory=dict)
    base_urls: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[str, str] = field(default_factory=dict)
    faults: Mapping[str, ConfigError] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)

    @property
    def groq_api_key(self) -> Secret | None:
        """The API key of Groq, which serves models and transcriptions."""
        return self.keys.get("groq")

    @property
    def groq_base_url(self) -> str | None:
        """The URL that overrides Groq's default URL, or None."""
        return self.base_urls.get("groq")

    @property
    def unread(self) -> Mapping[str, str]:
        """The commands that have not run yet, each by the name of the API key that it prints."""
        return {
            name: text
            for name, text in self.commands.items()
            if name not in self.keys and name not in self.faults
        }

    def values(self) -> Iterator[str]:
        """Yield the plain value of every secret, for the redactor."""
        kagi = (self.kagi_api_key, self.kagi_session_token)
        known = (
            self.telegram_token,
            self.tavily_api_key,
            self.tabstack_api_key,
            self.mcp_token,
            self.store_token,
            self.store_password,
            *kagi,
        )
        for secret in (*known, *self.referenced.values(), *self.keys.values()):
            if secret is not None:
                yield secret.reveal()


PROVIDER_NAMES = tuple(
    name for row in PROVIDERS.values() for name in (row.key_variable, row.base_url_variable)
)
NAMES = (
    *PROVIDER_NAMES,
    *("TELEGRAM_TOKEN", "TELEGRAM_BASE_URL", "TAVILY_API_KEY", "KAGI_API_KEY", "KAGI_SESSION_TOKEN"),
    *("TABSTACK_API_KEY", "MCP_TOKEN", "STORE_TOKEN", "STORE_PASSWORD"),
)


VOICE_KEY = "voice.api_key"
SPEECH_KEY = "voice.speech_api_key"
IMAGES_KEY = "images.api_key"
"""The names of the keys of servers for voice and images, which are also the names of their settings."""


_TRIGGER = "triggers."


def trigger_key(name: str) -> str:
    """Return the name of a trigger's secret among the keys, which is also the name of its setting."""
    return f"{_TRIGGER}{name}.secret"


_CALENDARS = "calendars."
_MAIL = "mail."
_PASSWORDS = "browser.passwords."
_PLUGINS = "plugins."
_MATRIX = "matrix."
_SETTINGS = (_TRIGGER, _CALENDARS, _MAIL, _MATRIX, _PASSWORDS, _PLUGINS)


def calendar_key(name: str) -> str:
    """Return the name of a calendar's password among the keys, which is also the name of its setting."""
    return f"{_CALENDARS}{name}.password"


def calendar_url_key(name: str) -> str:
    """Return the name of a calendar's private address among the keys: the name of its setting."""
    return f"{_CALENDARS}{name}.url"


def mail_key(name: str) -> str:
    """Return the name of a mailbox's password among the keys, which is also the name of its setting."""
    return f"{_MAIL}{name}.password"


def matrix_key(name: str) -> str:
    """Return the name of a Matrix account's token among the keys, which is also the name of its setting."""
    return f"{_MATRIX}{name}.token"


def password_key(name: str) -> str:
    """Return the name of a password of the browser among the keys, which is also its setting."""
    return f"{_PASSWORDS}{name}.value"


def plugin_key(plugin: str, name: str) -> str:
    """Return the name of a plugin's secret among the keys, which is also the name of its setting."""
    return f"{_PLUGINS}{plugin}.secrets.{name}"


def key_setting(name: str) -> str:
    """Return the name of the setting that refers to a server's key."""
    if name in (VOICE_KEY, SPEECH_KEY, IMAGES_KEY) or name.startswith(_SETTINGS):
        return name
    custom = name.removeprefix("custom:")
    return f"model.keys.{name}" if custom == name else f"model.custom.{custom}.api_key"


def key_references(settings: "Settings") -> dict[str, str]:
    """Return the configured references to API keys.

    Their names are the provider's scheme, `custom:NAME`, or the setting: of a server for voice or images, of
    a trigger's secret, of a password of a calendar, a mailbox or the browser, of a Matrix account's token, or
    of a secret of an enabled plugin.
    """
    named = {
        **{f"custom:{name}": server.api_key for name, server in settings.model.custom.items()},
        VOICE_KEY: settings.voice.api_key,
        SPEECH_KEY: settings.voice.speech_api_key,
        IMAGES_KEY: settings.images.api_key,
        **{trigger_key(name): trigger.secret for name, trigger in settings.triggers.items()},
        **{calendar_key(name): calendar.password for name, calendar in settings.calendars.items()},
        **{
            calendar_url_key(name): calendar.url
            for name, calendar in settings.calendars.items()
            if calendar.url.startswith(("$", "!"))
        },
        **{mail_key(name): mailbox.password for name, mailbox in settings.mail.items()},
        **{matrix_key(name): account.token for name, account in settings.matrix.items()},
        **{password_key(name): password.value for name, password in settings.browser.passwords.items()},
        **{
            plugin_key(plugin, name): reference
            for plugin, section in settings.plugins.items()
            for name, reference in (section.secrets.items() if section.enabled else ())
        },
    }
    return {**settings.model.keys, **{name: text for name, text in named.items() if text is not None}}


def private_addresses(settings: "Settings") -> dict[str, str]:
    """Return the addresses of calendar files that the configuration has as plain values, by their names.

    Who knows such an address can read the calendar, so it is a secret. That of a CalDAV server is not.
    """
    return {
        calendar_url_key(name): calendar.url
        for name, calendar in settings.calendars.items()
        if not calendar.user and not calendar.url.startswith(("$", "!"))
    }


def load_secrets(
    home: Path,
    environment: Mapping[str, str],
    references: Mapping[str, str],
    variables: Collection[str] = (),
) -> Secrets:
    """Read the secrets from the environment and from `.env`; the environment takes precedence.

    `references` are the references to keys of model servers, by the server's name. `variables` are the names
    of additional variables to read. An empty variable counts as not set. Quotes and white space around
    a value, as Docker passes them on, are no part of it.

    Raises:
        ConfigError: `.env` cannot be read, or a reference is a word that is not the name of a set variable.
            The message shows neither lines of `.env` nor the word, because they may contain a secret.
    """
    file = _read_env_file(home / ".env")
    sources = {name: key_source(text) for name, text in references.items()}
    named = {*variables, *(source.variable for source in sources.values() if source.variable)}
    found: dict[str, str] = {}
    origins: dict[str, str] = {}
    for name in (*NAMES, *sorted(named)):
        for origin, source in (("environment", environment), (".env", file)):
            if value := unquoted(source.get(name, "")):
                found[name], origins[name] = value, origin
                break

    def secret(name: str) -> Secret | None:
        return Secret(found[name]) if name in found else None

    keys = {
        row.scheme: Secret(found[row.key_variable]) for row in PROVIDERS.values() if row.key_variable in found
    }
    faults: dict[str, ConfigError] = {}
    for name, reference in sources.items():
        keys.pop(name, None)
        if reference.variable in found:
            keys[name] = Secret(found[reference.variable])
        elif reference.bare:
            # The word may be the key itself, so the error does not show it.
            raise ConfigError("{name} is not the name of a set variable.", KEY_FORMS, name=key_setting(name))
        elif reference.variable:
            faults[name] = ConfigError(
                "{name} refers to ${variable}, which is not set.",
                "Set it in the environment or in .env.",
                name=key_setting(name),
                variable=reference.variable,
            )
    return Secrets(
        telegram_token=secret("TELEGRAM_TOKEN"),
        telegram_base_url=found.get("TELEGRAM_BASE_URL"),
        tavily_api_key=secret("TAVILY_API_KEY"),
        kagi_api_key=secret("KAGI_API_KEY"),
        kagi_session_token=secret("KAGI_SESSION_TOKEN"),
        tabstack_api_key=secret("TABSTACK_API_KEY"),
        mcp_token=secret("MCP_TOKEN"),
        store_token=secret("STORE_TOKEN"),
        store_password=secret("STORE_PASSWORD"),
        referenced={name: Secret(found[name]) for name in variables if name in found},
        keys=keys,
        base_urls={
            row.scheme: found[row.base_url_variable]
            for row in PROVIDERS.values()
            if row.base_url_variable in found
        },
        commands={name: reference.command for name, reference in sources.items() if reference.command},
        faults=faults,
        origins=origins,
    )


def _read_env_file(path: Path) -> dict[str, str]:
    text = read_text(path)
    if not text:
        return {}
    from dotenv.parser import parse_stream

    values: dict[str, str] = {}
    for binding in parse_stream(StringIO(text)):
        if binding.error:
            raise ConfigError(
                "{path} has a line {line} that is not NAME=value.",
                "Correct or remove it.",
                path=path,
                line=binding.original.line,
            )
        if binding.key is not None and binding.value is not None:
            values[binding.key] = binding.value
    return values
