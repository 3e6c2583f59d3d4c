"""Extras: parts of Rumi that most users do not need, whose packages `pyproject.toml` lists one by one.

Code that is about to use such a package calls `require_extra`, which raises an error with the command that
installs it. Nothing else in Rumi depends on an extra.
"""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal, TypeAlias

from rumi.errors import RumiError
from rumi.texts import Text

ExtraName: TypeAlias = Literal[
    "calendar",
    "cluster",
    "e2e",
    "encodings",
    "location",
    "mail",
    "matrix",
    "mcp",
    "office",
    "page",
    "pictures",
]


_ZSTD: Final = () if sys.version_info >= (3, 14) else ("backports.zstd",)  # part of later Pythons


@dataclass(frozen=True, slots=True)
class Extra:
    """What needs the extra, as the beginning of a sentence, and modules that its packages install."""

    users: Text
    modules: tuple[str, ...]


EXTRAS: Final[Mapping[ExtraName, Extra]] = {
    "calendar": Extra(Text("Calendars"), ("icalendar", "recurring_ical_events")),
    "cluster": Extra(Text("Stores on PostgreSQL"), ("psycopg",)),
    "e2e": Extra(Text("Encrypted rooms on Matrix"), ("nio", "vodozemac")),
    "encodings": Extra(Text("Rare encodings and compressions"), ("brotli", "chardet", *_ZSTD)),
    "location": Extra(Text("Time zones of places"), ("tzfpy",)),
    "mail": Extra(Text("Mails as messages of people"), ("dkim", "dns")),
    "matrix": Extra(Text("Chats on Matrix"), ("nio",)),
    "mcp": Extra(Text("Servers and clients of MCP"), ("mcp",)),
    "office": Extra(Text("Older office files (.xls, .xlsb, .msg)"), ("olefile", "python_calamine", "xlrd")),
    "page": Extra(
        Text("The page, webhooks and metrics"),
        ("hypercorn", "math_core", "mdit_py_plugins", "nh3", "prometheus_client", "segno", "starlette"),
    ),
    "pictures": Extra(Text("Pictures"), ("PIL",)),
}


class MissingExtra(RumiError):
    """An extra is not installed. The advice is the command that installs it."""

    def __init__(self, name: ExtraName) -> None:
        super().__init__(
            "{users} need the extra `{name}`, which is not installed.",
            "Install it: {command}",
            users=EXTRAS[name].users,
            name=name,
            command=install_command(name),
        )


def require_extra(name: ExtraName) -> None:
    """Check that an extra is installed, before one of its packages is imported.

    Raises:
        MissingExtra: It is not.
    """
    if not is_installed(name):
        raise MissingExtra(name)


def missing_clause(name: ExtraName) -> Text:
    """Return why a file cannot be read without an extra, as a clause that completes a sentence."""
    return Text(
        "it needs the extra `{name}`, which is not installed: {command}",
        name=name,
        command=install_command(name),
    )


def as_text(clause: str) -> str:
    """Return the `Text` for a `missing_clause` that another process sent, and any other string unchanged."""
    return next((text for text in map(missing_clause, EXTRAS) if text == clause), clause)


@cache
def is_installed(name: ExtraName) -> bool:
    """Return True if all packages of an extra can be imported. Looks once per process, and imports none."""
    return all(map(_can_be_imported, EXTRAS[name].modules))


@cache
def install_command(name: ExtraName) -> str:
    """Return the command that installs an extra into the environment that runs."""
    folder, prefix = Path(__file__).resolve().parents[2], Path(sys.prefix)
    if (folder / "deploy" / "environment.py").exists() and prefix.parent == folder:
        return f"make -C {shlex.quote(str(folder))} extra NAME={name}"
    if _is_of_uv(prefix):
        return f"uv pip install --python {shlex.quote(sys.executable)} 'rumi[{name}]'"
    if (prefix / "pipx_metadata.json").exists():
        return f"pipx runpip rumi install 'rumi[{name}]'"
    if find_spec("pip") is None:  # the image of deploy/Dockerfile
        return f"docker build --build-arg EXTRAS={name} -t rumi -f deploy/Dockerfile ."
    return f"{shlex.quote(sys.executable)} -m pip install 'rumi[{name}]'"


def _is_of_uv(prefix: Path) -> bool:
    """Return True if uv has made the environment, which then has no pip."""
    try:
        return "\nuv = " in f"\n{(prefix / 'pyvenv.cfg').read_text('utf-8', 'replace')}"
    except OSError:
        return False


def _can_be_imported(module: str) -> bool:
    if module in sys.modules:
        return sys.modules[module] is not None
    try:
        return find_spec(module) is not None
    except ImportError:  # the package above it is missing
        return False
