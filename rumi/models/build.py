"""From settings to models: checks names, makes servers, and gives each chat its chain."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from actors import ChildSpec
from rumi.errors import ConfigError
from rumi.models.actor import Models, ModelsMessage, ModelsRef
from rumi.models.body import Sampling
from rumi.models.chain import Chain, Step
from rumi.models.chat_completions import ChatCompletions
from rumi.models.metering import Account, Meter
from rumi.models.offline import Offline
from rumi.models.room import Room
from rumi.models.server import Server
from rumi.models.types import Effort, Model
from rumi.texts import Language

DEFAULT_MODEL: Final = "groq:openai/gpt-oss-120b"
DEFAULT_FALLBACKS: Final = ("groq:openai/gpt-oss-20b",)
GROQ_URL: Final = "https://api.groq.com"
UNKNOWN_CONTEXT_TOKENS: Final = 8192
"""For models that are not in the table below: almost every model has at least this context."""

FIRST_TOKEN_S: Final = 300.0

OFFLINE: Final = "offline"
_OFFLINE_CONTEXT_TOKENS: Final = 131_072
_CONTEXT_TOKENS: Final[Mapping[str, int]] = {
    "openai/gpt-oss-": 131_072,
    "meta-llama/llama-4-": 131_072,
    "llama-3.1-": 131_072,
    "llama-3.3-": 131_072,
    "qwen/qwen3": 131_072,
    "moonshotai/kimi-k2": 131_072,
}
_TAKE_PICTURES: Final = ("meta-llama/llama-4-",)
"""Groq's models that take pictures."""
MOST_CHOSEN: Final = 32
"""Models besides the first one whose steps are kept, because windows chose them."""

_HEADER_SAFE = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class CustomServer:
    """A server that speaks OpenAI chat completions. `api_key` is the key itself, or None for none.

    `fault` says why it cannot be used: its key is missing. `pictures`: the model takes pictures.
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
    `FIRST_TOKEN_S` at custom servers, which may run on a machine that reads a long prompt for minutes.
    `groq_base_url` is the root of Groq's API, with or without its `/openai/v1`.
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
    language: Language = "en"


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

    def spec(self) -> ChildSpec[ModelsMessage]:
        """Return the spec of the `models` actor, which grants permits and closes the servers in the end."""
        return ChildSpec("models", lambda: Models(self.servers, max_concurrent=self.max_concurrent))

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


def lacks_key(settings: ModelSettings) -> bool:
    """Return True if the default model is one of Groq's and there is no key for it."""
    return settings.default.startswith("groq:") and not settings.groq_api_key


def build_models(settings: ModelSettings) -> ModelSet:
    """Make the models that `settings` name.

    Groq models among the fallbacks are left out if there is no key; no fallback follows `offline`, which does
    not fail.

    Raises:
        ConfigError: A name, an address or a key cannot work. Its message never shows a key.
    """
    builder = _Builder(settings)
    steps = builder.steps_of(settings.default)
    context_tokens = settings.context_tokens or context_tokens_of(settings.default)
    servers = builder.servers.values()
    return ModelSet(
        steps, servers, context_tokens, settings.language, settings.max_concurrent, builder.steps_of
    )


def model_takes_pictures(name: str, settings: ModelSettings) -> bool:
    """Return True if the model of this name takes pictures, as far as is known."""
    provider, _, model = name.partition(":")
    if provider == "custom":
        custom = settings.custom.get(model)
        return custom is not None and custom.pictures
    return name == OFFLINE or (provider == "groq" and model.startswith(_TAKE_PICTURES))


def models_with_pictures(settings: ModelSettings) -> tuple[str, ...]:
    """Return the names of configured models that take pictures and can be used."""
    custom = (f"custom:{name}" for name, server in settings.custom.items() if server.fault is None)
    names = dict.fromkeys((settings.default, *settings.fallbacks, *custom))
    return tuple(name for name in names if name != OFFLINE and model_takes_pictures(name, settings))


def context_tokens_of(name: str) -> int:
    """Return a model's maximum of tokens, or `UNKNOWN_CONTEXT_TOKENS` if it is not known."""
    return _known_context(name) or UNKNOWN_CONTEXT_TOKENS


def _known_context(name: str) -> int | None:
    provider, _, model = name.partition(":")
    if provider == OFFLINE:
        return _OFFLINE_CONTEXT_TOKENS
    if provider == "groq":
        for prefix, tokens in _CONTEXT_TOKENS.items():
            if model.startswith(prefix):
                return tokens
    return None


