"""The commands in documents: each must parse, and harmless ones run on a new home."""

import contextlib
import io
import itertools
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click

from rumi.cli.group import group

COMMAND = re.compile(r"(?:\$ |ExecStart=|sudo -u \w+ -H )?(?:[\w./~-]*/)?rumi(?: (?![ \d])(?P<words>.*))?")
RUN_S = 60
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'')

HARMLESS = {
    ("data", "backup"): (0,),
    ("chat", "--json", "-p"): (0,),
    ("chat", "-p"): (0,),
    ("--version",): (0,),
    ("--help",): (0,),
    ("config", "show"): (0,),
    ("config", "path"): (0,),
    ("doctor",): (0, 1),
    ("debug", "fetch", "--check"): (0,),
    ("debug", "logs"): (0,),
    ("memory", "extract"): (0,),
    ("memory", "list"): (0,),
    ("chats", "reset", "CHAT"): (2,),  # there is no chat of that name
    ("debug", "sandbox", "clean"): (0,),
    ("debug", "sandbox", "status"): (0,),
    ("schedule", "list"): (0,),
    ("skills", "create", "my-skill"): (0,),
    ("skills", "list"): (0,),
    ("status",): (1,),  # nothing runs there
    ("chats", "stop"): (0, 2),  # a chat of that name may not be there
    ("tasks", "list"): (0,),
    ("tasks", "show"): (2,),  # there is none of that number
}
"""Commands that change nothing except their home, with their possible exit codes on a new one."""

BOXED = (("chat",), ("doctor",), ("chats", "reset"), ("debug", "sandbox"))


def commands_in(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the text after `rumi` in each command of a document, and True if it is written out in full."""
    fences = re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    for line in itertools.chain.from_iterable(_lines(fence) for fence in fences):
        for part in _split(r" \| | && |; ", line.strip()):
            if (found := COMMAND.fullmatch(part.strip())) is not None:
                yield found["words"] or "", True
    prose = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.MULTILINE | re.DOTALL)
    for span in re.findall(r"`([^`\n]+)`", prose):
        for part in _split(r" \\?\| | && ", span):
            if (found := COMMAND.fullmatch(part.strip())) is not None:
                yield found["words"] or "", False


def _lines(fence: str) -> list[str]:
    """Return the lines of a fence; a line that a backslash continues is one, and has no here-document."""
    whole = re.sub(r" *\\\n *", " ", fence)
    return [re.sub(r" <<'?\w+'?$", "", line) for line in whole.splitlines()]


def _split(separators: str, line: str) -> list[str]:
    """Split a line of a shell; what is in quotes stays whole."""
    quoted: list[str] = []

    def hide(match: re.Match[str]) -> str:
        quoted.append(match[0])
        return f"\0{len(quoted) - 1}\0"

    parts = re.split(separators, _QUOTED.sub(hide, line))
    return [re.sub("\0([0-9]+)\0", lambda match: quoted[int(match[1])], part) for part in parts]


def spelled_out(words: str) -> list[list[str]]:
    """Return the command lines of a synopsis: `a [-b]` includes its option, `a|b` is two command lines."""
    plain = re.sub(r"(?<!\S)\[|\](?!\S)", "", words.replace("\\|", "|")).replace("…", "x")
    split = [word.split("|") if "|" in word and " " not in word else [word] for word in _words(plain)]
    return [list(line) for line in itertools.product(*split)]


def _words(text: str) -> list[str]:
    return shlex.split(text, comments=True)


def wrong_commands(text: str) -> Iterator[str]:
    """Yield commands that the program would not understand."""
    for words, in_full in commands_in(text):
        for line in spelled_out(words):
            why = misread(line)
            if why and (in_full or "Missing argument" not in why):  # a name alone is not a command line
                yield f"rumi {shlex.join(line)}: {why}"


def misread(words: list[str]) -> str:
    """Return why the program does not understand this; empty if it does. Nothing is run."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            command: click.Command = group
            context = command.make_context("rumi", list(words))
            while isinstance(command, click.Group):
                rest = [*context._protected_args, *context.args]
                if not rest:
                    break
                name, below, rest = command.resolve_command(context, rest)
                assert below is not None
                command, context = below, below.make_context(name, rest, parent=context)
        except (
            click.exceptions.Exit,
            click.exceptions.NoArgsIsHelpError,
        ):  # a command that asks for help gets it
            return ""
        except click.ClickException as error:
            return error.format_message()
    return ""


def failing_commands(documents: list[Path]) -> list[str]:
    """Run the harmless commands; return lines about those that fail."""
    lines = {
        tuple(line)
        for document in documents
        for words, _ in commands_in(document.read_text("utf-8"))
        for line in spelled_out(words)
    }
    chosen = sorted(line for line in lines if _codes(line) and "--watch" not in line and "-f" not in line)
    with tempfile.TemporaryDirectory(prefix="rumi-docs-") as folder, ThreadPoolExecutor(2) as threads:
        # Commands that need a sandbox run one after the other on one home, so that it is made once; the
        # others run beside them.
        boxed = [line for line in chosen if _is_boxed(line)]
        others = [line for line in chosen if not _is_boxed(line)]
        homes = [_new_home(Path(folder) / name) for name in ("boxed", "others")]
        told = threads.map(lambda home, lines: [_run(home, line) for line in lines], homes, (boxed, others))
        return [line for lines in told for line in lines if line]


def _is_boxed(line: tuple[str, ...]) -> bool:
    return any(line[: len(begin)] == begin for begin in BOXED)


def _codes(line: tuple[str, ...]) -> tuple[int, ...]:
    if "--online" in line or line == ("data", "backup"):  # its path is missing: only its name is meant
        return ()
    return next((codes for begin, codes in HARMLESS.items() if line[: len(begin)] == begin), ())


def _new_home(home: Path) -> Path:
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text('language = "en"\n[sandbox]\nbackend = "bubblewrap"\n')
    return home


def _run(home: Path, line: tuple[str, ...]) -> str:
    """Run it; return the error, if there is one."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "DOCKER_HOST") if name in os.environ}
    words = (
        (*line[:-1], f"{home}-{line[-1].strip('/').replace('/', '-')}.tar.gz")
        if line[:2] == ("data", "backup")
        else line
    )
    done = subprocess.run(
        [str(Path(sys.executable).with_name("rumi")), *words],
        input="",
        capture_output=True,
        text=True,
        env={**kept, "LANG": "C.UTF-8", "RUMI_HOME": str(home)},
        timeout=RUN_S,
        check=False,
    )
    if done.returncode in _codes(line) and "Traceback" not in done.stderr:
        return ""
    if "bubblewrap does not work here" in done.stderr:  # this is a property of the machine, not of a document
        return ""
    return f"rumi {shlex.join(line)}: exit {done.returncode}: {done.stderr.strip() or done.stdout.strip()}"
