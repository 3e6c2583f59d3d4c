"""Decides which commands run: the allowed programs, and the allowed content of `sh -c`.

The policy keeps order and reduces noise. It does not stop an attacker (`find -exec`, `awk` and `tar` run
programs) and no promise depends on it: the boundary is the sandbox. It does promise that a command runs as it
was read here, so that questions and logs show what happens.

Without `sh -c` there is no shell at all: globs, `~`, braces and quoted `$` are plain characters, and the
program itself sees them (`find . -name *.py` finds, `ls *.py` looks for a file of that name).
"""

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from rumi.sandbox.shell import (
    CONTROLS,
    INSIDE,
    OUTSIDE,
    POLICY_KEY,
    CommandRefused,
    NeedsShell,
    Operator,
    Token,
    Word,
    read_script,
    read_words,
    trimmed,
)
from runner.programs import CORE_ONLY

__all__ = ["MAX_COMMAND_BYTES", "CommandPolicy", "CommandRefused", "may_write"]

MAX_COMMAND_BYTES = 100_000
"""Linux's limit for one argument is 131072 bytes."""

READERS = frozenset(
    (
        *("ls", "cat", "head", "tail", "which", "stat", "du", "df", "grep", "egrep", "fgrep", "cut", "wc"),
        *("tr", "diff", "comm", "join", "paste", "echo", "printf", "yes", "base64", "md5sum", "sha256sum"),
        *("pwd", "basename", "dirname", "realpath", "date", "cal", "expr", "seq", "sleep", "true", "false"),
        *("nl", "tac", "column", "fold", "rev", "jq", "bc", "cmp", "readlink", "uname"),
        *("test", "[", "printenv", "id", "whoami", "zcat"),
    )
)
"""Programs that cannot write a file, with any arguments. Others can: `sort -o`, `sed w`, `find -fprint`,
`awk >`, `uniq IN OUT`, `less -o`, `shuf -o`; and `env`, `xargs`, `timeout`, `nice` and `sh` run any program.
"""

_TARGETS = "A redirection's target is relative, under /workspace or /tmp, or /dev/null."
_PROGRAM_KEYS = (
    "The owner can add programs in config.toml (sandbox.extra_programs), or allow every line of shell "
    '(sandbox.policy = "open").'
)
_SH = 'Write exactly `sh -c "…"`: one quoted script, no other options or arguments.'
_SCRIPT = "`env sh FILE` runs a script in a file."
_KEYWORDS = frozenset(
    ["!", "{", "}", "[[", "]]", "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done"]
) | {"case", "esac", "in", "select", "function", "time", "coproc"}
_INSTEAD = {
    "bash": 'Use `sh -c "…"`.',
    "curl": "The sandbox has no network.",
    "wget": "The sandbox has no network.",
    "nano": "Write files with `tee FILE` and stdin.",
    "vi": "Write files with `tee FILE` and stdin.",
    "vim": "Write files with `tee FILE` and stdin.",
}
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_MAX_FOLDERS = 16
_MAX_PATH = 4096


@dataclass(frozen=True, slots=True)
class _Segment:
    """One program with its words and redirections (operator, target)."""

    words: tuple[Word, ...]
    redirections: tuple[tuple[str, Word], ...]


_Pipeline: TypeAlias = list[_Segment]
_Folders: TypeAlias = frozenset[str | None]
"""The possible folders of a segment, after `cd`; None if they are not known."""


