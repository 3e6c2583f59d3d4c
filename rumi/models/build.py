"""From settings to models: the settings, and the models of a process, from which each chat gets its chain."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from actors import ChildSpec
from rumi.models.actor import Models, ModelsMessage, ModelsRef
from rumi.models.chain import Chain, ChainStep
from rumi.models.metering import Account, Meter
from rumi.models.model import Model
from rumi.models.server import ModelServer
from rumi.models.settings import ModelSettings, context_tokens_of
from rumi.platform.texts.language import Language


@dataclass(frozen=True, slots=True)
class ModelSet:
    """The configured models. `steps` is their order; `servers` must be closed in the end.

    `steps_of` returns the steps that begin with another model, and raises `ConfigError` where it cannot be
    used; its server is then one of the `servers` as well.

    `context_tokens` is the first model's maximum, prompt and reply together; the history is cut to it. A
    request to a fallback is cut to the fallback's own maximum. `max_concurrent` is the maximum number of
    simultaneous calls to one server; without it, the number adapts.
    """

    steps: tuple[ChainStep, ...]
    servers: Collection[ModelServer]
    context_tokens: int
    language: Language = "en"
    max_concurrent: int | None = None
    steps_of: Callable[[str], tuple[ChainStep, ...]] = field(default=lambda name: (), repr=False)

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


def check_model_name(name: str) -> None:
    """Check that a name is one of the forms that models have.

    Raises:
        ConfigError: It has an unknown scheme, or no model behind it.
    """
    from rumi.models.registry import factory_of

    factory_of(name)


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
