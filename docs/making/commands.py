"""`docs/commands.md`: the help of every command, from the code. `make docs` writes it."""

import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import click

from rumi.cli.group import OLD_NAMES, OLD_NAMES_UNTIL, SECTIONS, group
from rumi.cli.speaking import reader

TARGET = Path(__file__).parent.parent / "commands.md"
WIDTH = 90
TITLE = """# All commands

The help of every command, as `--help` prints it. [reference.md](reference.md) says on one page which
command does what. `make docs` writes this page from the commands themselves.
"""


def rendered() -> str:
    """Return the whole document, in English whatever the language of who makes it."""
    with mock.patch.dict(os.environ, RUMI_LANGUAGE="en"):
        os.environ.pop("COLUMNS", None)
        reader.cache_clear()
        try:
            return "\n".join(_parts())
        finally:
            reader.cache_clear()


def _parts() -> Iterator[str]:
    yield TITLE
    top = click.Context(group, info_name="rumi", terminal_width=WIDTH)
    yield from _shown(group, top, "##")
    for section, commands in SECTIONS.items():
        yield f"## {section}\n"
        for name in commands:
            command = group.get_command(top, name)
            assert command is not None
            inner = click.Context(command, parent=top, info_name=name, terminal_width=WIDTH)
            for below, context in _all(command, inner):
                yield from _shown(below, context, "###")
    yield "## Old names\n"
    yield f"These names of earlier versions work until version {OLD_NAMES_UNTIL}.\n"
    rows = (f"| `rumi {old}` | `rumi {name.now}` |" for old, name in sorted(OLD_NAMES.items()))
    yield "\n".join(("| until now | now |", "|---|---|", *rows, ""))


def _shown(command: click.Command, context: click.Context, level: str) -> Iterator[str]:
    context.help_option_names = ["-h", "--help"]
    yield f"{level} {context.command_path}\n\n```text\n{command.get_help(context).rstrip()}\n```\n"


def _all(command: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """Yield a command and its subcommands, in the order in which the help lists them."""
    yield command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _all(below, click.Context(below, parent=context, info_name=name, terminal_width=WIDTH))


if __name__ == "__main__":
    TARGET.write_text(rendered(), "utf-8")
