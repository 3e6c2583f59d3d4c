"""Keys and tokens, only from the environment and from `.env` in the home.

A `.env` in the working folder is never read (someone else's could send the key elsewhere), and `os.environ`
is never changed, so that no child process inherits what was read here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

from rumi.config.files import read_text
from rumi.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that `repr`, f-strings and logs do not show."""

    _value: str = field(repr=False)

    def reveal(self) -> str:
        """Return the value itself, for the one place that sends it."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(hidden)"

    __str__ = __repr__


@dataclass(frozen=True, slots=True)
class Secrets:
    """The secrets, and the origin of each (`environment` or `.env`); None means not set.

    The base URLs are addresses of test servers and proxies. They are not secret, but they decide where
    secrets are sent.
    """

    groq_api_key: Secret | None
    groq_base_url: str | None
    telegram_token: Secret | None
    telegram_base_url: str | None
    tavily_api_key: Secret | None
    kagi_api_key: Secret | None
    kagi_session_token: Secret | None
    tabstack_api_key: Secret | None
    mcp_token: Secret | None
    referenced: Mapping[str, Secret]
    """The variables that custom servers refer to, if they are set."""
    origins: Mapping[str, str]

    def values(self) -> Iterator[str]:
        """Yield every secret value, for the redactor."""
        kagi = (self.kagi_api_key, self.kagi_session_token)
        known = (
            self.groq_api_key,
            self.telegram_token,
            self.tavily_api_key,
            self.tabstack_api_key,
            self.mcp_token,
            *kagi,
        )
        for secret in (*known, *self.referenced.values()):
            if secret is not None:
                yield secret.reveal()


NAMES = (
    *("GROQ_API_KEY", "GROQ_BASE_URL", "TELEGRAM_TOKEN", "TELEGRAM_BASE_URL"),
    *("TAVILY_API_KEY", "KAGI_API_KEY", "KAGI_SESSION_TOKEN", "TABSTACK_API_KEY", "MCP_TOKEN"),
)


def load_secrets(home: Path, environment: Mapping[str, str], references: frozenset[str]) -> Secrets:
    """Return the secrets by their names, and the variables named in `references`.

    An empty variable counts as not set.

    Raises:
        ConfigError: `.env` cannot be read. The message never shows a line of it.
    """
    file = _read_env_file(home / ".env")
    found: dict[str, str] = {}
    origins: dict[str, str] = {}
    for name in (*NAMES, *sorted(references)):
        for origin, source in (("environment", environment), (".env", file)):
            if value := source.get(name, "").strip():
                found[name], origins[name] = value, origin
                break

    def secret(name: str) -> Secret | None:
        return Secret(found[name]) if name in found else None

    return Secrets(
        groq_api_key=secret("GROQ_API_KEY"),
        groq_base_url=found.get("GROQ_BASE_URL"),
        telegram_token=secret("TELEGRAM_TOKEN"),
        telegram_base_url=found.get("TELEGRAM_BASE_URL"),
        tavily_api_key=secret("TAVILY_API_KEY"),
        kagi_api_key=secret("KAGI_API_KEY"),
        kagi_session_token=secret("KAGI_SESSION_TOKEN"),
        tabstack_api_key=secret("TABSTACK_API_KEY"),
        mcp_token=secret("MCP_TOKEN"),
        referenced={name: Secret(found[name]) for name in references if name in found},
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
