"""Which programs a line of bash starts: by their own names, and through other programs and builtins.

`env`, `xargs`, `find -exec`, `sh -c`, `eval` and the like are judged by what they start: see `starters`.
Programs with a language of their own (`awk`, `sed`, `make`, `python3`, `git`) and scripts in files are not
read.
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
"""What bash does itself, and a line may use. Not `enable`, `bind`, `complete`, `compgen`, `fc`, `suspend`."""
_RESERVED: Final = frozenset((
    "!", "{", "}", "]]", "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case",
    "esac", "in", "select", "function",
))
_EVALUATES: Final = frozenset((
    "let", "test", "[", "[[", "((", "unset", "read", "declare", "typeset", "local", "export", "readonly",
    "printf", "mapfile", "readarray", "getopts", "wait",
))
"""Builtins that evaluate the subscripts of names that they are given."""
# fmt: on
_WRAPS: Final = frozenset(("env", "timeout", "nice", "xargs"))
_SUBSCRIPT: Final = re.compile(r"\[[^]]*(?:\$\(|`)")
_QUOTED_SUBSCRIPT: Final = re.compile(r"'[^']*\[[^]']*(?:\$\(|`)")


@dataclass(frozen=True, slots=True)
class StartedProgram:
    """A program that is started.

    `in_shell`: by bash, which also knows builtins. `wraps`: it does nothing but start others, which are
    listed too.
    """

    name: str
    in_shell: bool
    wraps: bool = False


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """What a line starts, and its redirections. `words` are its words if it is one plain command."""

    starts: tuple[StartedProgram, ...]
    redirections: tuple[Redirection, ...]
    words: tuple[str, ...] | None


@lru_cache(maxsize=8)
def reading(line: str) -> ParsedLine:
    """Return what a line of bash starts.

    Raises:
        CommandRefused: It cannot be read.
    """
    found = _Findings()
    script = _ScriptReader(found).script(line)
    words = tuple(word.text or "" for word in script.commands[0].words) if script.plain else None
    return ParsedLine(tuple(dict.fromkeys(found.starts)), tuple(found.redirections), words)


@dataclass
class _Findings:
    """What was found so far. One for all scripts of a line."""

    depth: int = 0
    size: int = 0
    starts: list[StartedProgram] = field(default_factory=list)
    redirections: list[Redirection] = field(default_factory=list)
    exported: set[str] = field(default_factory=set)
    """Functions that the shells know which this line starts."""

    def deeper(self) -> None:
        """Count a program that starts another, or a script within a script."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise CommandRefused(
                "Refused: programs that start others, too deep to read.", "Use fewer levels."
            )


@dataclass
class _ScriptReader:
    """One bash, which reads a script."""

    found: _Findings
    outer_functions: set[str] = field(default_factory=set)
    """Functions that other scripts defined: those around it or before it."""
    functions: dict[str, list[Function]] = field(default_factory=dict)
    command: SimpleCommand | None = None

    def script(self, text: str) -> Script:
        """Read a script and all that it starts."""
        found = self.found
        found.deeper()
        found.size += len(text)
        if found.size > MAX_SIZE:
            raise CommandRefused("Refused: too much script within scripts to read.", "Use a script file.")
        script = read(text)
        found.redirections += script.redirections
        # A function that may be gone when it is called does not count.
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
        """Read a script that this shell evaluates; its functions are known behind it."""
        inner = _ScriptReader(
            self.found, self.outer_functions | {name for name in self.functions if self.knows(name)}
        )
        inner.script(text)
        self.outer_functions |= inner.functions.keys()

    def other(self, text: str) -> None:
        """Read a script for another shell, which only knows exported functions."""
        _ScriptReader(self.found, set(self.found.exported)).script(text)

    def knows(self, name: str) -> bool:
        """Return True if the present command can call a function of that name."""
        if name in self.outer_functions:
            return True
        command = self.command
        return command is not None and any(
            function.known_to(command) for function in self.functions.get(name, ())
        )

    def started(self, words: Sequence[ShellWord], *, in_shell: bool) -> None:
        """Note the program that these words start, and those that it starts."""
        first = words[0]
        if first.text is None:
            raise CommandRefused(
                f"Refused: the program's name `{shown(first.raw)}` is not literal.", WRITE_IT_OUT
            )
        if in_shell and first.raw in _RESERVED:
            raise CommandRefused(f"Refused: I cannot read the line near `{first.raw}`.", SIMPLER)
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
    """Refuse subscripts that bash evaluates although they are quoted."""
    if name == "printf" and not any(word.raw.startswith("-v") for word in words[1:2]):
        return
    for word in words[1:]:
        quoted = name in ("[", "[[", "((") and _QUOTED_SUBSCRIPT.search(word.raw)
        if quoted or (word.text is not None and _SUBSCRIPT.search(word.text)):
            raise unknown(name, word)
