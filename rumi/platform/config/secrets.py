"""Keys and tokens from the environment and from `.env` in the home.

A `.env` in the working folder is never read, because another person's file could send the key elsewhere.
`os.environ` is never changed, so that child processes do not inherit the secrets that were read here.
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

if TYPE_CHECKING:
    from rumi.platform.config.schema import ModelSection


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret value that `repr`, f-strings and logs do not show."""

    _value: str = field(repr=False)

    def reveal(self) -> str:
        """Return the plain value, for the code that sends it."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(hidden)"

    __str__ = __repr__


@dataclass(frozen=True, slots=True)
class Secrets:
    """The secrets and the origin of each (`environment` or `.env`); None means not set.

    `keys` are the keys of model servers, by the provider's scheme or by `custom:NAME`. `commands` are the
    commands that print a key, by the same names; `rumi.platform.config.commands` runs them. `faults` are the
    errors of keys that are not available. `referenced` are the variables that MCP servers refer to, and the
    tokens of additional bots. `base_urls` are the URLs of test servers and proxies. They are not secret, but
    they decide where secrets are sent.
    """

    telegram_token: Secret | None
    telegram_base_url: str | None
    tavily_api_key: Secret | None
    kagi_api_key: Secret | None
    kagi_session_token: Secret | None
    tabstack_api_key: Secret | None
    mcp_token: Secret | None
    store_token: Secret | None
    store_password: Secret | None
    referenced: Mapping[str, Secret]
    keys: Mapping[str, Secret]
    base_urls: Mapping[str, str]
    commands: Mapping[str, str]
    faults: Mapping[str, ConfigError]
    origins: Mapping[str, str]

    @property
    def groq_api_key(self) -> Secret | None:
        """Groq's key; transcriptions use it as well."""
        return self.keys.get("groq")

    @property
    def groq_base_url(self) -> str | None:
        """The URL that replaces Groq's own, None by default."""
        return self.base_urls.get("groq")

    def values(self) -> Iterator[str]:
        """Yield every secret value, for the redactor."""
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


def key_setting(name: str) -> str:
    """Return the configuration setting with the reference to a model server's key."""
    custom = name.removeprefix("custom:")
    return f"model.keys.{name}" if custom == name else f"model.custom.{custom}.api_key"


def key_references(model: "ModelSection") -> dict[str, str]:
    """Return the references to keys, by the scheme of a provider or `custom:NAME`."""
    custom = {
        f"custom:{name}": server.api_key
        for name, server in model.custom.items()
        if server.api_key is not None
    }
    return {**model.keys, **custom}


def load_secrets(
    home: Path,
    environment: Mapping[str, str],
    references: Mapping[str, str],
    variables: Collection[str] = (),
) -> Secrets:
    """Read the secrets from the environment and from `.env`; the environment wins.

    `references` are the references to keys of model servers, by the server's name. `variables` are further
    variables that the configuration names. An empty variable counts as not set.

    Raises:
        ConfigError: `.env` cannot be read, or a reference is a word that is not the name of a set variable.
            The message shows neither a line of the file nor that word.
    """
    file = _read_env_file(home / ".env")
    sources = {name: key_source(text) for name, text in references.items()}
    named = {*variables, *(source.variable for source in sources.values() if source.variable)}
    found: dict[str, str] = {}
    origins: dict[str, str] = {}
    for name in (*NAMES, *sorted(named)):
        for origin, source in (("environment", environment), (".env", file)):
            if value := source.get(name, "").strip():
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
            raise ConfigError(f"{key_setting(name)} is not the name of a set variable.", KEY_FORMS)
        elif reference.variable:
            faults[name] = ConfigError(
                f"{key_setting(name)} refers to ${reference.variable}, which is not set.",
                "Set it in the environment or in .env.",
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
                f"{path} has a line {binding.original.line} that is not NAME=value.", "Correct or remove it."
            )
        if binding.key is not None and binding.value is not None:
            values[binding.key] = binding.value
    return values
