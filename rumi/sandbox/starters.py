"""Programs and bash builtins that start other programs, with a rule for each that finds these programs."""

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Protocol, TypeAlias

from rumi.sandbox.words import CommandRefused, ShellWord, shown
from rumi.texts import Text

WRITE_IT_OUT: Final = Text("Write names out; give a script in quotes its values as `$1`.")
SHELLS: Final = frozenset(("sh", "bash", "dash"))
_SYSTEM_FOLDERS: Final = frozenset(("/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin"))
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_INPUTS: Final = frozenset(("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"))
_LONG: Final = frozenset(
    (
        *("--unset", "--chdir", "--argv0", "--arg-file", "--delimiter", "--max-lines", "--max-args"),
        *("--max-procs", "--max-chars", "--process-slot-var", "--kill-after", "--signal", "--adjustment"),
        *("--input", "--output", "--error", "--class", "--classdata", "--interval", "--format", "--user"),
        "--group",
    )
)
"""Long options of this module's programs that take their value from the next word."""
_RUNS_ONE: Final = {
    "sort": ("--compress-program",),
    "split": ("--filter",),
    "tar": (
        *("--to-command", "--use-compress", "--checkpoint-action=exec", "--info-script", "--new-volume"),
        *("--rmt-command", "--rsh-command"),
    ),
    "hash": ("-p",),
}
"""Options that name a program to start, or change the meaning of a name."""


class StartRecorder(Protocol):
    """The interface of a shell that reads a line and records each program that the line starts."""

    def started(self, words: Sequence[ShellWord], *, in_shell: bool) -> None:
        """Record the program that these words start, and the programs that it starts in turn."""
        ...

    def again(self, text: str) -> None:
        """Read a script that this shell itself evaluates."""
        ...

    def other(self, text: str) -> None:
        """Read a script that another shell runs."""
        ...

    def knows(self, name: str) -> bool:
        """Return True if the current command can call a function of that name."""
        ...


Starter: TypeAlias = Callable[[StartRecorder, str, Sequence[ShellWord]], None]
"""Checks the words after a program's name; raises CommandRefused if it cannot tell which program starts."""


@dataclass(frozen=True, slots=True)
class WrapperProgram:
    """A program that starts another one, given after its own options, like `nice` or `timeout`.

    `takes` lists the short options that take a value.
    """

    takes: str = ""
    operands: int = 0
    assigns: bool = False
    in_shell: bool = False

    def __call__(self, shell: StartRecorder, name: str, words: Sequence[ShellWord]) -> None:
        """Record the program that the wrapper starts."""
        if rest := self.rest(name, words):
            shell.started(rest, in_shell=self.in_shell)

    def rest(self, name: str, words: Sequence[ShellWord]) -> Sequence[ShellWord]:
        """Return the started program's words, without the wrapper's options, operands and assignments."""
        rest = _behind_options(name, words, self.takes)
        while self.assigns and rest and _ASSIGNMENT.match(rest[0].raw):
            if rest[0].raw.startswith("BASH_ENV="):  # names a script that the started bash would run
                raise unknown(name, rest[0])
            rest = rest[1:]
        return rest[self.operands :]


_PREFIXES: Final = {
    "env": WrapperProgram("uCa", assigns=True),
    "timeout": WrapperProgram("ks", operands=1),
    "nice": WrapperProgram("n"),
    "nohup": WrapperProgram(),
    "setsid": WrapperProgram(),
    "stdbuf": WrapperProgram("ioe"),
    "ionice": WrapperProgram("cnpPu"),
    "chrt": WrapperProgram("TPD", operands=1),
    "taskset": WrapperProgram(operands=1),
    "time": WrapperProgram("fo"),
    "sudo": WrapperProgram("ugpChrtTU", assigns=True),
    "doas": WrapperProgram("uC"),
    "chroot": WrapperProgram(operands=1),
    "strace": WrapperProgram("abeEIoOpPsSuUX"),
    "ltrace": WrapperProgram("aADeFlnopsuwxX"),
    "busybox": WrapperProgram(),
    "coproc": WrapperProgram(in_shell=True),
    "exec": WrapperProgram("a"),
}


