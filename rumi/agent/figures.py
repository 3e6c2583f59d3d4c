"""Measures the model calls of a turn, for the views that show what an answer took."""

from collections.abc import Callable
from typing import Final

import trio

from rumi.agent.events import TurnEvent
from rumi.models.model import Emit, Model, ModelEvent, ModelRequest, Reply, Usage, Used, Waiting
from rumi.store.journal.shown import THOUGHT_CHARS, CallFigures

_MS: Final = 1_000


async def measured(
    model: Model, request: ModelRequest, emit: Emit, watch: Callable[[TurnEvent], None]
) -> Reply:
    """Return a model's reply to a request, and pass the figures of the call to `watch` as a `CallFigures`.

    A call that fails or is cancelled has none.

    Raises:
        ModelError: The model could not be reached or refused.
    """
    began, first = trio.current_time(), 0.0
    name, used = "", Usage()

    def heard(event: ModelEvent) -> None:
        nonlocal first, name, used
        if isinstance(event, Used):
            name, used = event.model, used + event.usage
        elif not isinstance(event, Waiting):
            first = first or trio.current_time()
        emit(event)

    reply = await model.reply(request, heard)
    ended = trio.current_time()
    usage = used if name else reply.usage
    first_ms, ms = round(((first or ended) - began) * _MS), round((ended - began) * _MS)
    thought = reply.reasoning.strip()
    watch(
        CallFigures(
            name or reply.model or model.name,
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.cached_tokens,
            usage.nano_usd,
            ms,
            first_ms,
            thought[:THOUGHT_CHARS],
            first_ms if thought else 0,
        )
    )
    return reply
