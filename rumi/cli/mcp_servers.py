"""The configured servers of tools, and what the command of a new one needs from this machine."""

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rumi.cli.printing import confirm
from rumi.cli.speaking import say, tr
from rumi.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rumi.agent.mcp.messages import ServerSettings


def servers_of() -> "tuple[Path, dict[str, ServerSettings]]":
    """Return $RUMI_HOME and the configured servers."""
    from rumi.app.settings import mcp_settings_of
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.files import home_from

    root = home_from(os.environ)
    return root, {server.name: server for server in mcp_settings_of(load_settings(root, os.environ, {}))}


def named(servers: "Mapping[str, ServerSettings]", name: str) -> "ServerSettings":
    """Return the server with this name.

    Raises:
        UsageError: There is none.
    """
    if name not in servers:
        raise UsageError("Unknown server {name}.", "rumi mcp list shows the servers.", name=name)
    return servers[name]


def absolute_command(words: "Sequence[str]", *, sandbox: bool) -> "tuple[str, ...]":
    """Return a command with the absolute path of its program, because the daemon may have another PATH."""
    from rumi.agent.mcp.launchers import started
    from rumi.platform.config.schema import McpSection

    section = McpSection.model_construct(command=words[0], args=tuple(words[1:]), sandbox=sandbox)
    program, arguments = started(section)
    return (str(program), *arguments)


def missing_paths(
    name: str,
    root: Path,
    command: "Sequence[str]",
    variables: "Mapping[str, str]",
    paths: "Sequence[str]",
    *,
    yes: bool,
    asks: bool = True,
) -> list[str]:
    """Ask for each path that the server names and its sandbox would not show; return the folders to give it.

    Where nobody can answer, or `asks` is False, only say how to give the server each folder.
    """
    from rumi.agent.mcp.bwrap import installation
    from rumi.agent.mcp.messages import ServerSettings
    from rumi.agent.mcp.paths import advice, unseen
    from rumi.platform.config.schema import McpSection

    section = McpSection.model_construct(args=tuple(command[1:]), paths=tuple(paths))
    settings = ServerSettings(name, section, dict(variables))
    given: list[str] = []
    for one in unseen(settings, root, installation(Path(command[0]), root)):
        folder = one.folder
        asked = tr("It names {path}. May it read and change {folder}?", path=one.path, folder=folder)
        if folder is None:
            say(
                "Its sandbox does not have {path_name}. {advice}",
                path_name=one.path,
                advice=advice(one, name),
                err=True,
            )
        elif str(folder) in given:
            continue
        elif yes or (asks and sys.stdin.isatty() and confirm(asked, err=True)):
            folder.mkdir(parents=True, exist_ok=True)
            given.append(str(folder))
            if yes:
                say("It may read and change {folder}.", folder=folder, err=True)
        else:
            say(
                "Its sandbox does not have {path_name}. To give it to the server: rumi mcp allow {name} "
                "--path {folder}",
                name=name,
                path_name=one.path,
                folder=shlex.quote(str(folder)),
                err=True,
            )
    return given
