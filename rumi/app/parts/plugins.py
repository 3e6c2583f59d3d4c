"""The plugins part: the actors, the tools and the kinds of tasks that enabled plugins bring."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

from actors import Supervisor
from rumi.agent.plugin_tools import ToolContext, ToolPlugin, checked_tools
from rumi.agent.tool import Tool
from rumi.app.parts.inputs import TreeInputs
from rumi.app.plugin_rows import plugin_rows
from rumi.chats.context import ChatView
from rumi.errors import RumiError
from rumi.platform.config.plugins import PluginPart, Plugins, fault_of, is_fault
from rumi.tasks.kinds import TaskKind, TaskPlugin
from rumi.web.readers.files.viewer import Viewer

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PluginsPart:
    """The enabled plugins. What one of them raises is noted, and the others are used."""

    inputs: TreeInputs
    viewer: Viewer
    actors: Mapping[str, object] = field(default_factory=dict)

    @property
    def _plugins(self) -> Plugins:
        return self.inputs.loaded.plugins

    def _failed(self, plugin: str, error: BaseException) -> None:
        """Note what a plugin has raised; raise it again if it is not the plugin's."""
        if not is_fault(error):
            raise error
        logger.warning("the plugin %s failed", plugin, exc_info=error)
        self._plugins.notes.add(plugin, fault_of(error))

    def tools_for(self, view: ChatView, taken: Collection[str]) -> tuple[Tool, ...]:
        """Return the plugins' tools for one turn; tools with a name that is `taken` are left out."""
        names, tools = set(taken), list[Tool]()
        for part in self._plugins.of(ToolPlugin):
            if part.name not in self.actors:
                continue  # its actors could not be added
            try:
                found = part.registration.tools(self._context(part, view))
                checked = checked_tools(found, names, partial(self._failed, part.context.plugin))
            except BaseException as error:  # noqa: BLE001  # a plugin may raise anything
                self._failed(part.context.plugin, error)
                continue
            names |= {tool.spec.name for tool in checked}
            tools += checked
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
                self._failed(part.context.plugin, error)
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
        place = Supervisor(f"plugin-{one.name}", isolates=True)
        try:
            actors[one.name] = one.registration.add_actors(place, one.context)
        except BaseException as error:  # noqa: BLE001  # a plugin may raise anything
            part._failed(one.context.plugin, error)
            continue
        if place.children():
            inputs.root.add_supervisor(place)
    return part
