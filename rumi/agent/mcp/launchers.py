"""The program that starts a server. READMEs of servers name launchers such as `uvx`, `npx` and `docker run`.

If a launcher is not installed, but the package that it would start is, that package's own program is started.
"""

import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rumi.agent.mcp.messages import McpError
from rumi.platform.config.schema import McpSection
from rumi.texts import Text

CONTAINERS: Final = ("docker", "podman", "nerdctl")
DOWNLOADERS: Final = ("uvx", "npx", "bunx", "pipx", "uv")
"""Launchers that download the server: at the first start they need a network, and more time."""

_NODE_MODULES: Final = ("/usr/local/lib/node_modules", "/usr/lib/node_modules")
_MOST_JSON: Final = 1_000_000
_PACKAGE: Final = re.compile(r"(@[\w.-]+/)?[\w.-]+")
_WITH_VALUE: Final = ("--from", "--with", "--python", "--index-url", "--package", "--spec", "-p", "-w", "-i")
"""Options of launchers that take a value as the next word."""


def find(command: str) -> Path:
    """Return the absolute path of a command's program.

    Raises:
        McpError: The program does not exist.
    """
    found = shutil.which(os.path.expanduser(command))
    if found is None:
        raise McpError(
            "The command {command} is not there.", "Install it, or correct config.toml.", command=command
        )
    return Path(found).absolute()


def started(section: McpSection) -> tuple[Path, tuple[str, ...]]:
    """Return the program and the arguments that start a server.

    Raises:
        McpError: The program does not exist, or cannot work in the sandbox.
    """
    name = Path(section.command).name
    if name in CONTAINERS and section.sandbox:
        raise McpError(
            "{command} cannot start a container inside of a server's sandbox.",
            "Install the server's package and use its own command, or set sandbox = false for this server: "
            "the container then is its only sandbox.",
            command=name,
        )
    try:
        return find(section.command), section.args
    except McpError as error:
        if (own := _installed(name, section.args)) is not None:
            return own
        advice = _advice(name, section.args)
        raise McpError(error.message, advice or error.advice) from None


def _installed(launcher: str, arguments: Sequence[str]) -> tuple[Path, tuple[str, ...]] | None:
    """Return the installed program that a missing launcher would start, with its arguments; None if none."""
    if launcher == "python" and (python := shutil.which("python3")):
        return Path(python), tuple(arguments)
    named = _package(launcher, arguments)
    if named is None:
        return None
    package, rest = named
    if launcher in ("npx", "bunx"):
        return _of_node(package, rest)
    program = shutil.which(package)
    return None if program is None else (Path(program).absolute(), tuple(rest))


def packaged(launcher: str, arguments: Sequence[str]) -> str:
    """Return the package or command that a launcher such as `uvx` starts; empty for other programs."""
    named = _package(launcher, arguments)
    return "" if named is None else named[0]


def _package(launcher: str, arguments: Sequence[str]) -> tuple[str, Sequence[str]] | None:
    """Return the package or command that a launcher starts, without version, and the arguments after it."""
    words = [*arguments]
    if launcher == "uv":
        if words[:2] != ["tool", "run"]:
            return None
        words = words[2:]
    elif launcher == "pipx":
        if words[:1] != ["run"]:
            return None
        words = words[1:]
    elif launcher not in DOWNLOADERS:
        return None
    while words and words[0].startswith("-"):
        words = words[2 if words[0] in _WITH_VALUE else 1 :]
    match = _PACKAGE.match(words[0]) if words else None
    return None if match is None else (match.group(), words[1:])


def _of_node(package: str, arguments: Sequence[str]) -> tuple[Path, tuple[str, ...]] | None:
    """Return the program of a package that npm has installed for the whole machine."""
    for folder in _NODE_MODULES:
        try:
            with Path(folder, package, "package.json").open("rb") as file:
                about = json.loads(file.read(_MOST_JSON))
            bin = about["bin"]
            script = bin if isinstance(bin, str) else next(iter(bin.values()))
            return Path(folder, package, str(script)).resolve(strict=True), tuple(arguments)
        except (OSError, ValueError, LookupError, TypeError, AttributeError, StopIteration, RecursionError):
            continue
    return None


def _advice(launcher: str, arguments: Sequence[str]) -> Text | None:
    """Return what to install instead of a missing launcher; None for other programs."""
    named = _package(launcher, arguments)
    package = named[0] if named else ""
    if launcher in ("uv", "uvx", "pipx"):
        if package:
            return Text(
                "Install uv (pip install uv), or the server itself (pip install {package}), which then "
                "starts without {launcher}.",
                package=package,
                launcher=launcher,
            )
        return Text("Install uv (pip install uv).")
    if launcher in ("node", "npm", "npx"):
        return Text(
            "Install Node.js, which brings {launcher} (Debian and Ubuntu: apt install npm).",
            launcher=launcher,
        )
    if launcher in ("bun", "bunx", "deno"):
        return Text("Install {launcher}, or Node.js and use npx.", launcher=launcher)
    if launcher in CONTAINERS:
        return Text("Install {launcher}, or the server's package and use its own command.", launcher=launcher)
    return None
