"""The command `rumi`: imports each of its commands only when it is used, and prints their errors."""

import errno
import importlib
import os
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import takewhile
from typing import Final, NamedTuple

import click

from rumi import __version__
from rumi.cli.printing import CleanStream, echo
from rumi.errors import RumiError, UsageError, single
from rumi.texts import Text, joined, os_error

MISSPELLED = 0.75
"""How similar to a command the first of several words must be to count as one that is misspelled."""


SECTIONS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    Text("Talk"): {
        "chat": ("rumi.cli.chat", Text("Talk to the assistant in this terminal (the default).")),
        "chats": ("rumi.cli.chats", Text("List, search, stop, reset, export and delete chats.")),
        "memory": (
            "rumi.cli.memory",
            Text("Show, change and export what the assistant knows about its users."),
        ),
    },
    Text("Look"): {
        "status": ("rumi.cli.status", Text("Show what the running Rumi does.")),
        "models": ("rumi.cli.models", Text("Show the models, what they cost, and try them out.")),
        "doctor": ("rumi.cli.doctor.command", Text("Check everything that a working installation needs.")),
    },
    Text("Automate"): {
        "tasks": ("rumi.cli.tasks", Text("Research a question; show and stop work in the background.")),
        "bot": (
            "rumi.cli.bot",
            Text("Make, run, wake and stop bots, which work on their own towards a goal."),
        ),
        "schedule": ("rumi.cli.schedule", Text("Set reminders and schedules, and triggers for events.")),
        "skills": ("rumi.cli.skills", Text("Show the skills, switch them on and off, make new ones.")),
        "mcp": ("rumi.cli.mcp", Text("Manage servers that bring tools (MCP), and let programs ask Rumi.")),
    },
    Text("Administer"): {
        "plugins": ("rumi.cli.plugins", Text("Show the plugins, and switch them on and off.")),
        "setup": (
            "rumi.cli.setup",
            Text("Ask for what a new installation needs, and write config.toml and .env."),
        ),
        "config": ("rumi.cli.config", Text("Show and change the configuration, and who may talk to Rumi.")),
        "serve": ("rumi.cli.serve", Text("Serve Telegram, the page and terminals: what is configured.")),
        "web": ("rumi.cli.web", Text("Log browsers in to the page, and list and end their logins.")),
        "data": ("rumi.cli.data", Text("Back up, restore, and copy what Rumi stores.")),
        "import": ("rumi.cli.moving", Text("Move in from OpenClaw, nanobot, Hermes, openbot or ChatGPT.")),
        "debug": (
            "rumi.cli.debug",
            Text("Read the audit log, pack a turn for a bug report, and look closer."),
        ),
    },
}
"""The commands in the order of the help: the title of a section, and its commands.

A command is the module that defines it as `command`, and its line in the help.
"""

COMMANDS: Final = {name: entry for section in SECTIONS.values() for name, entry in section.items()}

UNLISTED: Final = frozenset({"import", "plugins", "web"})
"""Commands that only the help of others names, to keep the list short: `rumi serve` names `rumi web`, `rumi
config` names `rumi plugins`, and `rumi data` and `rumi setup` name `rumi import`."""


class OldName(NamedTuple):
    """A name of an earlier version: the module of the command, and what the command is called now."""

    module: str
    now: str


OLD_NAMES: Final = {
    "backup": OldName("rumi.cli.backup", "data backup"),
    "fetch": OldName("rumi.cli.fetch", "debug fetch"),
    "logs": OldName("rumi.cli.logs", "debug logs"),
    "people": OldName("rumi.cli.people", "config people"),
    "recall": OldName("rumi.cli.recall", "chats search"),
    "replay": OldName("rumi.cli.replay", "debug replay"),
    "report": OldName("rumi.cli.report", "debug report"),
    "research": OldName("rumi.cli.research", "tasks research"),
    "reset": OldName("rumi.cli.reset", "chats reset"),
    "restore": OldName("rumi.cli.restore", "data restore"),
    "sandbox": OldName("rumi.cli.sandbox", "debug sandbox"),
    "stop": OldName("rumi.cli.stop", "chats stop"),
    "store": OldName("rumi.cli.store", "data"),
    "telegram": OldName("rumi.cli.telegram", "serve --telegram"),
    "trigger": OldName("rumi.cli.trigger", "schedule trigger"),
    "undo": OldName("rumi.cli.undo", "chats undo"),
    "usage": OldName("rumi.cli.usage", "models usage"),
}
"""The old names, which work as they always did, and which neither help nor completion shows."""

