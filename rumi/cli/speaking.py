"""Groups of commands, and help, usage errors and results in the reader's language."""

import importlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import click

from rumi import texts
from rumi.cli.printing import echo, prompt
from rumi.errors import UsageError
from rumi.platform.home_path import NoHome, path_of_home
from rumi.platform.texts.language import LanguageSetting, detect_language
from rumi.texts import Language, Text, gettext, languages, ngettext

_EXTRA = re.compile(r"(.*?)  \[(.+)\]", re.DOTALL)
"""Matches an option's help and, in brackets, what click appends to it, such as the default."""


@cache
def reader() -> Language:
    """Return the configured language, or else the environment's language.

    This also works if the configuration has errors, so that the errors can be reported in that language.
    """
    return detect_language(_configured(), os.environ)


def _configured() -> LanguageSetting:
    value = os.environ.get("RUMI_LANGUAGE", "")
    if not value:
        try:
            import tomllib

            with open(os.path.join(path_of_home(os.environ), "config.toml"), "rb") as file:
                value = tomllib.loads(file.read(1_000_000).decode("utf-8-sig")).get("language", "")
        except (NoHome, OSError, ValueError, RecursionError):
            return "auto"
    return value if value in languages() else "auto"


def tr(key: str, /, **fields: object) -> str:
    """Return the text with this English key in the reader's language; see `rumi.texts.gettext`."""
    return gettext(reader(), key, **fields)


def ntr(one: str, many: str, count: int, /, **fields: object) -> str:
    """Return the form of the text that fits `count` in the reader's language; see `rumi.texts.ngettext`."""
    return ngettext(reader(), one, many, count, **fields)


def translate(text: str) -> str:
    """Return a `Text` in the reader's language, and any other string unchanged."""
    return texts.translate(reader(), text)


def say(key: str, /, *, err: bool = False, **fields: object) -> None:
    """Print the text with this English key in the reader's language."""
    echo(tr(key, **fields), err=err)


def confirms_deletion(question: str, unattended: UsageError) -> bool:
    """Ask a question about a deletion; return True for a yes. Otherwise say that nothing was deleted.

    Raises:
        UsageError: `unattended`, because standard input is not a terminal.
    """
    from rumi.platform.texts import questions as question_texts

    if not sys.stdin.isatty():
        raise unattended
    if question_texts.yes_or_no(prompt(question, prompt_suffix=" ")) is True:
        return True
    say(Text("Nothing was deleted."))
    return False


class Formatter(click.HelpFormatter):
    """A help formatter that translates into the reader's language."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """Write the usage line."""
        words = [tr(word) for word in re.findall(r"(?:\[?COMMAND\]? \[ARGS\]\.\.\.|\S+)", args)]
        super().write_usage(prog, " ".join(words), prefix)

    def write_text(self, text: str) -> None:
        """Write paragraphs of text."""
        # Joined to one line for each paragraph, which is how the catalogue of translations has them.
        paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
        super().write_text("\n\n".join(tr(part) for part in paragraphs))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write a list of options or commands."""
        super().write_dl([(name, _about(help)) for name, help in rows], col_max, col_spacing)


def _about(help: str) -> str:
    extra = _EXTRA.fullmatch(help)
    return tr(help) if extra is None else f"{tr(extra[1])}  [{extra[2]}]"


def show_usage_error(error: click.ClickException) -> None:
    """Print the usage error, and the command that shows help, on standard error.

    A group without a command is no error to be explained: its help is printed.
    """
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        echo(error.format_message(), err=True)
        return
    lines = []
    if isinstance(error, click.UsageError) and error.ctx is not None:
        lines.append(error.ctx.get_usage())
        names = error.ctx.command.get_help_option_names(error.ctx)
        if names:
            option = max(names, key=len)
            lines += [
                tr("Try '{command} {option}' for help.", command=error.ctx.command_path, option=option),
                "",
            ]
    message = error.format_message()
    if isinstance(error, click.NoSuchOption):  # made while click parsed, and so in English
        said = tr("No such option {name!r}.").format(name=error.option_name)
        message = message.replace(error.message, said, 1)
    lines.append(tr("Error: {message}", message=message))
    echo("\n".join(lines), err=True)


class Listing(click.Group):
    """A group whose commands may be defined in other modules, and that lists if no command is named.

    `members` maps names to modules such as `rumi.cli.stop`, which define them as `command`, or to
    `module:attribute`. `default` is the command that runs without a name; without it, the group shows help.
    """

    def __init__(
        self, *args: Any, members: Mapping[str, str] | None = None, default: str = "", **more: Any
    ) -> None:
        """Create the group; further arguments are those of a click group."""
        super().__init__(*args, **more)
        self.default = default
        self.prepare: Callable[[click.Command], click.Command] = lambda command: command
        """Prepares a command of another module; set by the group that this group belongs to."""
        self._members = dict(members or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands in the order of the alphabet."""
        return sorted({*self.commands, *self._members})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; import it if another module defines it."""
        if cmd_name in self._members:
            module, _, attribute = self._members[cmd_name].partition(":")
            found = getattr(importlib.import_module(module), attribute or "command")
            assert isinstance(found, click.Command)
            return self.prepare(found)
        return super().get_command(ctx, cmd_name)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse `rumi chats` and `rumi chats --json` as `rumi chats list …`, except for shell completion."""
        own = {*self.get_help_option_names(ctx), *(name for option in self.params for name in option.opts)}
        bare = not args or (args[0].startswith("-") and args[0] not in own)
        if self.default and bare and not ctx.resilient_parsing:
            args = [self.default, *args]
        return super().parse_args(ctx, args)


_OF_CLICK = (
    Text("Usage:"),
    Text("Options"),
    Text("[OPTIONS]"),
    Text("COMMAND [ARGS]..."),
    Text("[COMMAND] [ARGS]..."),
    Text("Show the version and exit."),
    Text("Show this message and exit."),
    Text("default: {default}"),
    Text("Missing argument"),
    Text("Missing option"),
    Text("Missing command."),
    Text("Missing {param_type}"),
    Text("No such option {name!r}."),
    Text("No such command {name!r}."),
    Text("Did you mean {possibility}?", many="(Did you mean one of: {possibilities}?)"),
    Text("Got unexpected extra argument ({args})", many="Got unexpected extra arguments ({args})"),
    Text("Option {name!r} requires an argument.", many="Option {name!r} requires {nargs} arguments."),
    Text("Option {name!r} does not take a value."),
    Text("Invalid value for {param_hint}: {message}"),
    Text("Invalid value: {message}"),
    Text("{value!r} is not {choice}.", many="{value!r} is not one of {choices}."),
    Text("{value!r} is not a valid {number_type}."),
    Text("{value} is not in the range {range}."),
    Text("Aborted!"),
    Text("Error: invalid input"),
)
"""The texts of click that Rumi's commands show."""
