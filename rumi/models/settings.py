"""Model settings from the configuration, and properties of models, such as the context size, by name."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from rumi.platform.config.cascade import Loaded
from rumi.platform.config.plugins import PluginNotes
from rumi.platform.config.providers import CUSTOM, OFFLINE, PLUGIN, PROVIDERS, key_owner, known
from rumi.platform.config.schema import ModelSection
from rumi.platform.config.secrets import Secrets, plain
from rumi.texts import Language

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rumi.models.plugin_models import ModelPlugin
    from rumi.platform.config.plugins import PluginPart

UNKNOWN_CONTEXT_TOKENS: Final = 8192
"""Assumed context size of models outside of the provider table; almost no model has less."""


_OFFLINE_CONTEXT_TOKENS: Final = 131_072


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The section `[model]`, with the keys of its servers and the language of a process.

    `plugins` are the adapters of plugins by name, and `plugin_notes` takes what is wrong with them.
    """

    section: ModelSection = field(default_factory=ModelSection)
    secrets: Secrets = field(default_factory=Secrets, repr=False)
    language: Language = "en"
    plugins: "Mapping[str, PluginPart[ModelPlugin]]" = field(default_factory=dict, repr=False)
    plugin_notes: PluginNotes = field(default_factory=PluginNotes, repr=False)

    @property
    def default(self) -> str:
        """The default model; an alias is resolved."""
        return self.true_name(self.section.default)

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """The models to try after the default model; aliases are resolved."""
        return tuple(map(self.true_name, self.section.fallbacks))

    def true_name(self, name: str) -> str:
        """Return the model name that an alias stands for, or `name` itself if it is not an alias."""
        return self.section.aliases.get(name, name)

    def key_of(self, owner: str) -> str:
        """Return the API key of a provider or of `custom:NAME`; empty if there is none."""
        return plain(self.secrets.keys.get(owner)).strip()

    def base_url_of(self, scheme: str) -> str:
        """Return the base URL of a provider's API."""
        return self.secrets.base_urls.get(scheme) or PROVIDERS[scheme].url

    def context_of(self, name: str) -> int | None:
        """Return a model's context size in tokens; None if it is not known. `name` is no alias."""
        scheme, _, model = name.partition(":")
        if scheme == PLUGIN and (part := self.plugins.get(model.partition(":")[0])) is not None:
            return part.registration.context_tokens
        return known_context(name)

    def changed(self, **values: object) -> "ModelSettings":
        """Return a copy with other values in the section. The values are not checked."""
        return replace(self, section=self.section.model_copy(update=values))


def missing_key(settings: ModelSettings, name: str = "") -> str:
    """Return the environment variable for the key that a model lacks; empty if the model lacks no key.

    Without `name`, this checks the default model.
    """
    scheme = settings.true_name(name or settings.default).partition(":")[0]
    provider = PROVIDERS.get(scheme)
    secrets = settings.secrets
    if provider is None or provider.key is None or scheme in secrets.faults or scheme in secrets.unread:
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
        return model in settings.section.custom and settings.section.custom[model].pictures
    facts = known(name)
    return name == OFFLINE or (facts is not None and facts.pictures)


def models_with_pictures(settings: ModelSettings) -> tuple[str, ...]:
    """Return the names of the configured, usable models that accept pictures."""
    custom = (f"custom:{name}" for name in settings.section.custom)
    usable = (name for name in custom if name not in settings.secrets.faults)
    names = dict.fromkeys((settings.default, *settings.fallbacks, *usable))
    return tuple(name for name in names if name != OFFLINE and model_takes_pictures(name, settings))


def models_to_choose(settings: ModelSettings) -> dict[str, str]:
    """Return the names that a person may want to choose, each with a few words on the model.

    First come the names of the configuration; then the known models of providers whose key is set.
    """
    section = settings.section
    names = dict.fromkeys((section.default, *section.fallbacks), "")
    names |= {alias: f"= {name}" for alias, name in section.aliases.items()}
    names |= {f"{CUSTOM}:{name}": server.model for name, server in section.custom.items()}
    for scheme, provider in PROVIDERS.items():
        if settings.secrets.keys.get(scheme) is not None:
            names |= {f"{scheme}:{model.name}": "" for model in provider.models if "*" not in model.name}
    names[OFFLINE] = ""
    tokens = {name: known_context(name) for name in names}
    return {
        name: said or f"{(tokens[name] or 0) // 1000}k" * bool(tokens[name]) for name, said in names.items()
    }


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


def _of_plugins(loaded: Loaded) -> "Mapping[str, PluginPart[ModelPlugin]]":
    if not loaded.plugins.enabled:
        return {}
    from rumi.models.plugin_models import ModelPlugin

    return {part.name: part for part in loaded.plugins.of(ModelPlugin)}


def model_settings_of(
    loaded: Loaded, language: Language, *, default: str | None = None, lenient: bool = False
) -> ModelSettings:
    """Return the model settings from the configuration, including the keys.

    Raises:
        ConfigError: The key of the default model or of a fallback cannot be read, unless `lenient` is set.
    """
    settings = ModelSettings(
        loaded.settings.model, loaded.secrets, language, _of_plugins(loaded), loaded.plugins.notes
    )
    settings = settings.changed(default=default) if default else settings
    for name in (settings.default, *settings.fallbacks):
        if (key_name := key_owner(name)) in loaded.secrets.faults and not lenient:
            loaded.key(key_name)  # raises the error of this key
    return settings
