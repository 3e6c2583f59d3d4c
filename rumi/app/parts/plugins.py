"""The plugins part: the actors, the tools and the kinds of tasks that enabled plugins bring."""

import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from actors import Supervisor, TreeEvent
from rumi.agent.plugin_tools import ToolContext, ToolPlugin, checked_tools
from rumi.agent.tool import Tool, ToolResult
from rumi.app.parts.inputs import TreeInputs
from rumi.app.plugin_rows import plugin_rows
from rumi.channels.registration import ChannelPlugin
from rumi.chats.context import ChatView
from rumi.errors import RumiError
from rumi.platform.config.plugins import PluginPart, Plugins, is_fault
from rumi.tasks.kinds import TaskKind, TaskPlugin
from rumi.web.readers.files.viewer import Viewer

logger = logging.getLogger(__name__)


def tools_place(part: PluginPart[ToolPlugin]) -> str:
    """Return the id of the supervisor of the actors of a plugin's tools."""
    return f"plugin-{part.name}"


def channel_place(part: PluginPart[ChannelPlugin]) -> str:
    """Return how the ids of the supervisors of a plugin's channel begin."""
    return part.registration.prefix(part.name).text


@dataclass(frozen=True, slots=True)
class PluginsPart:
    """The enabled plugins. What one of them raises is noted, and the others are used."""

    inputs: TreeInputs
    viewer: Viewer
    actors: Mapping[str, object] = field(default_factory=dict)

    @property
    def _plugins(self) -> Plugins:
        return self.inputs.loaded.plugins

    def _failed(self, part: PluginPart[Any], error: BaseException) -> None:
        """Note what a plugin has raised; raise it again if it is not the plugin's."""
        if not is_fault(error):
            raise error
        logger.warning("the plugin %s failed", part.context.plugin, exc_info=error)
        self._plugins.notes.add(part.context.plugin, f"{part.registration.group}: {part.name}", error)

    def tree_happened(self, event: TreeEvent) -> None:
        """Note the crash of a plugin's actor. Never raises."""
        if event.error is None or not self._plugins.enabled:
            return
        place = "".join(event.path.split("/")[1:2])
        plugins = [(part.context.plugin, tools_place(part)) for part in self._plugins.of(ToolPlugin)]
        plugins += [(part.context.plugin, channel_place(part)) for part in self._plugins.of(ChannelPlugin)]
        for plugin, begins in plugins:
            if place.startswith(begins):
                self._plugins.notes.add(plugin, event.path.partition("/")[2], event.error)

    def _noting(self, part: PluginPart[ToolPlugin], tool: Tool) -> Tool:
        """Return a tool whose unexpected errors are noted. They still become results of its calls."""
        call, what = tool.call, f"{part.registration.group}: {tool.spec.name}"

        async def noting(arguments: Mapping[str, object]) -> ToolResult:
            try:
                result = await call(arguments)
            except RumiError:
                raise
            except BaseException as error:
                if not is_fault(error):
                    raise
                self._plugins.notes.add(part.context.plugin, what, error)
                if isinstance(error, Exception):
                    raise
                raise RuntimeError("it wanted to end the process") from error
            self._plugins.notes.clear(part.context.plugin, what)
            return result

        with suppress(AttributeError):  # a tool with slots is used as it is
            tool.call = noting  # type: ignore[method-assign]
        return tool

    def tools_for(self, view: ChatView, taken: Collection[str]) -> tuple[Tool, ...]:
        """Return the plugins' tools for one turn; tools with a name that is `taken` are left out."""
        names, tools = set(taken), list[Tool]()
        for part in self._plugins.of(ToolPlugin):
            if part.name not in self.actors:
                continue  # its actors could not be added
            try:
                found = part.registration.tools(self._context(part, view))
                checked = checked_tools(found, names, partial(self._failed, part))
            except BaseException as error:  # noqa: BLE001  # a plugin may raise anything
                self._failed(part, error)
                continue
            names |= {tool.spec.name for tool in checked}
            tools += [self._noting(part, tool) for tool in checked]
        return tuple(tools)

    def _context(self, part: PluginPart[ToolPlugin], view: ChatView) -> ToolContext:
        async def save_file(content: bytes, name: str) -> str:
            await view.touch_files()
            await view.mark_files_tainted()
            return await self.viewer.save_file(view.chat, content, name)

        return ToolContext(
            plugin=part.context,
            actors=self.actors[part.name],
            chat=view.chat,
            owner=self.inputs.ids.owner_of(view.chat),
            language=view.language(),
            tainted=view.tainted,
            save_file=save_file,
        )

    def kinds(self, own: Collection[str]) -> dict[str, TaskKind]:
        """Return the kinds of tasks that plugins bring, by name; a name of Rumi's `own` kinds is refused."""
        found: dict[str, TaskKind] = {}
        for part in self._plugins.of(TaskPlugin):
            try:
                if part.name in own:
                    raise RumiError("Rumi has a kind of tasks {name} itself.", name=part.name)
                found[part.name] = part.registration.kind(part.context)
            except BaseException as error:  # noqa: BLE001  # a plugin may raise anything
                self._failed(part, error)
        return found

    def state(self) -> dict[str, object]:
        """Return the part of the status dump about plugins; empty if none is enabled. Imports nothing."""
        if not self._plugins.enabled:
            return {}
        return {"plugins": [row.to_json() for row in plugin_rows(self._plugins) if row.enabled]}


def add_plugins(inputs: TreeInputs, viewer: Viewer) -> PluginsPart:
    """Add the actors of plugins, each below a supervisor of its own that isolates them from the tree."""
    plugins, actors = inputs.loaded.plugins, dict[str, object]()
    part = PluginsPart(inputs, viewer, actors)
    for one in plugins.of(ToolPlugin):
        place = Supervisor(tools_place(one), isolates=True)
        try:
            actors[one.name] = one.registration.add_actors(place, one.context)
        except BaseException as error:  # noqa: BLE001  # a plugin may raise anything
            part._failed(one, error)
            continue
        if place.children():
            inputs.root.add_supervisor(place)
    return part
