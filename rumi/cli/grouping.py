"""Groups of commands: help in the reader's language, members that are imported late, and a default."""

import importlib
from collections.abc import Mapping
from typing import Any

import click


class SpeakingContext(click.Context):
    """A context that shows help in the reader's language."""

    def make_formatter(self) -> click.HelpFormatter:
        """Return a formatter for the reader's language."""
        from rumi.cli.speaking import Formatter

        return Formatter(width=self.terminal_width, max_width=self.max_content_width)


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
            return speaking(found)
        return super().get_command(ctx, cmd_name)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse `rumi chats` and `rumi chats --json` as `rumi chats list …`, except for shell completion."""
        own = {*self.get_help_option_names(ctx), *(name for option in self.params for name in option.opts)}
        bare = not args or (args[0].startswith("-") and args[0] not in own)
        if self.default and bare and not ctx.resilient_parsing:
            args = [self.default, *args]
        return super().parse_args(ctx, args)


def speaking(command: click.Command) -> click.Command:
    """Make the command and its subcommands show their help in the reader's language; return the command.

    A command's short help becomes the complete first sentence of its help; click would cut a long sentence.
    """
    command.context_class = SpeakingContext
    first = " ".join((command.help or "").split("\n\n")[0].split())
    command.short_help = command.short_help or first.partition(". ")[0].removesuffix(".") + "."
    for inner in getattr(command, "commands", {}).values():
        speaking(inner)
    return command