class _Builder:
    def __init__(self, settings: ModelSettings) -> None:
        self._settings = settings
        self._chosen: dict[str, tuple[Step, ...]] = {}
        self.servers: dict[str, Server] = {}

    def steps_of(self, first: str) -> tuple[Step, ...]:
        """Return the steps that begin with this model; the fallbacks that can be used follow."""
        if first not in self._chosen:
            names = [first]
            if first != OFFLINE:
                names += [name for name in self._settings.fallbacks if self._usable(name)]
            steps = tuple(self._step(name, first=name == first) for name in dict.fromkeys(names))
            if len(self._chosen) > MOST_CHOSEN:
                del self._chosen[next(iter(self._chosen))]
            self._chosen[first] = steps
        return self._chosen[first]

    def _usable(self, name: str) -> bool:
        """Return True if a fallback can be used: a Groq model needs a key."""
        return not name.startswith("groq:") or bool(self._settings.groq_api_key)

    def _step(self, name: str, *, first: bool) -> Step:
        """Return the step for a model's name."""
        provider, _, model = name.partition(":")
        if name == OFFLINE:
            return Step(Offline(self._settings.language))
        if provider == "groq" and model:
            return self._remote(self._groq(name), name, model, first)
        if provider == "custom" and model:
            custom = self._settings.custom.get(model)
            if custom is None:
                known = ", ".join(f"custom:{key}" for key in self._settings.custom) or "none"
                raise ConfigError(
                    f"The model {name!r} needs a section [model.custom.{model}].", f"There is: {known}."
                )
            return self._remote(self._custom(model, custom), name, custom.model, first)
        raise ConfigError(f"Unknown model {name!r}.", "Allowed are groq:NAME, custom:NAME and offline.")

    def _remote(self, server: Server, name: str, model: str, first: bool) -> Step:
        settings = self._settings
        patient_s = settings.timeout_s if server.dialect == "groq" else max(settings.timeout_s, FIRST_TOKEN_S)
        room = Room(self._context_tokens(name, first))
        remote = ChatCompletions(
            server,
            model,
            name=name,
            timeout_s=settings.timeout_s,
            first_token_timeout_s=settings.first_token_timeout_s or patient_s,
            sampling=Sampling(settings.temperature, settings.max_output_tokens, settings.reasoning_effort),
            room=room,
            takes_pictures=model_takes_pictures(name, settings),
        )
        return Step(remote, server.name, room)

    def _context_tokens(self, name: str, first: bool) -> int | None:
        """Return a model's maximum; None for an unknown fallback, whose requests are cut after a refusal."""
        if first:
            return self._settings.context_tokens or context_tokens_of(name)
        return _known_context(name)

    def _groq(self, name: str) -> Server:
        key = (self._settings.groq_api_key or "").strip()
        if not key:
            raise ConfigError(
                f"The model {name!r} needs GROQ_API_KEY.",
                "Set it in the environment or in .env, or use --model offline.",
            )
        if "groq" not in self.servers:
            self.servers["groq"] = groq_server(key, self._settings.groq_base_url)
        return self.servers["groq"]

    def _custom(self, name: str, custom: CustomServer) -> Server:
        if custom.fault is not None:
            raise ConfigError(custom.fault.message, custom.fault.advice)
        full_name = f"custom:{name}"
        if full_name not in self.servers:
            key = (custom.api_key or "").strip()
            key_name = f"model.custom.{name}.api_key"
            url_name = f"model.custom.{name}.base_url"
            if key:
                _check_key(key, key_name)
            _check_url(custom.base_url, url_name)
            self.servers[full_name] = Server(
                full_name, custom.base_url, key, dialect="openai", key_name=key_name
            )
        return self.servers[full_name]


def groq_server(key: str, base_url: str | None) -> Server:
    """Return Groq's server. `base_url`: its API's root, with or without `/openai/v1`; None: the official one.

    Raises:
        ConfigError: A key or an address cannot work. Its message never shows the key.
    """
    url = (base_url or GROQ_URL).rstrip("/").removesuffix("/openai/v1")
    _check_key(key, "GROQ_API_KEY")
    _check_url(url, "GROQ_BASE_URL")
    return Server("groq", url, key, dialect="groq", key_name="GROQ_API_KEY")


def _check_key(key: str, name: str) -> None:
    """Refuse a key that a header cannot carry: the HTTP library's error would contain the whole key."""
    if not _HEADER_SAFE.fullmatch(key):
        raise ConfigError(
            f"{name} has characters that are not allowed in a key.", "Copy it again, without spaces."
        )


def _check_url(url: str, name: str) -> None:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid:
        raise ConfigError(f"{name} is not an http or https address.", "It looks like https://host:port/v1.")
    if parts.username is not None or parts.query or parts.fragment:
        # Such addresses end up in logs.
        raise ConfigError(
            f"{name} must not contain a user, password, query or fragment.", "A key has its own setting."
        )
