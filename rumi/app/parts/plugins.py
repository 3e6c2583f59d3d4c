"""The plugins part: the actors, the tools and the kinds of tasks that enabled plugins bring."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from actors import Supervisor
from rumi.agent.plugin_tools import ToolContext, ToolPlugin
from rumi.agent.tool import Tool
from rumi.app.parts.inputs import TreeInputs
from rumi.channels.registration import ChannelPlugin
from rumi.chats.context import ChatView
from rumi.errors import RumiError, UsageError
from rumi.models.plugin_models import ModelPlugin
from rumi.platform.config.plugins import PluginPart, Plugins, Registration
from rumi.tasks.kinds import TaskKind, TaskPlugin
from rumi.web.readers.files.viewer import Viewer
from rumi.web.readers.registration import ReaderPlugin

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

    def _failed(self, plugin: str, error: Exception) -> None:
        said = error.message if isinstance(error, RumiError) else f"{type(error).__name__}: {error}"[:500]
        logger.warning("the plugin %s failed", plugin, exc_info=error)
        self._plugins.notes.add(plugin, said)

    def tools_for(self, view: ChatView, taken: Collection[str]) -> tuple[Tool, ...]:
        """Return the plugins' tools for one turn; tools with a name that is `taken` are left out."""
        names, tools = set(taken), list[Tool]()
        for part in self._plugins.of(ToolPlugin):
            if part.name not in self.actors:
                continue  # its actors could not be added
            try:
                found = tuple(part.registration.tools(self._context(part, view)))
                for tool in found:
                    if tool.spec.name in names:
                        raise RumiError("There is another tool {name}.", name=tool.spec.name)
                    names.add(tool.spec.name)
                    tools.append(tool)
            except Exception as error:  # noqa: BLE001  # a plugin may raise anything
                self._failed(part.context.plugin, error)
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
            except Exception as error:  # noqa: BLE001  # a plugin may raise anything
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
        except Exception as error:  # noqa: BLE001  # a plugin may raise anything
            part._failed(one.context.plugin, error)
            continue
        if place.children():
            inputs.root.add_supervisor(place)
    return part


@dataclass(frozen=True, slots=True)
class PluginRow:
    """A plugin as people see it: what it adds, and what went wrong with it.

    `version` is empty if the plugin is enabled and not installed.
    """

    name: str
    version: str
    enabled: bool
    adds: tuple[str, ...]
    problems: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """Return the row as JSON types, in English."""
        return {
            "name": self.name,
            "version": self.version or None,
            "enabled": self.enabled,
            "adds": list(self.adds),
            "problems": list(map(str, self.problems)),
        }


def plugin_rows(plugins: Plugins) -> list[PluginRow]:
    """Return the installed and the enabled plugins by name, with the problems noted so far. Blocking."""
    installed = plugins.installed()
    rows = []
    for name in sorted({*installed, *plugins.enabled}):
        found = installed.get(name)
        adds = () if found is None else tuple(f"{entry.group}: {entry.name}" for entry in found.entries)
        version = "" if found is None else found.version or "?"
        rows.append(PluginRow(name, version, name in plugins.enabled, adds, plugins.notes.of(name)))
    return rows


def checked_rows(plugins: Plugins) -> list[PluginRow]:
    """Load all that the enabled plugins register, and return the rows of all plugins. Blocking."""
    kinds: tuple[type[Registration], ...] = (ChannelPlugin, ToolPlugin, ModelPlugin, TaskPlugin, ReaderPlugin)
    for kind in kinds:
        plugins.of(kind)
    return plugin_rows(plugins)


def require_installed(plugins: Plugins, name: str) -> None:
    """Check that a plugin is installed.

    Raises:
        UsageError: It is not installed.
    """
    known = plugins.installed()
    if name not in known:
        raise UsageError(
            "No plugin {name} is installed.",
            "Installed: {names}.",
            name=f"{name!r}",
            names=", ".join(sorted(known)) or "-",
        )
