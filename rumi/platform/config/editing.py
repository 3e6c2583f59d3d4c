"""Changes config.toml and .env atomically. Comments, the order of lines and file modes are preserved."""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rumi.errors import ConfigError
from rumi.platform.atomic_write import atomic_write, folder_lock
from rumi.platform.config.files import read_text
from rumi.platform.config.layers import ConfigLayers, Key, split_key
from rumi.platform.config.secrets import key_references, load_secrets
from rumi.texts import os_error

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+=,-]+")
"""Pattern of values that need no quotes in .env."""

_ASSIGNMENT = re.compile(
    r"(\s*(?:export\s+)?)[^=\s]+[^\S\n]*=[^\S\n]*"
    r"""(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[^\n]*?)([^\S\n]+#[^\n]*)?\n?$"""
)
"""A line of .env, with groups for the text before the name and for the comment."""


def edit_text(path: Path, change: Callable[[str], str]) -> bool:
    """Replace a small text file's content with the result of `change`; return False if nothing changes.

    Raises:
        ConfigError: The file cannot be read or written.
    """
    try:
        # Reading under the lock: otherwise a change by another process in between would be lost.
        with folder_lock(path.parent):
            text = read_text(path)
            changed = change(text)
            if changed == text:
                return False
            atomic_write(path, changed.encode())
            return True
    except OSError as error:
        raise ConfigError(
            "{path} cannot be changed: {reason}.",
            "Check its owner and mode.",
            path=path,
            reason=os_error(error),
        ) from error


def edit_toml(path: Path, change: Callable[["TOMLDocument"], None]) -> bool:
    """Apply `change` to a TOML file; return False if nothing changes.

    Raises:
        ConfigError: The file cannot be read or written, or is not valid TOML.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    def changed(text: str) -> str:
        document = tomlkit.parse(text)
        change(document)
        return _spaced(text, tomlkit.dumps(document))

    try:
        return edit_text(path, changed)
    except (TOMLKitError, ValueError, RecursionError) as error:
        raise ConfigError(
            "{path} is not valid TOML: {error}.",
            "Correct it first; rumi config show says more.",
            path=path,
            error=error,
        ) from error


def _spaced(before: str, text: str) -> str:
    """Return the text with one empty line before each section header that is not in `before`."""
    known, lines = before.splitlines(), list[str]()
    for line in text.splitlines(keepends=True):
        if line.startswith("[") and line.rstrip() not in known:
            while lines and not lines[-1].strip():
                lines.pop()
            lines += ["\n"] if lines else []
        lines.append(line)
    return "".join(lines)


def section_in(document: "TOMLDocument", names: Key) -> Any:
    """Return a section of the document; add the section if it is missing.

    Raises:
        ValueError: One of the names belongs to a value that is not a section.
    """
    import tomlkit

    section: Any = document
    for depth, name in enumerate(names, 1):
        if name not in section:
            section[name] = tomlkit.table(is_super_table=depth < len(names))
        section = section[name]
        if not isinstance(section, dict):
            raise ValueError(f"{'.'.join(names[:depth])} is not a section")
    return section


def set_keys(path: Path, values: Mapping[str, object]) -> dict[str, object]:
    """Set dotted keys of config.toml; return the stored values.

    Values that are texts are parsed like the values of environment variables: a list is written as JSON, and
    an empty text removes the key. Nothing is stored unless the resulting file is valid.

    Raises:
        ConfigError: A key is unknown, a value is not allowed, or the file cannot be read or written.
    """
    layers = ConfigLayers()
    layers.add_file(path)
    layers.add_flags(values, path.name)
    # Check references before anything is written: a user may have entered the key itself.
    load_secrets(path.parent, os.environ, key_references(layers.settings()))
    found = {key: layers.value(key) for key in values}

    def change(document: "TOMLDocument") -> None:
        for dotted, value in found.items():
            *section, name = layers.spelled(dotted)
            if value is None:
                section_in(document, tuple(section)).pop(name, None)
            else:
                section_in(document, tuple(section))[name] = _stored(value)

    edit_toml(path, change)
    return found


def unset_keys(path: Path, keys: Iterable[str]) -> list[str]:
    """Remove dotted keys or sections from config.toml; return those that it had. Comments stay.

    A key of the file may also be one that Rumi does not know: removing it corrects the file.

    Raises:
        ConfigError: A key is unknown, the file cannot be read or written, or another key needs a removed one.
    """
    had = list[str]()

    def change(document: "TOMLDocument") -> None:
        before = document.as_string()
        for dotted in keys:
            *names, name = split_key(dotted)
            section: Any = document
            for part in names:
                section = section.get(part) if isinstance(section, dict) else None
            if isinstance(section, dict) and name in section:
                section.pop(name)
                had.append(dotted)
            else:
                ConfigLayers().spelled(dotted, path.name)
        if _is_valid(before, path):
            _check(document.as_string(), path)

    edit_toml(path, change)
    return had


def _check(text: str, path: Path) -> None:
    layers = ConfigLayers()
    layers.add_text(text, path)
    layers.settings()


def _is_valid(text: str, path: Path) -> bool:
    try:
        _check(text, path)
    except ConfigError:
        return False
    return True


def set_variables(path: Path, values: Mapping[str, str | None]) -> bool:
    """Set variables in .env, or remove those with None; return False if nothing changes.

    A missing file is created with mode 600.

    Raises:
        ConfigError: The file cannot be read or written, or has a line that is not NAME=value.
    """

    def change(text: str) -> str:
        from dotenv.parser import parse_stream

        left, lines = dict(values), []
        for binding in parse_stream(StringIO(text)):
            if binding.error:
                raise ConfigError(
                    "{path} has a line {line} that is not NAME=value.",
                    "Correct or remove it.",
                    path=path,
                    line=binding.original.line,
                )
            line = binding.original.string
            name = binding.key or ""
            value = values.get(name)
            if name in values and value is None:
                continue
            if value is not None and binding.value != value:
                parts = _ASSIGNMENT.match(line)
                before, comment = (parts[1], parts[2] or "") if parts else ("", "")
                line = f"{before}{_assignment(name, value, comment)}"
            left.pop(name, None)
            lines.append(line)
        added = [_assignment(name, value) for name, value in left.items() if value is not None]
        if added and lines and not lines[-1].endswith("\n"):
            lines.append("\n")
        return "".join([*lines, *added])

    return edit_text(path, change)


def _assignment(name: str, value: str, comment: str = "") -> str:
    if not _PLAIN.fullmatch(value):
        value = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return f"{name}={value}{comment}\n"


def _stored(value: object) -> object:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return int(value)
    return list(value) if isinstance(value, tuple) else value


def as_toml(value: object) -> str:
    """Return a value as TOML text; an empty text for None."""
    if value is None:
        return ""
    value = _stored(value)
    if isinstance(value, dict):
        pairs = (f"{json.dumps(name)} = {as_toml(item)}" for name, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
