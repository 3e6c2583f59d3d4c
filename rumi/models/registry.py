"""Registry of model providers: the scheme of a model's name selects the factory that creates the model."""

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from rumi.errors import ConfigError
from rumi.models.body import Sampling
from rumi.models.chain import ChainStep
from rumi.models.chat_completions import ChatCompletions
from rumi.models.offline import Offline
from rumi.models.plugin_models import plugin_step
from rumi.models.reading import ServerModel
from rumi.models.server import ModelServer
from rumi.models.settings import (
    ModelSettings,
    context_tokens_of,
    known_context,
    model_takes_pictures,
)
from rumi.models.token_budget import TokenBudget
from rumi.platform.config.providers import CHOICES, CUSTOM, OFFLINE, PLUGIN, PROVIDERS, Dialect
from rumi.platform.config.schema import CustomServerSection
from rumi.platform.redact import Redactor

FIRST_TOKEN_S: Final = 300.0
MOST_CHOSEN: Final = 32
"""Maximum number of cached chains in addition to the default chain; clients may choose any model."""

MOST_BUDGETS: Final = 4 * MOST_CHOSEN
"""Maximum number of kept budgets. A model whose budget was dropped learns its limits again."""

_HEADER_SAFE = re.compile(r"[\x21-\x7e]+")


def _anthropic() -> type[ServerModel]:
    from rumi.models.anthropic import AnthropicModel

    return AnthropicModel


def _ollama() -> type[ServerModel]:
    from rumi.models.ollama import OllamaModel

    return OllamaModel


MODELS: Final[Mapping[Dialect, Callable[[], type[ServerModel]]]] = {
    "anthropic": _anthropic,
    "ollama": _ollama,
}
"""Model classes for protocols that the groq SDK does not speak; each is imported when first needed."""

_ENDINGS: Final[Mapping[Dialect, str]] = {"groq": "/openai/v1", "anthropic": "/v1", "ollama": "/v1"}
"""Suffixes that are removed from a configured URL, because the protocol's paths contain them already."""


class Registry:
    """Factory of models, and owner of the servers. Models at one server share a client, permits and a key."""

    def __init__(self, settings: ModelSettings) -> None:
        self.settings = settings
        self._chosen: dict[str, tuple[ChainStep, ...]] = {}
        self._budgets: dict[tuple[str, int | None], TokenBudget] = {}
        self.servers: dict[str, ModelServer] = {}
        self._redact = Redactor(settings.secrets.values())

    def steps_of(self, first: str) -> tuple[ChainStep, ...]:
        """Return the chain that starts with model `first`, followed by the usable fallbacks.

        Raises:
            ConfigError: The model is unknown, or it cannot be used.
        """
        first = self.settings.true_name(first)
        if first not in self._chosen:
            names = [first]
            if first != OFFLINE:
                names += [name for name in self.settings.fallbacks if self._usable(name)]
            steps = tuple(self._step(name, first=name == first) for name in dict.fromkeys(names))
            # Only the cached chain is evicted: its server stays in `servers`, so a chat that still has the
            # chain can use it, and the server gets closed with the others.
            if len(self._chosen) > MOST_CHOSEN:
                del self._chosen[next(iter(self._chosen))]
            self._chosen[first] = steps
        return self._chosen[first]

    def _usable(self, name: str) -> bool:
        """Return True if a fallback model needs no key, or its key is set."""
        factory_of(name)
        scheme = name.partition(":")[0]
        provider = PROVIDERS.get(scheme)
        return provider is None or provider.key is None or bool(self.settings.key_of(scheme))

    def _step(self, name: str, *, first: bool) -> ChainStep:
        return factory_of(name)(self, name, first)

    def remote(self, server: ModelServer, name: str, model: str, first: bool) -> ChainStep:
        """Return the chain step of a model at a server. `first` is True for the first model of a chain."""
        settings = self.settings.section
        patient_s = settings.timeout_s if server.dialect == "groq" else max(settings.timeout_s, FIRST_TOKEN_S)
        budget = self._budget(name, self._context_tokens(name, first))
        first_s = settings.first_token_timeout_s or patient_s
        sampling = Sampling(settings.temperature, settings.max_output_tokens, settings.reasoning_effort)
        made = MODELS.get(server.dialect, lambda: ChatCompletions)()(
            server,
            model,
            name=name,
            timeout_s=settings.timeout_s,
            first_token_timeout_s=first_s,
            sampling=sampling,
            budget=budget,
        )
        return ChainStep(made, server.name, budget, model_takes_pictures(name, self.settings))

    def _budget(self, name: str, context: int | None) -> TokenBudget:
        """Return the budget of a model. All chains with the model share it, so that each learns for all."""
        if len(self._budgets) > MOST_BUDGETS:
            del self._budgets[next(iter(self._budgets))]
        return self._budgets.setdefault((name, context), TokenBudget(context))

    def _context_tokens(self, name: str, first: bool) -> int | None:
        """Return a model's context size, in tokens; None if a fallback's size is not known.

        A request to such a fallback is cut only after the server has refused a request as too large.
        """
        if first:
            return self.settings.section.context_tokens or context_tokens_of(name)
        return known_context(name)

    def server(self, scheme: str, name: str) -> ModelServer:
        """Return a provider's server. The first call creates the server.

        Raises:
            ConfigError: The key is missing, or the key or the URL is invalid.
        """
        provider, settings = PROVIDERS[scheme], self.settings
        if (fault := settings.secrets.faults.get(scheme)) is not None:
            raise ConfigError(fault.message, fault.advice)
        key = settings.key_of(scheme)
        if not key and provider.key is not None:
            raise ConfigError(
                "The model {name} needs {key}.",
                "Set it in the environment or in .env, or use --model offline.",
                name=f"{name!r}",
                key=provider.key,
            )
        if scheme not in self.servers:
            url = settings.base_url_of(scheme)
            self.servers[scheme] = provider_server(scheme, key, url, self._redact)
        return self.servers[scheme]

    def custom_server(self, name: str, custom: CustomServerSection) -> ModelServer:
        """Return the server of a section `[model.custom.NAME]`. The first call creates the server.

        Raises:
            ConfigError: The server's key or URL is invalid.
        """
        full_name = f"{CUSTOM}:{name}"
        if (fault := self.settings.secrets.faults.get(full_name)) is not None:
            raise ConfigError(fault.message, fault.advice)
        if full_name not in self.servers:
            key = self.settings.key_of(full_name)
            key_name = f"model.custom.{name}.api_key"
            if key:
                check_key(key, key_name)
            check_url(custom.base_url, f"model.custom.{name}.base_url")
            self.servers[full_name] = ModelServer(
                full_name,
                custom.base_url,
                key,
                dialect="openai",
                key_name=key_name,
                redact=self._redact,
            )
        return self.servers[full_name]