def unknown(name: str, word: ShellWord | None = None) -> CommandRefused:
    """Return the error for a program that starts another one whose name is not literally in the line."""
    what = f" {shown(word.raw)}" if word is not None and name not in ("[", "[[", "((") else ""
    return CommandRefused(
        "Refused: what `{name}{what}` starts cannot be read.", WRITE_IT_OUT, name=name, what=what
    )


def base_name(name: str) -> str:
    """Remove a system folder from a program's path; return other paths unchanged."""
    folder, base = posixpath.split(name)
    return base if folder in _SYSTEM_FOLDERS else name


def _behind_options(
    name: str, words: Sequence[ShellWord], takes: str, optional: str = ""
) -> Sequence[ShellWord]:
    """Return the words after a program's options. Options in `optional` may have a value in the same word."""
    at = 0
    while at < len(words):
        option = words[at].raw if words[at].text is None else words[at].text or ""
        if option == "--":
            return words[at + 1 :]
        if not option.startswith("-") or (option == "-" and name != "env"):
            break
        if name == "env" and re.match(r"-[iv0]*S|--split-string", option):
            raise unknown("env", words[at])
        if option.startswith("--"):
            at += option in _LONG
        elif takes or optional:
            value = re.search(f"[{takes}{optional}]", option[1:])
            at += value is not None and value.end() == len(option) - 1 and value[0] in takes
        at += 1
    return words[at:]


def _command(shell: StartRecorder, name: str, words: Sequence[ShellWord]) -> None:
    """Record what `command` and `builtin` start: never a function, and nothing with `-v` or `-V`."""
    if any(re.fullmatch(r"-p?[vV]p?", word.raw) for word in words[:2]):
        return
    if rest := _behind_options(name, words, ""):
        if shell.knows(rest[0].text or ""):
            raise unknown(name, rest[0])
        shell.started(rest, in_shell=True)


def _xargs(shell: StartRecorder, name: str, words: Sequence[ShellWord]) -> None:
    rest = _behind_options(name, words, "InPLdEsa", "ile")
    if not rest:
        return
    replaced = _replaced([word.text or "" for word in words[: len(words) - len(rest)]])
    if replaced and replaced in (rest[0].text or ""):
        raise unknown(name, rest[0])
    runs = base_name(rest[0].text or "")
    if runs in SHELLS:
        if len(rest) < 2 or (replaced and any(replaced in word.raw for word in rest[1:3])):
            raise unknown(name, rest[0])
    elif (prefix := _PREFIXES.get(runs)) is not None and not prefix.rest(runs, rest[1:]):
        raise unknown(name, rest[0])  # its input decides which program starts
    shell.started(rest, in_shell=False)


def _replaced(options: Sequence[str]) -> str:
    """Return the placeholder that `xargs` replaces with its input; "" if its options set none."""
    for option, following in pairwise((*options, "")):
        if option.startswith("--replace"):
            return option.partition("=")[2] or "{}"
        if found := re.match(r"-[0rtxp]*([iI])(.*)", option):
            return found[2] or (following if found[1] == "I" else "{}")
    return ""


def _find(shell: StartRecorder, name: str, words: Sequence[ShellWord]) -> None:
    at = 0
    while at < len(words):
        action = words[at].text
        at += 1
        if action not in ("-exec", "-execdir", "-ok", "-okdir"):
            continue
        end = next((i for i in range(at, len(words)) if words[i].text in (";", "+")), len(words))
        started = words[at:end]
        if not started:
            return  # find refuses it
        program = started[0].text or ""
        script = base_name(program) in SHELLS and len(started) > 2 and re.fullmatch(r"-\w*c", started[1].raw)
        if "{}" in program or (script and "{}" in started[2].raw):
            raise unknown(f"find {action}", started[2] if script else started[0])
        shell.started(started, in_shell=False)
        at = end


