"""Analysis of the programs that a shell line starts: by name, and through other programs and builtins.

`env`, `xargs`, `find -exec`, `sh -c`, `eval` and the like are followed to the programs that they start: see
`starters`. Programs with a language of their own (`awk`, `sed`, `make`, `python3`, `git`) and scripts in
files are not analysed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from rumi.sandbox.grammar import SIMPLER, Function, Redirection, Script, SimpleCommand, read
from rumi.sandbox.starters import SHELLS, STARTERS, WRITE_IT_OUT, base_name, unknown
from rumi.sandbox.words import CommandRefused, ShellWord, shown

MAX_DEPTH: Final = 20
MAX_SIZE: Final = 250_000
# fmt: off
BUILTINS: Final = frozenset((
    ":", ".", "[", "[[", "((", "alias", "bg", "break", "builtin", "caller", "cd", "command", "continue",
    "declare", "dirs", "disown", "echo", "eval", "exec", "exit", "export", "false", "fg", "getopts", "hash",
    "help", "history", "jobs", "kill", "let", "local", "logout", "mapfile", "popd", "printf", "pushd", "pwd",
    "read", "readarray", "readonly", "return", "set", "shift", "shopt", "source", "test", "times", "trap",
    "true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "wait",
))
"""The allowed builtins of bash. Not `enable`, `bind`, `complete`, `compgen`, `fc` and `suspend`."""
_RESERVED: Final = frozenset((
    "!", "{", "}", "]]", "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case",
    "esac", "in", "select", "function",
))
_EVALUATES: Final = frozenset((
    "let", "test", "[", "[[", "((", "unset", "read", "declare", "typeset", "local", "export", "readonly",
    "printf", "mapfile", "readarray", "getopts", "wait",
))
"""Builtins that evaluate subscripts in their arguments, and so can run a command substitution there."""
# fmt: on
_WRAPS: Final = frozenset(("env", "timeout", "nice", "xargs"))
_SUBSCRIPT: Final = re.compile(r"\[[^]]*(?:\$\(|`)")
_QUOTED_SUBSCRIPT: Final = re.compile(r"'[^']*\[[^]']*(?:\$\(|`)")


@dataclass(frozen=True, slots=True)
class StartedProgram:
    """A program that a line starts.

    `in_shell` is True if bash itself starts the program, so that the name may be a builtin. `wraps` is True
    if the program only starts other programs, which are listed too.
    """

    name: str
    in_shell: bool
    wraps: bool = False


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """The programs that a line starts, and its redirections. `words` is set for a single plain command.

    `asynchronous` is True if the line itself starts commands with `&`.
    """

    starts: tuple[StartedProgram, ...]
    redirections: tuple[Redirection, ...]
    words: tuple[str, ...] | None
    asynchronous: bool


# Cached, because the policy, the check for writes, the status and the disk limits all parse the same line.
@lru_cache(maxsize=8)
def reading(line: str) -> ParsedLine:
    """Parse a shell line and return the programs that it starts.

    Raises:
        CommandRefused: The line cannot be parsed, or the name of a started program is not literal.
    """
    found = _Findings()
    script = _ScriptReader(found).script(line)
    words = tuple(word.text or "" for word in script.commands[0].words) if script.plain else None
    return ParsedLine(
        tuple(dict.fromkeys(found.starts)), tuple(found.redirections), words, script.asynchronous
    )


@dataclass
class _Findings:
    """The programs and redirections found so far, shared by all scripts of a line."""

    depth: int = 0
    size: int = 0
    starts: list[StartedProgram] = field(default_factory=list)
    redirections: list[Redirection] = field(default_factory=list)
    exported: set[str] = field(default_factory=set)
    """Exported functions, which the shells that this line starts know."""

    def deeper(self) -> None:
        """Count one more level of programs or scripts that start others; refuse too many levels."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise CommandRefused(
                "Refused: programs that start others, too deep to read.", "Use fewer levels."
            )


