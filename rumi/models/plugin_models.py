"""Models of plugins: their registration, and the guard around them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import ClassVar, Final, get_args

import trio

from rumi.errors import ConfigError
from rumi.models.chain import ChainStep
from rumi.models.model import Emit, Model, ModelError, ModelEvent, ModelRequest, Reply, ToolCall, Usage
from rumi.models.token_budget import TokenBudget
from rumi.platform.config.plugins import (
    PluginContext,
    PluginNotes,
    PluginPart,
    Registration,
    fault_of,
    is_fault,
)
from rumi.platform.config.providers import PLUGIN

SILENCE_S: Final = 600.0
"""Maximum time without an event of a plugin's model, in seconds."""


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
    """A plugin's model. What it raises, a result that is no reply, and silence become a `ModelError`."""

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
        silent = trio.CancelScope(deadline=trio.current_time() + SILENCE_S)

        def heard(event: ModelEvent) -> None:
            if not isinstance(event, get_args(ModelEvent)):
                raise TypeError(f"it emitted {type(event).__name__}")
            silent.deadline = trio.current_time() + SILENCE_S
            emit(event)

        try:
            with silent:
                reply = checked_reply(await self._inner.reply(request, heard))
            if silent.cancelled_caught:
                raise ModelError("timeout", "{model} did not answer.", model=self._name)
        except ModelError:
            raise
        except BaseException as error:
            if not is_fault(error):
                raise
            self._failed(what, error)
            why = fault_of(error)
            raise ModelError(
                "server", "The adapter of {model} failed: {why}", model=self._name, why=why
            ) from error
        self._works(what)
        return reply


def checked_reply(reply: object) -> Reply:
    """Return a plugin's reply if all its fields have their types.

    Raises:
        TypeError: One of them has not.
    """
    if not isinstance(reply, Reply):
        raise TypeError(f"it returned {type(reply).__name__}, not Reply")
    texts = [reply.text, reply.finish_reason, reply.model, reply.reasoning]
    calls = reply.tool_calls
    if not isinstance(calls, tuple) or not all(isinstance(call, ToolCall) for call in calls):
        raise TypeError("its tool_calls are no tuple of ToolCall")
    texts += [text for call in calls for text in (call.id, call.name, call.arguments)]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a text of its reply is no str")
    usage = reply.usage
    if not isinstance(usage, Usage) or not all(
        isinstance(count := getattr(usage, field.name), int) and count >= 0 for field in fields(Usage)
    ):
        raise TypeError("its usage is no Usage of numbers")
    return reply


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
    except BaseException as error:
        if not is_fault(error):
            raise
        notes.add(part.context.plugin, f"{ModelPlugin.group}: {name}", error)
        why = fault_of(error)
        raise ConfigError("The adapter of {name} failed: {why}", name=f"{name!r}", why=why) from error
    budget = TokenBudget(part.registration.context_tokens)
    failed, works = (partial(one, part.context.plugin) for one in (notes.add, notes.clear))
    return ChainStep(
        GuardedModel(name, made, failed, works), f"{PLUGIN}:{adapter}", budget, part.registration.pictures
    )
