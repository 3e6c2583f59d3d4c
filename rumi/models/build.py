"""From settings to models: the settings, and the models of a process, from which each chat gets its chain."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from actors import ChildSpec
from rumi.errors import ConfigError
from rumi.models.actor import Models, ModelsMessage, ModelsRef
from rumi.models.chain import Chain, Step
from rumi.models.metering import Account, Meter
from rumi.models.server import Server
from rumi.models.types import Effort, Model
from rumi.platform.config.providers import CUSTOM, OFFLINE, PROVIDERS, known
from rumi.platform.texts import Language

DEFAULT_MODEL: Final = "groq:openai/gpt-oss-120b"
DEFAULT_FALLBACKS: Final = ("groq:openai/gpt-oss-20b",)
UNKNOWN_CONTEXT_TOKENS: Final = 8192
"""For models that the table of providers does not know: almost every model has at least this context."""

_OFFLINE_CONTEXT_TOKENS: Final = 131_072


@dataclass(frozen=True, slots=True)
class CustomServer:
    """A server that speaks OpenAI chat completions. `api_key` is the key itself, or None for none.

    `fault` says why it cannot be used: its key is missing. `pictures`: its model takes pictures.
    """

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    fault: ConfigError | None = None
    pictures: bool = False


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The settings of the models. `timeout_s` is the longest silence of a server.

    `first_token_timeout_s` is the longest silence before the first word. None means `timeout_s` at Groq, and
    `FIRST_TOKEN_S` elsewhere: models think, and a local server may read a long prompt for minutes.
    `groq_base_url` is the root of Groq's API, with or without its `/openai/v1`. `keys`, `base_urls` and
    `faults` (why a key cannot be had) are those of the other providers, by their schemes; `unread` has those
    whose key a command will print. `aliases` are other names of models. `secrets` are those of the
    whole installation: they are hidden in what servers send.
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
        """Return the model that a name stands for: that of an alias, or the name itself."""
        return self.aliases.get(name, name)

    def key_of(self, scheme: str) -> str:
        """Return the key of a provider; empty for none."""
        return ((self.groq_api_key if scheme == "groq" else self.keys.get(scheme)) or "").strip()

    def base_url_of(self, scheme: str) -> str:
        """Return the address of a provider."""
        given = self.groq_base_url if scheme == "groq" else self.base_urls.get(scheme)
        return given or PROVIDERS[scheme].url


@dataclass(frozen=True, slots=True)
class ModelSet:
    """The configured models. `steps` is their order; `servers` must be closed in the end.

    `steps_of` returns the steps that begin with another model, and raises `ConfigError` where it cannot be
    used; its server is then one of the `servers` as well.

    `context_tokens` is the first model's maximum, prompt and reply together; the history is cut to it. A
    request to a fallback is cut to the fallback's own maximum. `max_concurrent` is the maximum number of
    simultaneous calls to one server; without it, the number adapts.
    """

    steps: tuple[Step, ...]
    servers: Collection[Server]
    context_tokens: int
    language: Language = "en"
    max_concurrent: int | None = None
    steps_of: Callable[[str], tuple[Step, ...]] = field(default=lambda name: (), repr=False)

    @property
    def name(self) -> str:
        """The first model's name."""
        return self.steps[0].model.name

    def spec(self, part: Callable[[], float] = lambda: 1.0) -> ChildSpec[ModelsMessage]:
        """Return the spec of the `models` actor, which grants permits and closes the servers in the end.

        `part` is the share of all limits that this process may use: other workers use the rest.
        """
        return ChildSpec(
            "models", lambda: Models(self.servers, max_concurrent=self.max_concurrent, part=part)
        )

    def bind(
        self,
        chat: str,
        permits: ModelsRef | None = None,
        *,
        language: Language | None = None,
        chosen: str = "",
        account: Account | None = None,
        meter: Meter | None = None,
    ) -> Model:
        """Return the model for a chat: the `chosen` one, or the first.

        Without `permits`, simultaneous calls are not bounded; without a `meter`, no budget holds. The
        `account` is who the calls are for.

        Raises:
            ConfigError: The chosen model cannot be used.
        """
        steps = self.steps_of(chosen) if chosen else self.steps
        return Chain(
            steps,
            chat=chat,
            permits=permits,
            language=language or self.language,
            account=account,
            meter=meter,
        )

    async def aclose(self) -> None:
        """Close all servers' idle connections, if no actor does."""
        for server in tuple(self.servers):
            await server.aclose()


def missing_key(settings: ModelSettings, name: str = "") -> str:
    """Return the variable of the key that a model (the default one) needs and that is not set; else empty."""
    scheme = settings.true_name(name or settings.default).partition(":")[0]
    provider = PROVIDERS.get(scheme)
    if provider is None or provider.key is None or scheme in settings.faults or scheme in settings.unread:
        return ""
    return "" if settings.key_of(scheme) else provider.key


def lacks_key(settings: ModelSettings) -> bool:
    """Return True if the default model's provider needs a key and there is none for it."""
    return bool(missing_key(settings))


def check_model_name(name: str) -> None:
    """Check that a name is one of the forms that models have.

    Raises:
        ConfigError: It has an unknown scheme, or no model behind it.
    """
    from rumi.models.registry import factory_of

    factory_of(name)


def model_takes_pictures(name: str, settings: ModelSettings) -> bool:
    """Return True if a model, or the model of an alias, takes pictures, as far as is known."""
    name = settings.true_name(name)
    scheme, _, model = name.partition(":")
    if scheme == CUSTOM:
        return model in settings.custom and settings.custom[model].pictures
    facts = known(name)
    return name == OFFLINE or (facts is not None and facts.pictures)


def models_with_pictures(settings: ModelSettings) -> tuple[str, ...]:
    """Return the names of configured models that take pictures and can be used."""
    custom = (f"custom:{name}" for name, server in settings.custom.items() if server.fault is None)
    names = dict.fromkeys(map(settings.true_name, (settings.default, *settings.fallbacks, *custom)))
    return tuple(name for name in names if name != OFFLINE and model_takes_pictures(name, settings))


def build_models(settings: ModelSettings) -> ModelSet:
    """Make the models that `settings` name.

    Fallbacks are left out if they need a key and there is none; no fallback follows `offline`, which does not
    fail.

    Raises:
        ConfigError: A name, an address or a key cannot work. Its message never shows a key.
    """
    from rumi.models.registry import Registry

    registry = Registry(settings)
    steps = registry.steps_of(settings.default)
    context_tokens = settings.context_tokens or context_tokens_of(settings.true_name(settings.default))
    servers = registry.servers.values()
    return ModelSet(
        steps, servers, context_tokens, settings.language, settings.max_concurrent, registry.steps_of
    )


def context_tokens_of(name: str) -> int:
    """Return a model's maximum of tokens, or `UNKNOWN_CONTEXT_TOKENS` if it is not known."""
    return known_context(name) or UNKNOWN_CONTEXT_TOKENS


def known_context(name: str) -> int | None:
    """Return a model's maximum of tokens, or what its server is asked for; None if it is not known."""
    if name == OFFLINE:
        return _OFFLINE_CONTEXT_TOKENS
    facts = known(name)
    return None if facts is None else facts.context or PROVIDERS[name.partition(":")[0]].context