def _shell(shell: StartRecorder, name: str, words: Sequence[ShellWord]) -> None:
    """Read the script of `sh -c SCRIPT`, allow `sh FILE`, and refuse a script from standard input."""
    at, script = 0, False
    while at < len(words) and (text := words[at].text) is not None:
        at += 1
        if text in ("--version", "--help"):
            return
        if text in ("--rcfile", "--init-file") or re.fullmatch(r"[-+]\w*s\w*", text):
            raise unknown(name, words[at - 1])
        if text in ("-", "--"):
            break
        if not text.startswith(("-", "+")):
            at -= 1
            break
        if not text.startswith("--"):
            script = script or (text.startswith("-") and "c" in text)
            at += len(re.findall("[oO]", text))
    if at >= len(words):
        raise unknown(name)
    script_word = words[at]
    if script:
        if script_word.text is None:
            raise unknown(f"{name} -c", script_word)
        shell.other(script_word.text)
    elif script_word.text in _INPUTS or (
        script_word.text is None and not re.match(r"[~./\w\"]", script_word.raw)
    ):
        raise unknown(name, script_word)


def _eval(shell: StartRecorder, name: str, words: Sequence[ShellWord]) -> None:
    texts: list[str] = []
    for word in words:
        if word.text is None:
            raise unknown(name, word)
        texts.append(word.text)
    shell.again(" ".join(texts))


def _trap(shell: StartRecorder, name: str, words: Sequence[ShellWord]) -> None:
    rest = words[1:] if words and words[0].raw == "--" else words
    if len(rest) > 1 and rest[0].text not in ("-", "", "-p", "-l"):
        _eval(shell, name, rest[:1])


def _source(shell: StartRecorder, name: str, words: Sequence[ShellWord]) -> None:
    raise CommandRefused(
        "Refused: `{name}`, because a file may change what names mean.",
        "`bash FILE` runs a script in a file.",
        name=name,
    )


def _alias(shell: StartRecorder, name: str, words: Sequence[ShellWord]) -> None:
    for word in words:
        if word.text is None:
            raise unknown(name, word)
        if value := word.text.partition("=")[2]:
            shell.again(value)


def _watch(shell: StartRecorder, name: str, words: Sequence[ShellWord]) -> None:
    rest = _behind_options(name, words, "nq")
    if any(word.raw in ("-x", "--exec") for word in words[: len(words) - len(rest)]):
        shell.started(rest, in_shell=False)
    elif rest:
        _eval(shell, name, rest)


def _callback(shell: StartRecorder, name: str, words: Sequence[ShellWord]) -> None:
    """Read the callback of `mapfile -C`, which bash evaluates."""
    for at, word in enumerate(words):
        if word.raw.startswith("-") and "C" in word.raw:
            _eval(shell, f"{name} -C", words[at + 1 : at + 2])


def _shopt(shell: StartRecorder, name: str, words: Sequence[ShellWord]) -> None:
    if any(word.text in ("expand_aliases", "posix") for word in words):
        raise CommandRefused(
            "Refused: `{name}` with aliases, which change what names mean.", "Use a function.", name=name
        )


def _runs_one(shell: StartRecorder, name: str, words: Sequence[ShellWord]) -> None:
    for word in words:
        if word.raw.startswith(_RUNS_ONE[name]):
            raise CommandRefused(
                "Refused: `{name} {argument}`, which can start any program.",
                "Use a pipe or a loop.",
                name=name,
                argument=shown(word.raw),
            )


STARTERS: Final[Mapping[str, Starter]] = {
    **_PREFIXES,
    **dict.fromkeys(SHELLS, _shell),
    **dict.fromkeys(("command", "builtin"), _command),
    **dict.fromkeys((".", "source"), _source),
    **dict.fromkeys(("mapfile", "readarray"), _callback),
    **dict.fromkeys(("set", "shopt"), _shopt),
    **dict.fromkeys(_RUNS_ONE, _runs_one),
    "xargs": _xargs,
    "find": _find,
    "eval": _eval,
    "trap": _trap,
    "alias": _alias,
    "watch": _watch,
}