@dataclass
class _ScriptReader:
    """One shell that reads a script."""

    found: _Findings
    outer_functions: set[str] = field(default_factory=set)
    """Functions defined by enclosing or earlier scripts."""
    functions: dict[str, list[Function]] = field(default_factory=dict)
    command: SimpleCommand | None = None

    def script(self, text: str) -> Script:
        """Read a script and record the programs that it starts."""
        found = self.found
        found.deeper()
        found.size += len(text)
        if found.size > MAX_SIZE:
            raise CommandRefused("Refused: too much script within scripts to read.", "Use a script file.")
        script = read(text)
        found.redirections += script.redirections
        # A function that may be unset when it is called does not count: its name then starts a program.
        unset = {
            word.text
            for bash_command in script.commands
            if _is(bash_command, "unset")
            for word in bash_command.words[1:]
        }
        self.outer_functions -= {name for name in unset if name is not None}
        for function in script.functions:
            if function.name not in unset:
                self.functions.setdefault(function.name, []).append(function)
        for command in script.commands:
            self.command = command
            if command.words:
                self.started(command.words, in_shell=True)
        for more in script.more:
            _ScriptReader(found, set(self.outer_functions)).script(more)
        found.depth -= 1
        return script

    def again(self, text: str) -> None:
        """Read a script that this shell itself evaluates; its functions remain known after it."""
        inner = _ScriptReader(
            self.found, self.outer_functions | {name for name in self.functions if self.knows(name)}
        )
        inner.script(text)
        self.outer_functions |= inner.functions.keys()

    def other(self, text: str) -> None:
        """Read a script that another shell runs, which only knows exported functions."""
        _ScriptReader(self.found, set(self.found.exported)).script(text)

    def knows(self, name: str) -> bool:
        """Return True if the current command can call a function of that name."""
        if name in self.outer_functions:
            return True
        command = self.command
        return command is not None and any(
            function.known_to(command) for function in self.functions.get(name, ())
        )

    def started(self, words: Sequence[ShellWord], *, in_shell: bool) -> None:
        """Record the program that these words start, and the programs that it starts in turn."""
        first = words[0]
        if first.text is None:
            raise CommandRefused(
                "Refused: the program's name `{text}` is not literal.", WRITE_IT_OUT, text=shown(first.raw)
            )
        if in_shell and first.raw in _RESERVED:
            raise CommandRefused("Refused: I cannot read the line near `{text}`.", SIMPLER, text=first.raw)
        name = base_name(first.text)
        if in_shell and self.knows(name):
            return
        shell = name in SHELLS and len(words) > 1 and re.fullmatch(r"-\w*c", words[1].raw) is not None
        self.found.starts.append(StartedProgram(first.text, in_shell, shell or name in _WRAPS))
        if in_shell and name in _EVALUATES:
            _refuse_subscripts(name, words)
            self._export(name, words)
        if (starter := STARTERS.get(name)) is not None:
            self.found.deeper()
            starter(self, name, words[1:])
            self.found.depth -= 1

    def _export(self, name: str, words: Sequence[ShellWord]) -> None:
        if name in ("export", "declare", "typeset") and any(re.match("-[a-zA-Z]*f", w.raw) for w in words):
            self.found.exported |= {word.text for word in words[1:] if word.text and self.knows(word.text)}


def _is(command: SimpleCommand, name: str) -> bool:
    return bool(command.words) and command.words[0].text == name


def _refuse_subscripts(name: str, words: Sequence[ShellWord]) -> None:
    """Refuse a command substitution in a quoted subscript: these builtins run it despite the quotes."""
    if name == "printf" and not any(word.raw.startswith("-v") for word in words[1:2]):
        return
    for word in words[1:]:
        quoted = name in ("[", "[[", "((") and _QUOTED_SUBSCRIPT.search(word.raw)
        if quoted or (word.text is not None and _SUBSCRIPT.search(word.text)):
            raise unknown(name, word)
