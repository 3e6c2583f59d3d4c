"""The list `[skills] disabled` in config.toml, which `rumi skills disable|enable` edits while Rumi runs."""

import json
import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rumi.agent.skills.folder import signature
from rumi.agent.skills.format import same
from rumi.agent.skills.messages import WhyOff
from rumi.platform.config.editing import edit_toml, section_in

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

VARIABLE: Final = "RUMI_SKILLS__DISABLED"
MOST_BYTES: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Disabled:
    """The names of disabled skills, normalized by `same`. `by` is `config` if they come from config.toml."""

    names: frozenset[str] = frozenset()
    by: WhyOff = "config"


class DisabledSkills:
    """The effective list of disabled skills: from the environment variable if set, otherwise from the file.

    While the file cannot be read, for example during an edit, the previous list stays valid. Calls block
    briefly.
    """

    def __init__(self, path: Path, environment: Mapping[str, str]) -> None:
        self._path = path
        self._variable = environment.get(VARIABLE)
        self._seen: object = None
        self._current = Disabled()

    @property
    def is_overridden(self) -> bool:
        """True if the environment variable overrides the file."""
        return self._variable is not None

    def __call__(self) -> Disabled:
        """Return the disabled skills."""
        if self._variable is not None:
            return Disabled(_names(_from_variable(self._variable)), "environment")
        seen = signature(self._path)
        if seen != self._seen:
            try:
                self._current = Disabled(_names(_in_file(_read(self._path))))
            except (OSError, ValueError, RecursionError):
                return self._current
            self._seen = seen  # only after a successful read, so that a failed one is repeated
        return self._current


def set_disabled(path: Path, name: str, *, off: bool) -> bool:
    """Add a skill to the list in config.toml, or remove it from the list; return False if nothing changed.

    Comments, order and the file's mode stay unchanged.

    Raises:
        ConfigError: The file cannot be read or written, or the key is not a list.
    """

    def change(document: "TOMLDocument") -> None:
        if off:
            names = _list_to_fill(document)
            if not any(same(str(listed_name)) == same(name) for listed_name in names):
                names.append(name)
            return
        found = document.get("skills", {})
        names = found.get("disabled", []) if isinstance(found, dict) else []
        for index in reversed(range(len(names))):
            if same(str(names[index])) == same(name):
                del names[index]

    return edit_toml(path, change)


def _list_to_fill(document: "TOMLDocument") -> Any:
    """Return the `disabled` list in the TOML document; create the list if it is missing."""
    import tomlkit

    section = section_in(document, ("skills",))
    if "disabled" not in section:
        section["disabled"] = tomlkit.array()
    names = section["disabled"]
    if not isinstance(names, list):
        raise ValueError("skills.disabled is not a list")
    return names


def _read(path: Path) -> str:
    """Return the file's text, empty if there is no file. Never blocks, even if the path is a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is not an ordinary file")
        return file.read(MOST_BYTES).decode("utf-8-sig")


def _in_file(text: str) -> list[object]:
    section = tomllib.loads(text).get("skills", {})
    names = section.get("disabled", []) if isinstance(section, dict) else []
    return names if isinstance(names, list) else []


def _from_variable(text: str) -> list[object]:
    """Return the JSON list in the environment variable.

    The variable always contains such a list, because loading the configuration rejects anything else.
    """
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return names if isinstance(names, list) else []


def _names(names: list[object]) -> frozenset[str]:
    return frozenset(same(name) for name in names if isinstance(name, str))