OLD_NAMES_UNTIL: Final = "1.0"
"""The version without the old names."""

UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
"""The error numbers of a disk that cannot be written to."""

UNUSABLE = frozenset({errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ELOOP})
"""The error numbers of a file that may not be used, or that has something else in its place."""

NO_SUCH_OPTION = "No such option {name!r}."
"""The key of click's text for an unknown option."""


class SpeakingContext(click.Context):
    """A context that shows help in the reader's language."""

    def make_formatter(self) -> click.HelpFormatter:
        """Return a formatter for the reader's language."""
        from rumi.cli.speaking import Formatter

        return Formatter(width=self.terminal_width, max_width=self.max_content_width)


class LazyGroup(click.Group):
    """A click group that imports each command only when the command is used."""

    context_class = SpeakingContext

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        if cmd_name in COMMANDS:
            module, _ = COMMANDS[cmd_name]
        elif cmd_name in OLD_NAMES:
            module = OLD_NAMES[cmd_name].module
        else:
            return None
        command = importlib.import_module(module).command
        assert isinstance(command, click.Command)
        return speaking(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by subject, without importing them."""
        from rumi.cli.speaking import tr, translate

        width = max(map(len, COMMANDS))
        with formatter.section(tr("Commands")):
            for title, commands in SECTIONS.items():
                with formatter.section(translate(title)):
                    rows = [
                        (name.ljust(width), summary)
                        for name, (_, summary) in commands.items()
                        if name not in UNLISTED
                    ]
                    formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse `rumi` as `rumi chat`, `rumi -p …` and a prompt as arguments of it, except for completion.

        `rumi help COMMAND` is `rumi COMMAND --help`.
        """
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        at = next((index for index, word in enumerate(args) if word != "--debug"), len(args))
        if (asked := self._help_for(ctx, args[at:])) is not None:
            return super().parse_args(ctx, [*args[:at], *asked])
        option = at < len(args) and args[at].startswith("-")
        if at == len(args) or (not self._is_own(ctx, args[at]) if option else self._is_prompt(args[at:])):
            args = [*args[:at], "chat", *args[at:]]
        return super().parse_args(ctx, args)

    def _help_for(self, ctx: click.Context, words: list[str]) -> list[str] | None:
        """Return the arguments for `rumi help`, `rumi help chats list` and `rumi --help chats`.

        Return None for everything else, such as `rumi help me write a letter`, which is a prompt.
        """
        if not words or words[0] not in ("help", "-h", "--help"):
            return None
        found: click.Command = self
        for word in words[1:]:
            inner = found.get_command(ctx, word) if isinstance(found, click.Group) else None
            if inner is None:
                return None
            found = inner
        return [*words[1:], "--help"]

    def _is_prompt(self, words: list[str]) -> bool:
        """Return True if the arguments are words for the assistant and not a command.

        One argument with a space or a question mark is a prompt. So are several words, unless the first looks
        like a misspelled command: of two words, or if the second is a subcommand of the command that it
        resembles. A single word never is: it would be a typo more often than a question.
        """
        first = words[0]
        if first in COMMANDS or first in OLD_NAMES:
            return False
        if any(character.isspace() or character in "?¿" for character in first):
            return True
        said = list(takewhile(lambda word: not word.startswith("-"), words))
        meant = next(iter(get_close_matches(first, [*COMMANDS, *OLD_NAMES], n=1, cutoff=MISSPELLED)), "")
        if len(said) < 2 or (meant and len(said) == 2):
            return False
        command = self.get_command(click.Context(self), meant) if meant else None
        return said[1] not in getattr(command, "commands", {})

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; then say its new name if an old one was used."""
        result = super().invoke(ctx)
        note_old_name(ctx)
        return result

    def _is_own(self, ctx: click.Context, word: str) -> bool:
        """Return True if an option belongs to `rumi` itself.

        A misspelled option belongs to the command that has the most similar option.
        """
        own = _options(self)
        if word in own:
            return True
        name, chat = word.partition("=")[0], self.get_command(ctx, "chat")
        assert chat is not None
        others = _options(chat)
        if not name.startswith("--") or name in others:
            return False
        return next(iter(get_close_matches(name, [*own, *others])), "") in own

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command; for an unknown name, fail and suggest the most similar command.

        An old name is noted for `note_old_name`.
        """
        name = args[0]
        if name in COMMANDS or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        if name in OLD_NAMES:
            ctx.meta[OLD_NAME] = name
        elif near := _nearest(name):
            from rumi.cli.speaking import tr

            meant = OLD_NAMES[near].now if near in OLD_NAMES else near
            ctx.fail(tr("No such command {name}. Did you mean {meant}?", name=repr(name), meant=repr(meant)))
        else:
            from rumi.cli.speaking import tr

            ctx.fail(tr("No such command {name}. To ask it: rumi -p {name}", name=repr(name)))
        return super().resolve_command(ctx, args)


def _nearest(name: str) -> str:
    """Return the command that a misspelled name resembles; empty if there is none.

    The old names and `help` must be more similar: few people mean them, and they resemble many words.
    """
    rarer = get_close_matches(name, ["help", *OLD_NAMES], n=1, cutoff=MISSPELLED)
    return next(iter(rarer or get_close_matches(name, list(COMMANDS), n=1)), "")


OLD_NAME: Final = "rumi.old_name"
"""The key of an old name in the context."""


def note_old_name(ctx: click.Context) -> None:
    """Say once on standard error what a command that was called by an old name is called now.

    Nothing is said if the command fails: its error is the one sentence that counts.
    """
    if (name := ctx.meta.pop(OLD_NAME, None)) is None:
        return
    from rumi.cli.speaking import say

    try:
        say(
            "rumi {old} is now: rumi {new}. The old name works until version {version}.",
            err=True,
            old=name,
            new=OLD_NAMES[name].now,
            version=OLD_NAMES_UNTIL,
        )
    except OSError:  # nobody reads it
        _forget_output(2)


def speaking(command: click.Command) -> click.Command:
    """Make the command and its subcommands show their help in the reader's language; return the command.

    A command's short help becomes the complete first sentence of its help; click would cut a long sentence.
    """
    command.context_class = SpeakingContext
    if hasattr(command, "prepare"):  # its members are imported later
        command.prepare = speaking
    first = " ".join((command.help or "").split("\n\n")[0].split())
    command.short_help = command.short_help or first.partition(". ")[0].removesuffix(".") + "."
    for inner in getattr(command, "commands", {}).values():
        speaking(inner)
    return command


def _options(command: click.Command) -> list[str]:
    return ["-h", "--help", *(name for option in command.params for name in option.opts)]


@click.group(
    cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _, wanted: _print_version(context) if wanted else None,
    help="Show the version and exit.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def group(debug: bool) -> None:
    """Rumi, a personal assistant that does real work in a sandbox."""


def _print_version(context: click.Context) -> None:
    from rumi.platform.commit import own_commit, version

    echo(f"rumi {version(__version__, own_commit())}")
    context.exit()


def _translate_click() -> None:
    """Make click look its own texts up in Rumi's catalogue. Click looks them up with gettext."""
    for module in (click.core, click.exceptions, click.formatting, click.parser, click.termui, click.types):
        for name, look_up in (("_", _text_of_click), ("ngettext", _texts_of_click)):
            if hasattr(module, name):
                setattr(module, name, look_up)


def _text_of_click(key: str) -> str:
    # Click looks these texts up while it parses a correct command, which would then read the
    # configuration's language. They are translated where they are shown.
    if key in ("Show this message and exit.", NO_SUCH_OPTION):
        return key
    from rumi.cli.speaking import tr

    return tr(key)


def _texts_of_click(one: str, many: str, count: int) -> str:
    from rumi.cli.speaking import ntr

    return ntr(one, many, count)


def run() -> None:
    """Run the command line. An error becomes one sentence on standard error and an exit code."""
    debug = "--debug" in sys.argv[1:]
    sys.stderr = CleanStream(sys.stderr)  # libraries and the interpreter write there, too
    try:
        _translate_click()
        code = group.main(standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        from rumi.cli.speaking import show_usage_error

        show_usage_error(error)
        sys.exit(error.exit_code)
    except BaseException as error:  # noqa: BLE001  # the outermost handler: shows the error and exits
        only = single(error)
        if isinstance(only, KeyboardInterrupt):
            sys.exit(130)
        # Checked before other errors: an OSError may come from the output, and not from a file of the home.
        if isinstance(only, BrokenPipeError) or (isinstance(only, OSError) and _output_fails()):
            sys.exit(output_failed(only))
        if isinstance(only, SystemExit):
            if only is not error:  # rich exits this way when its output is closed
                _forget_output()
            raise only from None
        if debug:
            import traceback

            _show("".join(traceback.format_exception(error)))
        known = next(_known(error), None)
        if known is None and isinstance(only, OSError) and only.errno in UNWRITABLE:
            where = only.filename or os.environ.get("RUMI_HOME", "~/.rumi")
            sentence = UsageError(
                "{where} cannot be written: {reason}.",
                "Make room, or ask: rumi doctor",
                where=where,
                reason=os_error(only),
            )
            _show(f"rumi: {_explained(sentence)}")
            sys.exit(2)
        if known is None and isinstance(only, OSError) and only.errno in UNUSABLE and only.filename:
            sentence = UsageError(
                "{where} cannot be used: {reason}.",
                "Correct it, or ask: rumi doctor",
                where=os.fsdecode(only.filename),
                reason=os_error(only),
            )
            _show(f"rumi: {_explained(sentence)}")
            sys.exit(2)
        if known is None:
            advice = [] if debug else [Text("Run it again with --debug to see where.")]
            what = Text("something unexpected went wrong ({error}).", error=_explained(error))
            from rumi.cli.speaking import translate

            _show(f"rumi: {translate(joined([what, *advice]))}")
            sys.exit(1)
        _show(f"rumi: {_explained(known)}")
        sys.exit(known.exit_code)
    sys.exit(code if isinstance(code, int) else 0)


def _show(text: str) -> None:
    """Print an error. Its text may be untrusted, so secrets and strings that look like keys are hidden."""
    from rumi.platform.redact import Redactor

    # Half a surrogate pair, from an argument that is not UTF-8, must not raise another error here.
    echo(Redactor(_secrets()).text(text).encode("utf-8", "replace").decode(), err=True)


def _secrets() -> tuple[str, ...]:
    """Return the known secrets of this installation. Never raises: an error is already being printed."""
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.files import home_path

    try:
        return tuple(load_settings(home_path(os.environ), os.environ, {}).secrets.values())
    except Exception:  # noqa: BLE001  # the error to be shown may be that the configuration is invalid
        names = ("_KEY", "_TOKEN", "_PASSWORD")
        return tuple(value for name, value in os.environ.items() if name.endswith(names))


def _explained(error: BaseException) -> str:
    from rumi.cli.speaking import reader
    from rumi.platform.texts.translation import error_text

    return error_text(reader(), error)


def _known(error: BaseException) -> Iterator[RumiError]:
    """Yield the `RumiError`s among an exception, its group's members and its causes, the outermost first."""
    if isinstance(error, RumiError):
        yield error
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _known(inner)
    if error.__cause__ is not None:
        yield from _known(error.__cause__)


def output_failed(error: OSError) -> int:
    """Report that the output cannot be written, unless the reader has closed it. Return the exit code."""
    _forget_output()
    if not isinstance(error, BrokenPipeError):
        from rumi.cli.speaking import tr
        from rumi.texts import os_error

        why = tr(
            "The output cannot be written: {reason}. Free space there, or send it elsewhere.",
            reason=os_error(error),
        )
        _show(f"rumi: {why}")
    return 1


def _output_fails() -> bool:
    """Return True if the buffered output cannot be written."""
    try:
        sys.stdout.flush()
    except OSError:
        return True
    return False


def _forget_output(stream: int = 1) -> None:
    """Discard the buffered output, which would fail again when the interpreter flushes it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream)
