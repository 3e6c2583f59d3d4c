"""Construction of a process's models from the settings. The `ModelSet` gives each chat a fallback chain."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from actors import ChildSpec
from rumi.models.actor import Models, ModelsMessage, ModelsRef
from rumi.models.chain import Chain, ChainStep
from rumi.models.metering import Account, Meter
from rumi.models.model import Model
from rumi.models.server import ModelServer
from rumi.models.settings import UNKNOWN_CONTEXT_TOKENS, ModelSettings
from rumi.texts import Language


@dataclass(frozen=True, slots=True)
class ModelSet:
    """The configured models. `steps` lists the models in order; the owner must close the `servers`.

    `steps_of` takes a model's name, returns the chain that starts with that model, and adds the model's
    server to `servers`. It raises `ConfigError` if the model cannot be used.

    `context_tokens` is the size of the first model's context, for prompt and reply together; the history is
    cut to this size. A request to a fallback is cut to the fallback's context. `max_concurrent` is the
    maximum number of simultaneous calls to one server; if it is None, the limit adapts to the server.
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
        """Return the child spec of the `models` actor, which grants permits.

        When it stops, it closes the servers.

        `part` returns the share of all limits that this process may use. Other worker processes share the
        remainder.
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
        """Return the model for a chat: the `chosen` model, or the default model.

        Without `permits`, the number of simultaneous calls is not limited; without a `meter`, no budget
        applies. The calls are charged to `account`.

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
        """Close all servers' idle connections. A running `models` actor does this when it stops."""
        for server in tuple(self.servers):
            await server.aclose()


def check_model_name(name: str) -> None:
    """Check that a model's name has a known scheme (its first part, as in `groq:NAME`) and names a model.

    Raises:
        ConfigError: The name has an unknown scheme, or no model after the scheme.
    """
    from rumi.models.registry import factory_of

    factory_of(name)


def build_models(settings: ModelSettings) -> ModelSet:
    """Create the models named in `settings`.

    A fallback whose required key is missing is skipped. The model `offline` never fails, so it has no
    fallback.

    Raises:
        ConfigError: A name, a URL or a key is invalid. The message never shows a key.
    """
    from rumi.models.registry import Registry

    registry = Registry(settings)
    steps = registry.steps_of(settings.default)
    context_tokens = (
        settings.section.context_tokens
        or settings.context_of(settings.true_name(settings.default))
        or UNKNOWN_CONTEXT_TOKENS
    )
    servers = registry.servers.values()
    return ModelSet(
        steps, servers, context_tokens, settings.language, settings.section.max_concurrent, registry.steps_of
    )
