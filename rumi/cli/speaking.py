"""Translation of the command line's help, usage errors and results into the reader's language."""

import os
import re
import sys
from collections.abc import Iterable
from functools import cache

import click

from rumi.cli.printing import echo, prompt
from rumi.errors import UsageError
from rumi.platform.texts import translation
from rumi.platform.texts.language import Language, LanguageSetting, detect_language

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
        root = os.environ.get("RUMI_HOME") or "~/.rumi"
        try:
            import tomllib

            with open(os.path.join(os.path.expanduser(root), "config.toml"), "rb") as file:
                value = tomllib.loads(file.read(1_000_000).decode("utf-8-sig")).get("language", "")
        except (OSError, ValueError, RecursionError):
            return "auto"
    return "es" if value == "es" else "en" if value == "en" else "auto"


def translate(text: str) -> str:
    """Translate one of Rumi's own sentences into the reader's language."""
    return translation.translate(reader(), text)


def say(text: str, *, err: bool = False) -> None:
    """Print one of Rumi's own sentences in the reader's language."""
    echo(translate(text), err=err)


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
    say("Nothing was deleted.")
    return False


class Formatter(click.HelpFormatter):
    """A help formatter that translates into the reader's language."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """Write the usage line."""
        words = [translate(word) for word in re.findall(r"(?:\[?COMMAND\]? \[ARGS\]\.\.\.|\S+)", args)]
        super().write_usage(prog, " ".join(words), translate(prefix or "Usage: "))

    def write_heading(self, heading: str) -> None:
        """Write the heading of a section."""
        super().write_heading(translate(heading))

    def write_text(self, text: str) -> None:
        """Write paragraphs of text."""
        # Joined to one line for each paragraph, which is how the catalogue of translations has them.
        paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
        super().write_text("\n\n".join(translate(part) for part in paragraphs))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write a list of options or commands."""
        super().write_dl([(name, _about(help)) for name, help in rows], col_max, col_spacing)


def _about(help: str) -> str:
    extra = _EXTRA.fullmatch(help)
    return translate(help) if extra is None else f"{translate(extra[1])}  {translate(f'[{extra[2]}]')}"


def show_usage_error(error: click.ClickException) -> None:
    """Print the usage error, and the command that shows help, on standard error."""
    lines = []
    if isinstance(error, click.UsageError) and error.ctx is not None:
        lines.append(error.ctx.get_usage())
        names = error.ctx.command.get_help_option_names(error.ctx)
        if names:
            lines += [translate(f"Try '{error.ctx.command_path} {max(names, key=len)}' for help."), ""]
    lines.append(f"Error: {translate(error.format_message())}")
    echo("\n".join(lines), err=True)
