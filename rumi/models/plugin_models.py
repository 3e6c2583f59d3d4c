"""Models of plugins: their registration, and the guard around them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from rumi.errors import ConfigError
from rumi.models.chain import ChainStep
from rumi.models.model import Emit, Model, ModelError, ModelRequest, Reply, ToolCall
from rumi.models.token_budget import TokenBudget
from rumi.platform.config.plugins import FAULTS, PluginContext, PluginNotes, PluginPart, Registration
from rumi.platform.config.providers import PLUGIN


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlugin(Registration):
    """The registration of a model adapter, for the group `rumi.models`.

    The model `plugin:NAME:MODEL` is what `model` returns for `MODEL`, where NAME is that of the entry point.
    `context_tokens` is the size of its context, for prompt and reply together; None if it is not known.
    `pictures` says whether it accepts pictures.
    """

    group: ClassVar[str] = "rumi.models"

    model: Callable[[str, PluginContext], Model]
    context_tokens: int | None = None
    pictures: bool = False


class GuardedModel:
    """A plugin's model: whatever else than a `ModelError` it raises becomes one."""

    def __init__(
        self,
        name: str,
        inner: Model,
        failed: Callable[[str, BaseException], None],
        works: Callable[[str], None],
    ) -> None:
        self._name = name
        self._inner = inner
        self._failed = failed
        self._works = works

    @property
    def name(self) -> str:
        """The name as in the configuration: `plugin:NAME:MODEL`."""
        return self._name

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        """Stream one reply of the plugin's model.

        Raises:
            ModelError: The plugin's model has failed.
        """
        what = f"{ModelPlugin.group}: {self._name}"
        try:
            reply = await self._inner.reply(request, emit)
            _check(reply)
        except ModelError:
            raise
        except FAULTS as error:
            self._failed(what, error)
            why = f"{type(error).__name__}: {error}"[:500]
            raise ModelError(
                "server", "The adapter of {model} failed: {why}", model=self._name, why=why
            ) from error
        self._works(what)
        return reply


def _check(reply: object) -> None:
    """Check what a plugin's model returned, because the agent works with it.

    Raises:
        TypeError: It is not a `Reply`, or the arguments of a call are no JSON text.
    """
    if not isinstance(reply, Reply) or not isinstance(reply.text, str):
        raise TypeError(f"reply() returned {type(reply).__name__}, which is not a Reply with a text")
    for call in reply.tool_calls:
        if not isinstance(call, ToolCall) or not isinstance(call.arguments, str):
            raise TypeError("a tool call has arguments that are not a JSON text")


def plugin_step(name: str, parts: Mapping[str, PluginPart[ModelPlugin]], notes: PluginNotes) -> ChainStep:
    """Return the chain step of a model `plugin:NAME:MODEL`.

    Raises:
        ConfigError: No enabled plugin brings that adapter, or the adapter refuses the model.
    """
    adapter, _, model = name.removeprefix(f"{PLUGIN}:").partition(":")
    part = parts.get(adapter)
    if part is None or not model:
        known = ", ".join(f"{PLUGIN}:{one}:MODEL" for one in parts)
        raise ConfigError(
            "No enabled plugin brings the model {name}.",
            "rumi plugins lists the plugins. Models of plugins: {known}.",
            name=f"{name!r}",
            known=known or "-",
        )
    try:
        made = part.registration.model(model, part.context)
    except ConfigError:
        raise
    except FAULTS as error:
        notes.add(part.context.plugin, f"{ModelPlugin.group}: {name}", error)
        why = f"{type(error).__name__}: {error}"[:500]
        raise ConfigError("The adapter of {name} failed: {why}", name=f"{name!r}", why=why) from error
    budget = TokenBudget(part.registration.context_tokens)
    failed, works = (partial(one, part.context.plugin) for one in (notes.add, notes.clear))
    return ChainStep(
        GuardedModel(name, made, failed, works), f"{PLUGIN}:{adapter}", budget, part.registration.pictures
    )
