"""Model settings from the configuration, and properties of models, such as the context size, by name."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from rumi.errors import ConfigError
from rumi.models.model import Effort
from rumi.platform.config.cascade import Loaded
from rumi.platform.config.commands import unread
from rumi.platform.config.providers import CUSTOM, OFFLINE, PROVIDERS, key_owner, known
from rumi.texts import Language

DEFAULT_MODEL: Final = "groq:openai/gpt-oss-120b"


DEFAULT_FALLBACKS: Final = ("groq:openai/gpt-oss-20b",)


UNKNOWN_CONTEXT_TOKENS: Final = 8192
"""Assumed context size of models outside of the provider table; almost no model has less."""


_OFFLINE_CONTEXT_TOKENS: Final = 131_072


@dataclass(frozen=True, slots=True)
class CustomServer:
    """A server from a section `[model.custom.NAME]`, which speaks OpenAI's chat completions.

    `api_key` is the key itself, or None if the server has no key. `fault` is the error if the configured key
    cannot be read. `pictures` is True if the model accepts pictures.
    """

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    fault: ConfigError | None = None
    pictures: bool = False


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The model settings. `timeout_s` is the maximum time without data from a server.

    `first_token_timeout_s` is the maximum time before the first output. None means `timeout_s` for Groq, and
    at least `FIRST_TOKEN_S` for other servers, because models think first, and a local server may need
    minutes to read a long prompt. `groq_base_url` is the root of Groq's API, with or without `/openai/v1`.
    `keys`, `base_urls` and `faults` (errors of keys that cannot be read) are indexed by provider scheme;
    `unread` lists the schemes whose key comes from a command that has not run yet. `aliases` maps alternative
    names to models. `secrets` are all secrets of the installation; they are redacted from server output.
    """

    default: str = DEFAULT_MODEL
    fallbacks: tuple[str, ...] = DEFAULT_FALLBACKS
    timeout_s: float = 60.0
    first_token_timeout_s: float | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    reasoning_effort: Effort | None = None
    context_tokens: int | None = None
    max_concurrent: int | None = None
    custom: Mapping[str, CustomServer] = field(default_factory=dict)
    groq_api_key: str | None = field(default=None, repr=False)
    groq_base_url: str | None = None
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    base_urls: Mapping[str, str] = field(default_factory=dict)
    faults: Mapping[str, ConfigError] = field(default_factory=dict)
    unread: Collection[str] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    language: Language = "en"
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def true_name(self, name: str) -> str:
        """Return the model name that an alias stands for, or `name` itself if it is not an alias."""
        return self.aliases.get(name, name)

    def key_of(self, scheme: str) -> str:
        """Return a provider's API key; empty if there is none."""
        return ((self.groq_api_key if scheme == "groq" else self.keys.get(scheme)) or "").strip()

    def base_url_of(self, scheme: str) -> str:
        """Return the base URL of a provider's API."""
        url = self.groq_base_url if scheme == "groq" else self.base_urls.get(scheme)
        return url or PROVIDERS[scheme].url


def missing_key(settings: ModelSettings, name: str = "") -> str:
    """Return the environment variable for the key that a model lacks; empty if the model lacks no key.

    Without `name`, this checks the default model.
    """
    scheme = settings.true_name(name or settings.default).partition(":")[0]
    provider = PROVIDERS.get(scheme)
    if provider is None or provider.key is None or scheme in settings.faults or scheme in settings.unread:
        return ""
    return "" if settings.key_of(scheme) else provider.key


def lacks_key(settings: ModelSettings) -> bool:
    """Return True if the default model's provider needs a key and none is set."""
    return bool(missing_key(settings))


def model_takes_pictures(name: str, settings: ModelSettings) -> bool:
    """Return True if a model is known to accept pictures. `name` may be an alias."""
    name = settings.true_name(name)
    scheme, _, model = name.partition(":")
    if scheme == CUSTOM:
        return model in settings.custom and settings.custom[model].pictures
    facts = known(name)
    return name == OFFLINE or (facts is not None and facts.pictures)


def models_with_pictures(settings: ModelSettings) -> tuple[str, ...]:
    """Return the names of the configured, usable models that accept pictures."""
    custom = (f"custom:{name}" for name, server in settings.custom.items() if server.fault is None)
    names = dict.fromkeys(map(settings.true_name, (settings.default, *settings.fallbacks, *custom)))
    return tuple(name for name in names if name != OFFLINE and model_takes_pictures(name, settings))


def context_tokens_of(name: str) -> int:
    """Return a model's context size in tokens, or `UNKNOWN_CONTEXT_TOKENS` if it is not known."""
    return known_context(name) or UNKNOWN_CONTEXT_TOKENS


def known_context(name: str) -> int | None:
    """Return a model's context size in tokens; None if it is not known.

    If the provider table has no size for a model, the provider's default size applies, and Rumi requests that
    size from servers such as Ollama.
    """
    if name == OFFLINE:
        return _OFFLINE_CONTEXT_TOKENS
    facts = known(name)
    return None if facts is None else facts.context or PROVIDERS[name.partition(":")[0]].context


def model_settings_of(
    loaded: Loaded, language: Language, *, default: str | None = None, lenient: bool = False
) -> ModelSettings:
    """Return the model settings from the configuration, including the keys.

    Raises:
        ConfigError: The key of the default model or of a fallback cannot be read, unless `lenient` is set.
    """
    section, secrets = loaded.settings.model, loaded.secrets
    default = section.aliases.get(default or section.default, default or section.default)
    fallbacks = tuple(section.aliases.get(name, name) for name in section.fallbacks)
    for name in (default, *fallbacks):
        key_name = key_owner(name)
        if key_name in secrets.faults and not lenient:
            loaded.key(key_name)  # raises the error of this key
    keys = {name: secret.reveal() for name, secret in secrets.keys.items()}
    return ModelSettings(
        default=default,
        fallbacks=fallbacks,
        timeout_s=section.timeout_s,
        first_token_timeout_s=section.first_token_timeout_s,
        temperature=section.temperature,
        max_output_tokens=section.max_output_tokens,
        reasoning_effort=section.reasoning_effort,
        context_tokens=section.context_tokens,
        max_concurrent=section.max_concurrent,
        custom={
            name: CustomServer(
                server.base_url,
                server.model,
                keys.get(f"custom:{name}"),
                secrets.faults.get(f"custom:{name}"),
                server.pictures,
            )
            for name, server in section.custom.items()
        },
        groq_api_key=keys.get("groq"),
        groq_base_url=secrets.groq_base_url,
        keys=keys,
        base_urls=secrets.base_urls,
        faults=secrets.faults,
        unread=tuple(unread(loaded)),
        aliases=section.aliases,
        language=language,
        secrets=tuple(secrets.values()),
    )