@dataclass(frozen=True, slots=True)
class CommandPolicy:
    """Which commands a chat may run.

    `programs` are those on the list; the sandbox is known to lack those in `missing`. `open`: every line runs
    in `sh`, whatever it says.
    """

    programs: tuple[str, ...] = CORE_ONLY.allowed
    missing: tuple[str, ...] = ()
    open: bool = False
    _names: frozenset[str] = field(default=frozenset(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make the set in which each segment of a script is looked up."""
        object.__setattr__(self, "_names", frozenset(self.programs))

    @property
    def there(self) -> tuple[str, ...]:
        """Return the programs on the list that the sandbox has, as far as is known."""
        return tuple(name for name in self.programs if name not in self.missing)

    def parse(self, command: str) -> tuple[str, ...]:
        """Return the argv of `command`.

        A line that joins programs or redirects is read as `sh -c` of itself; with `open`, every line.

        Raises:
            CommandRefused: It is not allowed. The message names the refused part, the advice the
                alternatives.
        """
        _refuse_unrunnable(command)
        if self.open and command.strip():
            return ("sh", "-c", command)
        try:
            words = read_words(command)
        except NeedsShell:
            words = [Word(text, "", True) for text in ("sh", "-c", trimmed(command))]
        if not words:
            raise CommandRefused("Refused: an empty command.", self._list)
        first = words[0]
        if first.text == "cd" and not first.quoted:
            raise CommandRefused(
                "Refused: `cd` outside `sh -c`.",
                "Every command starts in /workspace. Use paths, or `cd DIR && …`.",
            )
        argv = tuple(word.text for word in words)
        here = frozenset({"/workspace"})
        if _runs_skill(words, here):
            return argv
        self._check_program(first, OUTSIDE)
        if first.text == "sh":
            # No shell expands these words, so they may contain globs.
            self._check_script(_script_of(argv), here)
        return argv

    @property
    def _list(self) -> str:
        return f"Allowed programs: {' '.join(self.there)}."

    def _check_program(self, word: Word, advice: str) -> None:
        name = word.text
        if name in self._names and not word.expands:
            if name in self.missing:
                raise CommandRefused(
                    f"Refused: the program `{name}` is not in the sandbox, because this machine lacks it.",
                    self._list,
                )
            return
        if _ASSIGNMENT.match(word.bare):
            raise CommandRefused(f"Refused: the assignment `{name}`.", f"Use `env {_shown(name)} PROGRAM …`.")
        if name in _KEYWORDS and not word.quoted:
            raise CommandRefused(
                f"Refused: the keyword `{name}`.",
                f"There are no groups, loops or conditions. {advice} {POLICY_KEY}",
            )
        if "/" in name and posixpath.basename(name) in self._names:
            base = posixpath.basename(name)
            raise CommandRefused(
                f"Refused: the program `{_shown(name)}` with a path.", f"Write just `{base}`. {self._list}"
            )
        instead = _INSTEAD.get(name, "Write its name as plain text." if name in self._names else "")
        if name.endswith(".sh"):
            instead = _SCRIPT
        what = f"the program `{_shown(name)}` is" if name else "an empty program name is"
        raise CommandRefused(
            f"Refused: {what} not on the list.", f"{instead} {self._list} {_PROGRAM_KEYS}".strip()
        )

    def _check_script(self, script: str, folders: _Folders) -> None:
        """Check a script for `sh -c`, which starts in one of `folders`.

        To find the folder of a relative target, `cd` is followed: a segment after `&&` runs where the `cd`
        before it led, after `||` in the folder before it, after `;` in either.
        """
        after_success = after_failure = folders
        operator = ";"
        for control, pipeline in _pipelines(read_script(script)):
            operator = control or operator
            starts = {"&&": after_success, "||": after_failure}.get(operator, after_success | after_failure)
            for segment in pipeline:
                self._check_segment(segment, starts)
            # Each part of a longer pipe has its own shell: a `cd` there changes nothing here.
            succeeded = _led_to(pipeline[0], starts) if len(pipeline) == 1 else starts
            if len(succeeded) > _MAX_FOLDERS:  # each `cd` after a `;` may double them
                succeeded = frozenset({None})
            if operator == "&&":
                after_success, after_failure = succeeded, after_failure | starts
            elif operator == "||":
                after_success, after_failure = after_success | succeeded, starts
            else:
                after_success, after_failure = succeeded, starts

    def _check_segment(self, segment: _Segment, folders: _Folders) -> None:
        for word in (*segment.words, *(target for _, target in segment.redirections)):
            if _has_braces(word.bare):
                raise CommandRefused(
                    f"Refused: the brace expansion `{_shown(word.text)}`.",
                    f"Write the words out, or quote the braces. {INSIDE}",
                )
        program = segment.words[0]
        runs_skill = _runs_skill(segment.words, folders)
        if not runs_skill and (program.text != "cd" or program.expands):
            self._check_program(program, INSIDE)
        if program.text == "sh" and not runs_skill:
            if any(word.expands for word in segment.words):
                raise CommandRefused("Refused: a glob or `~` in the words of `sh`.", _SH)
            self._check_script(_script_of(tuple(word.text for word in segment.words)), folders)
        for _, target in segment.redirections:
            _check_target(target, folders)


STRICT = CommandPolicy()
"""The policy with today's programs, for chats of which nothing else is known."""


def may_write(argv: Sequence[str]) -> bool:
    """Return True if a command that the policy allowed may change a file."""
    return not argv or argv[0] not in READERS


def _refuse_unrunnable(command: str) -> None:
    if "\0" in command:
        raise CommandRefused(
            "Refused: a NUL character in the command.", "No program can be given one; leave it out."
        )
    try:
        size = len(command.encode())
    except UnicodeEncodeError:
        raise CommandRefused(
            "Refused: the command contains half a surrogate pair.", "Write characters that exist in UTF-8."
        ) from None
    if size > MAX_COMMAND_BYTES:
        raise CommandRefused(
            f"Refused: a command of {size} bytes; {MAX_COMMAND_BYTES} are allowed.",
            "Give long text as `stdin`, for example to `tee FILE`.",
        )


def _shown(name: str) -> str:
    """Return the name in a form that shows look-alike characters, and not too long."""
    short = name if len(name) <= 60 else f"{name[:60]}…"
    return short if short.isascii() and short.isprintable() else ascii(short)[1:-1]


def _runs_skill(words: Sequence[Word], folders: _Folders) -> bool:
    """Return True if a script of a skill runs: by its own path, or by `sh` or `bash`."""
    script = words[1] if words[0].text in ("sh", "bash") and len(words) > 1 else words[0]
    if script.expands or "/" not in script.text:
        return False
    return all((_resolved(script.text, folder) or "").startswith("/skills/") for folder in folders)


def _script_of(argv: tuple[str, ...]) -> str:
    if len(argv) != 3 or argv[1] != "-c":
        raise CommandRefused(
            f"Refused: `sh` with {'other arguments' if len(argv) > 1 else 'no arguments'}.",
            f"{_SH} {_SCRIPT}",
        )
    return argv[2]


def _pipelines(tokens: list[Token]) -> Iterator[tuple[str, _Pipeline]]:
    """Yield the pipelines of a script, each with the operator in front of it (empty for the first)."""
    if not tokens:
        raise CommandRefused("Refused: an empty script for `sh -c`.", INSIDE)
    before, pipeline, current = "", list[_Segment](), list[Token]()
    for token in tokens:
        if not (isinstance(token, Operator) and token.text in CONTROLS):
            current.append(token)
            continue
        pipeline.append(_segment(current, token.text))
        current = []
        if token.text != "|":
            yield before, pipeline
            before, pipeline = token.text, []
    if current or before != ";" or pipeline:  # a `;` at the end of the line is empty
        last = "|" if pipeline else before
        pipeline.append(_segment(current, last))
        yield before, pipeline


def _segment(tokens: list[Token], beside: str) -> _Segment:
    words: list[Word] = []
    redirections: list[tuple[str, Word]] = []
    rest = iter(tokens)
    for token in rest:
        if isinstance(token, Word):
            words.append(token)
        elif token.text != "2>&1":
            target = next(rest, None)
            if not isinstance(target, Word):
                raise CommandRefused(f"Refused: the redirection `{token.text}` without a target.", _TARGETS)
            redirections.append((token.text, target))
    if not words:
        if redirections:
            raise CommandRefused("Refused: a redirection without a program.", "`true > FILE` empties a file.")
        raise CommandRefused(
            f"Refused: nothing beside `{beside}` inside `sh -c`.", "Both sides need a program."
        )
    return _Segment(tuple(words), tuple(redirections))


def _has_braces(bare: str) -> bool:
    """Return True if bash would make several words of it; dash and BusyBox never do."""
    between = bare[bare.find("{") + 1 : bare.rfind("}")] if "{" in bare and "}" in bare else ""
    return "," in between or ".." in between


def _check_target(target: Word, folders: _Folders) -> None:
    path = target.text
    if path == "/dev/null":
        return
    if target.expands:
        raise CommandRefused(f"Refused: the redirection's target `{path}`, a glob or `~`.", _TARGETS)
    if path == "" or any(not _is_ours(_resolved(path, folder)) for folder in folders):
        unsure = "" if path.startswith("/") or len(folders) == 1 else " After `cd DIR`, go on with `&&`."
        raise CommandRefused(
            f"Refused: the redirection's target `{_shown(path)}`, which may lie outside /workspace and /tmp.",
            f"{_TARGETS}{unsure}",
        )


def _resolved(path: str, folder: str | None) -> str | None:
    """Return the absolute path; None if the folder is unknown and the path stays in it."""
    if path.startswith("/") or folder is not None:
        return posixpath.normpath("/" + posixpath.join(folder or "/", path).lstrip("/"))
    return "/" if posixpath.normpath(path).split("/")[0] == ".." else None


def _is_ours(path: str | None) -> bool:
    return path is None or path.startswith(("/workspace/", "/tmp/"))


def _led_to(segment: _Segment, folders: _Folders) -> _Folders:
    """Return the possible folders after a segment that succeeded."""
    if segment.words[0].text != "cd":
        return folders
    arguments = [word for word in segment.words[1:] if word.text not in ("-L", "--")]
    if len(arguments) != 1 or arguments[0].expands or arguments[0].text.startswith("-"):
        return frozenset({None})
    path = arguments[0].text
    if path.startswith("/"):
        return frozenset({_resolved(path, None)})
    if any(len(folder or "") + len(path) > _MAX_PATH for folder in folders):
        return frozenset({None})
    return frozenset({None if folder is None else _resolved(path, folder) for folder in folders})
