"""The installed and the enabled plugins, as `rumi plugins`, `rumi doctor` and the status show them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rumi.errors import UsageError
from rumi.platform.config.plugins import Plugins, Registration


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


def with_problems(rows: Sequence[PluginRow], running: Mapping[str, tuple[str, ...]]) -> list[PluginRow]:
    """Return the rows with the problems that a running process knows, each problem once."""
    return [
        replace(row, problems=tuple(dict.fromkeys((*map(str, row.problems), *running.get(row.name, ())))))
        for row in rows
    ]


def checked_rows(plugins: Plugins) -> list[PluginRow]:
    """Load all that the enabled plugins register, and return the rows of all plugins. Blocking."""
    if plugins.enabled:
        from rumi.agent.plugin_tools import ToolPlugin
        from rumi.channels.registration import ChannelPlugin
        from rumi.models.plugin_models import ModelPlugin
        from rumi.tasks.kinds import TaskPlugin
        from rumi.web.readers.registration import ReaderPlugin

        kinds: tuple[type[Registration], ...] = (
            *(ChannelPlugin, ToolPlugin, ModelPlugin, TaskPlugin, ReaderPlugin),
        )
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
