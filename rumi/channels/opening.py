"""Opening of the channels that a process serves: Rumi's own ones, those of plugins, and the listener."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from rumi.channels.built_in import BUILT_IN, LISTENER
from rumi.channels.channel import Channel
from rumi.channels.registration import ChannelPlugin, Serving, Writers
from rumi.errors import RumiError
from rumi.platform.config.plugins import PluginNotes, PluginPart, is_fault

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WantedChannel:
    """A registration whose channels are served. `part` is None for Rumi's own ones."""

    registration: ChannelPlugin
    part: PluginPart[ChannelPlugin] | None = None

    @property
    def writers(self) -> Writers:
        """Who writes in the channel."""
        return self.registration.writers


def wanted_channels(serving: Serving) -> list[WantedChannel]:
    """Return the registrations of all channels that are configured, in the order in which they are opened."""
    found = [WantedChannel(one) for one in BUILT_IN.values() if one.wanted(serving)]
    if serving.flags.others:
        plugins = serving.loaded.plugins
        for part in plugins.of(ChannelPlugin):

            def wanted(part: PluginPart[ChannelPlugin] = part) -> bool:
                return bool(part.registration.wanted(_of_plugin(serving, part)))

            if _guarded(plugins.notes, part, wanted):
                found.append(WantedChannel(part.registration, part))
    return [*found, *([WantedChannel(LISTENER)] if LISTENER.wanted(serving) else [])]


@contextmanager
def open_channels(serving: Serving, wanted: Sequence[WantedChannel]) -> Iterator[tuple[Channel, ...]]:
    """Open the channels; close them when the block ends. A plugin that cannot open its channel leaves a note.

    Raises:
        RumiError: One of Rumi's own channels cannot be opened. The error says what to do.
    """
    with ExitStack() as stack:
        opened: list[Channel] = []
        for one in wanted:
            seen = replace(serving, opened=tuple(opened))
            if one.part is None:
                opened += stack.enter_context(one.registration.open(seen))
            else:
                opened += _opened_by_plugin(stack, _of_plugin(seen, one.part), one.part)
        yield tuple(opened)


def _of_plugin(serving: Serving, part: PluginPart[ChannelPlugin]) -> Serving:
    return replace(serving, prefix=part.registration.prefix(part.name), plugin=part.context)


def _opened_by_plugin(
    stack: ExitStack, serving: Serving, part: PluginPart[ChannelPlugin]
) -> Sequence[Channel]:
    from rumi.channels.guarded import GuardedChannel
    from rumi.channels.simple import SimpleChannel

    notes, prefix = serving.loaded.plugins.notes, serving.prefix
    assert prefix is not None

    def opened() -> list[Channel]:
        channels = stack.enter_context(part.registration.open(serving))
        if not isinstance(channels, list | tuple) or not all(isinstance(one, Channel) for one in channels):
            raise RumiError("`open` yields a list or a tuple of channels.")
        if len(channels) > 1:
            raise RumiError(
                "A registration opens one channel, and this one opened {count}.", count=len(channels)
            )
        return list(channels)

    channels = _guarded(notes, part, opened) or []
    add, clear = (partial(one, part.context.plugin) for one in (notes.add, notes.clear))
    for channel in channels:
        if isinstance(channel, SimpleChannel):
            channel.report(add, clear)
    return [GuardedChannel(channel, prefix, add) for channel in channels]


def _guarded(notes: PluginNotes, part: PluginPart[ChannelPlugin], call: Callable[[], T]) -> T | None:
    """Return the result of a plugin's function; None if it raised an error, which is noted."""
    try:
        return call()
    except BaseException as error:  # a plugin may raise anything
        if not is_fault(error):
            raise
        notes.add(part.context.plugin, f"{part.registration.group}: {part.name}", error)
        if not isinstance(error, RumiError):
            logger.warning("the plugin %s did not open its channel", part.context.plugin, exc_info=error)
        return None