Factory: TypeAlias = Callable[[Registry, str, bool], ChainStep]
"""Creates a chain step from a model's full name. The flag is True for the first model of a chain."""


def _offline(registry: Registry, name: str, first: bool) -> ChainStep:
    return ChainStep(Offline(registry.settings.language), pictures=True)


def _of_a_row(registry: Registry, name: str, first: bool) -> ChainStep:
    scheme, _, model = name.partition(":")
    return registry.remote(registry.server(scheme, name), name, model, first)


def _custom(registry: Registry, name: str, first: bool) -> ChainStep:
    section, servers = name.partition(":")[2], registry.settings.section.custom
    if section not in servers:
        known = ", ".join(f"{CUSTOM}:{key}" for key in servers) or "none"
        raise ConfigError(
            "The model {name} needs a section [model.custom.{section}].",
            "There is: {known}.",
            name=f"{name!r}",
            section=section,
            known=known,
        )
    custom = servers[section]
    return registry.remote(registry.custom_server(section, custom), name, custom.model, first)


def _of_plugin(registry: Registry, name: str, first: bool) -> ChainStep:
    settings = registry.settings
    return plugin_step(name, settings.plugins, settings.plugin_notes)


FACTORIES: Final[Mapping[str, Factory]] = {
    **dict.fromkeys(PROVIDERS, _of_a_row),
    CUSTOM: _custom,
    PLUGIN: _of_plugin,
    OFFLINE: _offline,
}


def factory_of(name: str) -> Factory:
    """Return the factory for the model of that name.

    Raises:
        ConfigError: The name has an unknown scheme, or no model after the scheme.
    """
    scheme, colon, model = name.partition(":")
    if scheme not in FACTORIES or bool(model) == (scheme == OFFLINE) or bool(colon) != bool(model):
        raise ConfigError(
            "Unknown model {name}.", "Allowed are {choices}.", name=f"{name!r}", choices=CHOICES
        )
    return FACTORIES[scheme]


def provider_server(
    scheme: str, key: str, base_url: str | None = None, redact: Redactor | None = None
) -> ModelServer:
    """Return a new server of a provider.

    `base_url` is the root of the provider's API, with or without its path suffix.

    Raises:
        ConfigError: The key or the URL is invalid. The message never shows the key.
    """
    provider = PROVIDERS[scheme]
    url = (base_url or provider.url).rstrip("/").removesuffix(_ENDINGS.get(provider.dialect, ""))
    if key:
        check_key(key, provider.key_variable)
    check_url(url, provider.base_url_variable)
    return ModelServer(
        scheme, url, key, dialect=provider.dialect, key_name=provider.key_variable, redact=redact
    )


def check_key(key: str, name: str) -> None:
    """Check the key in the setting `name`.

    Raises:
        ConfigError: The key is invalid in a header. The HTTP library's error would contain the key.
    """
    if not _HEADER_SAFE.fullmatch(key):
        raise ConfigError(
            "{name} has characters that are not allowed in a key.",
            "Copy it again, without spaces.",
            name=name,
        )


def check_url(url: str, name: str) -> None:
    """Check the address in the setting `name`.

    Raises:
        ConfigError: It is not the URL of a server, or it may contain a secret.
    """
    try:
        parts = urlsplit(url)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid:
        raise ConfigError(
            "{name} is not an http or https address.", "It looks like https://host:port/v1.", name=name
        )
    if parts.username is not None or parts.query or parts.fragment:
        # URLs end up in logs, so a URL must not contain a secret.
        raise ConfigError(
            "{name} must not contain a user, password, query or fragment.",
            "A key has its own setting.",
            name=name,
        )
