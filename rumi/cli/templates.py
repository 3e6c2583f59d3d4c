"""Templates of prompts: texts with variables in the folder `templates` of the home."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Final

from rumi.errors import UsageError
from rumi.texts import Text

FOLDER: Final = "templates"
SUFFIX: Final = ".md"
INPUT: Final = "input"
MOST_BYTES: Final = 200_000
NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
PIPED: Final = "the text from standard input"
"""What `$input` says if the text is piped: piped text is data for the turn and never becomes the prompt."""


def template_names(home: Path) -> list[str]:
    """Return the names of the templates in a home, in order."""
    return sorted(
        path.stem
        for path in (home / FOLDER).glob(f"*{SUFFIX}")
        if NAME.fullmatch(path.stem) and path.is_file()
    )


def read_template(home: Path, name: str) -> str:
    """Return the text of a template.

    Raises:
        UsageError: the home has no such template, or its text cannot be read.
    """
    path = _path(home, name)
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise UsageError(
                "The template {name} is too long: the limit is {most} bytes.", name=name, most=MOST_BYTES
            )
        return data.decode()
    except (FileNotFoundError, IsADirectoryError):
        raise unknown(home, name) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError("The template {path} cannot be read: {error}.", path=path, error=error) from None


def write_template(home: Path, name: str, text: str) -> Path:
    """Store a template, in place of an earlier one of this name; return its path.

    Raises:
        UsageError: the name or a variable in the text is not valid, or the text is too long.
    """
    from rumi.platform.atomic_write import atomic_write

    path = _path(home, name)
    variables_of(name, text)
    if len(data := f"{text.rstrip()}\n".encode("utf-8", "replace")) > MOST_BYTES:
        raise UsageError(
            "The template {name} is too long: the limit is {most} bytes.", name=name, most=MOST_BYTES
        )
    path.parent.mkdir(mode=0o700, exist_ok=True)
    atomic_write(path, data)
    return path


def variables_of(name: str, text: str) -> list[str]:
    """Return the variables of a template, in the order of their first use.

    Raises:
        UsageError: a `$` is not the beginning of a variable.
    """
    template = Template(text)
    found: dict[str, None] = {}
    for match in template.pattern.finditer(text):
        if match["invalid"] is not None:
            line = text.count("\n", 0, match.start()) + 1
            raise UsageError(
                "The template {name} has a $ without a variable in line {line}.",
                "Write $$ for a dollar sign.",
                name=name,
                line=line,
            )
        if variable := match["named"] or match["braced"]:
            found[variable] = None
    return list(found)


def filled(name: str, text: str, values: Mapping[str, str], given: str | None, *, piped: bool) -> str:
    """Return a template's text with the values of its variables.

    `given` is the text of the command line, and `$input` stands for it; without `$input` it comes after the
    template. If there is none and text is `piped`, `$input` refers to that text.

    Raises:
        UsageError: a variable has no value, or a value belongs to no variable.
    """
    variables = variables_of(name, text)
    if surplus := [value for value in values if value not in variables or value == INPUT]:
        raise UsageError(
            "The template {name} has no variable {surplus}.",
            Text("Its variables are: {names}.", names=", ".join(v for v in variables if v != INPUT))
            if set(variables) - {INPUT}
            else "It has no variables.",
            name=name,
            surplus=", ".join(surplus),
        )
    known = dict(values)
    if given is not None or piped:
        known[INPUT] = PIPED if given is None else given
    if missing := [variable for variable in variables if variable not in known]:
        named = [variable for variable in missing if variable != INPUT]
        advice = Text("Give them with: {options}", options=" ".join(f"-v {each}=…" for each in named))
        raise UsageError(
            "The template {name} needs: {missing}.",
            advice if named else "Write the text after the options, or pipe it in.",
            name=name,
            missing=", ".join(missing),
        )
    result = Template(text).substitute(known).strip()
    return result if given is None or INPUT in variables else f"{result}\n\n{given}"


def values_in(pairs: Sequence[str]) -> dict[str, str]:
    """Return the values of `-v NAME=VALUE` options.

    Raises:
        UsageError: an option has no `=`.
    """
    values: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError("-v takes NAME=VALUE, not {pair}.", pair=repr(pair))
        values[name] = os.fsencode(value).decode("utf-8", "replace")
    return values


def unknown(home: Path, name: str) -> UsageError:
    """Return the error for a template that does not exist."""
    names = template_names(home)
    advice = (
        Text("Those that exist: {names}.", names=", ".join(names))
        if names
        else Text("There are none yet. Write one: rumi chat --save {name} 'TEXT'", name=name)
    )
    return UsageError("There is no template {name}.", advice, name=name)


def _path(home: Path, name: str) -> Path:
    if not NAME.fullmatch(name):
        raise UsageError(
            "{name} is not a name of a template.",
            "Use letters, digits, - and _, at most 64.",
            name=repr(name),
        )
    return home / FOLDER / f"{name}{SUFFIX}"
