"""The commands, imported when they are used, and the one place where errors are shown."""

import importlib
import os
import sys
from collections.abc import Iterator

import click

from rumi import __version__
from rumi.errors import RumiError

COMMANDS = {
    "chat": ("rumi.cli.chat", "Talk to the assistant in this terminal (the default)."),
    "telegram": ("rumi.cli.telegram", "Serve the Telegram bot."),
    "status": ("rumi.cli.status", "Show what the running Rumi does."),
    "logs": ("rumi.cli.logs", "Read the audit log: what was run, in which chat, how it ended."),
    "stop": ("rumi.cli.stop", "Stop what a chat is doing, like /stop in it."),
    "reset": ("rumi.cli.reset", "Reset a chat, like /reset in it."),
    "fetch": ("rumi.cli.fetch", "Get what the assistant would get from a URL, or judge URLs (--check)."),
    "memory": ("rumi.cli.memory", "Show, change and export what the assistant knows about its users."),
    "skills": ("rumi.cli.skills", "Show the skills, switch them on and off, make new ones."),
    "sandbox": ("rumi.cli.sandbox", "Build the sandbox, look at it, clean it up."),
    "doctor": ("rumi.cli.doctor", "Check everything that a working installation needs."),
    "backup": ("rumi.cli.backup", "Write a consistent copy of the databases, also while running."),
    "config": ("rumi.cli.config", "Show the configuration in force."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands, in the order in which the help shows them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`rumi` is `rumi chat`; so is `rumi -p …`."""
        own = {"-h", "--help", "--version", "--debug"}
        at = next((place for place, word in enumerate(args) if word != "--debug"), len(args))
        if at == len(args) or (args[at].startswith("-") and args[at] not in own):
            args = [*args[:at], "chat", *args[at:]]
        return super().parse_args(ctx, args)


@click.group(
    cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="rumi")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def group(debug: bool) -> None:
    """Rumi, a personal assistant that does real work in a sandbox."""


def run() -> None:
    """Run the command line; what goes wrong is one sentence on standard error and an exit code."""
    debug = "--debug" in sys.argv[1:]
    try:
        code = group.main(standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except BaseException as error:  # noqa: BLE001  # the last place: it is shown, and the exit code says so
        only = _single(error)
        if isinstance(only, KeyboardInterrupt):
            sys.exit(130)
        if isinstance(only, BrokenPipeError) or (isinstance(only, OSError) and _output_fails()):
            sys.exit(output_failed(only))
        if isinstance(only, SystemExit):
            if only is not error:  # rich's way to end where nobody reads
                _forget_output()
            raise only from None
        if debug:
            import traceback

            _show("".join(traceback.format_exception(error)))
        known = next(_known(error), None)
        if known is None:
            advice = "" if debug else " Run it again with --debug to see where."
            _show(f"rumi: something unexpected went wrong ({_name(error)}).{advice}")
            sys.exit(1)
        _show(f"rumi: {known}")
        sys.exit(known.exit_code)
    sys.exit(code if isinstance(code, int) else 0)


def _show(text: str) -> None:
    """Show what went wrong, without anything in it that looks like a key: nobody chose these words."""
    from rumi.redact import Redactor

    # Half a surrogate pair, of an argument that was no UTF-8, must not make this fail as well.
    click.echo(Redactor(()).text(text).encode("utf-8", "replace").decode(), err=True)


def _known(error: BaseException) -> Iterator[RumiError]:
    """Our own errors in an exception, its group and its causes, the outermost first."""
    if isinstance(error, RumiError):
        yield error
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _known(inner)
    if error.__cause__ is not None:
        yield from _known(error.__cause__)


def _single(error: BaseException) -> BaseException:
    """What a group holds, where that is one thing only: trio wraps even Ctrl-C."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def output_failed(error: OSError) -> int:
    """Nobody takes our output any more; say so, unless a reader has only left. The exit code."""
    _forget_output()
    if not isinstance(error, BrokenPipeError):
        _show(f"rumi: The output cannot be written: {error.strerror}. Make room there, or send it elsewhere.")
    return 1


def _output_fails() -> bool:
    """Whether what is still to be written cannot be."""
    try:
        sys.stdout.flush()
    except OSError:
        return True
    return False


def _forget_output() -> None:
    """Nobody reads our output any more: what is still buffered must not fail once more at the exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)


def _name(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
