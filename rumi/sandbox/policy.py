"""The command policy: a shell line may use all of bash, but may start only the programs on a list.

The policy gives early, readable refusals. It does not stop an attacker (`awk`, `python3` and scripts in files
can run programs, and PATH decides what a name means), and no guarantee depends on it: the security boundary
is the sandbox. The policy does guarantee that bash runs a line exactly as it is written, or not at all.
"""

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from rumi.sandbox.grammar import Redirection
from rumi.sandbox.starters import base_name
from rumi.sandbox.starting import BUILTINS, ParsedLine, StartedProgram, reading
from rumi.sandbox.words import CommandRefused, shown
from rumi.texts import Text
from runner.programs import CORE_ONLY

__all__ = ["MAX_COMMAND_BYTES", "CommandPolicy", "CommandRefused", "in_bash", "may_write"]

MAX_COMMAND_BYTES = 100_000
"""Maximum size of a command line, below Linux's limit of 131072 bytes for one argument."""

READERS = frozenset(
    (
        *("ls", "cat", "head", "tail", "which", "stat", "du", "df", "grep", "egrep", "fgrep", "cut", "wc"),
        *("tr", "diff", "comm", "join", "paste", "echo", "printf", "yes", "base64", "md5sum", "sha256sum"),
        *("pwd", "basename", "dirname", "realpath", "date", "cal", "expr", "seq", "sleep", "true", "false"),
        *("nl", "tac", "column", "fold", "rev", "jq", "bc", "cmp", "readlink", "uname", "od"),
        *("test", "[", "printenv", "id", "whoami", "zcat", "kill", "ps", "groups", "who", "nproc"),
        *("pgrep", "pstree", "free", "uptime", "pkill"),
    )
) | (BUILTINS - {"history"})
"""Programs that cannot write a file, whatever their arguments. Not among them are, for example, `sort -o`,
`sed w`, `find -fprint`, `awk >`, `uniq IN OUT`, `less -o` and `shuf -o`. Programs that a builtin starts are
checked separately.
"""

_INSTEAD: Final = {
    **dict.fromkeys(
        ("curl", "wget", "ping", "ssh", "scp", "rsync", "dig"), Text("The sandbox has no network.")
    ),
    **dict.fromkeys(
        ("nano", "vi", "vim", "emacs", "ed"), Text("Write files with `cat > FILE <<'END'` or `sed -i`.")
    ),
    **dict.fromkeys(("sudo", "su", "doas"), Text("There is no root; run the program without it.")),
    **dict.fromkeys(("apt", "apt-get", "yum", "brew", "apk", "dnf"), Text("There is no package manager.")),
    **dict.fromkeys(("zsh", "ksh", "dash", "csh", "fish"), Text("Use `bash`.")),
}
_COMMON: Final = ("python3", "awk", "sed")


@dataclass(frozen=True, slots=True)
class CommandPolicy:
    """The command policy of a chat.

    `programs` is the list of allowed programs; `missing` are those of them that the sandbox is known to lack.
    With `open`, every line is allowed.
    """

    programs: tuple[str, ...] = CORE_ONLY.allowed
    missing: tuple[str, ...] = ()
    open: bool = False
    _names: frozenset[str] = field(default=frozenset(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Build the set for looking up programs."""
        object.__setattr__(self, "_names", frozenset(self.programs))

    @property
    def there(self) -> tuple[str, ...]:
        """Return the allowed programs that the sandbox is not known to lack."""
        return tuple(name for name in self.programs if name not in self.missing)

    def parse(self, command: str) -> tuple[str, ...]:
        """Check a command line; return its argv: the words of a single plain command, otherwise a `bash -c`.

        Raises:
            CommandRefused: The line is not allowed. The message names the refused part, the advice names
                alternatives.
        """
        _refuse_unrunnable(command)
        if self.open:
            return in_bash(command)
        read = reading(command)
        for start in read.starts:
            self._check(start)
        return read.words or in_bash(command)

    def _check(self, start: StartedProgram) -> None:
        name = start.name
        if start.in_shell and name in BUILTINS:
            return
        base = base_name(name)
        if base in self._names:
            if base in self.missing:
                raise CommandRefused(
                    "Refused: the program `{base}` is missing on this machine.",
                    self._others,
                    base=base,
                )
            return
        if posixpath.normpath(name).startswith("/skills/"):
            return
        if not name:
            raise CommandRefused("Refused: an empty program name.", self._others)
        if "/" in base:
            advice: str = Text("`bash FILE` runs a script; name programs without a path.")
        else:
            advice = _INSTEAD.get(base) or self._others
        raise CommandRefused("Refused: the program `{name}` is not on the list.", advice, name=shown(name))

    @property
    def _others(self) -> str:
        common = ", ".join(name for name in _COMMON if name in self.there)
        return Text("`ls /usr/bin` lists what there is, such as {common}.", common=common)


STRICT = CommandPolicy()
"""The default policy, with the core programs, for chats without a policy of their own."""


def in_bash(line: str) -> tuple[str, ...]:
    """Return the argv with which bash runs the line as it is written."""
    return ("bash", "-c", line)


def read_of(argv: Sequence[str]) -> ParsedLine | None:
    """Return the parsed line of a `bash -c` or `sh -c`; None for other commands and unreadable lines."""
    if len(argv) != 3 or argv[0] not in ("bash", "sh") or argv[1] != "-c":
        return None
    try:
        return reading(argv[2])
    except CommandRefused:
        return None


def program_of(argv: Sequence[str]) -> str:
    """Return the first program that a command runs: for a shell line its first program, not bash."""
    read = read_of(argv)
    return base_name(read.starts[0].name) if read is not None and read.starts else argv[0]


def programs_of(argv: Sequence[str]) -> frozenset[str]:
    """Return the names of all programs and builtins that a command starts; only its own if it is no line."""
    if (read := read_of(argv)) is None:
        return frozenset(argv[:1])
    return frozenset(base_name(start.name) for start in read.starts)


def leaves_commands(argv: Sequence[str]) -> bool:
    """Return True if a line starts commands with `&` and does not wait for them."""
    read = read_of(argv)
    return read is not None and read.asynchronous and "wait" not in programs_of(argv)


def may_write(argv: Sequence[str]) -> bool:
    """Return True if an allowed command may change a file."""
    if (read := read_of(argv)) is None:
        return not argv or argv[0] not in READERS
    if any(base_name(start.name) not in READERS and not start.wraps for start in read.starts):
        return True
    return any(map(writes, read.redirections))


def writes(redirection: Redirection) -> bool:
    """Return True if a redirection may change a file."""
    target = redirection.target.text if redirection.target is not None else ""
    if ">" not in redirection.operator or target == "/dev/null":
        return False
    return redirection.operator not in (">&-", "<&-") and not (
        redirection.operator == ">&" and target is not None and target.isdigit()
    )


def _refuse_unrunnable(command: str) -> None:
    if not command.strip():
        raise CommandRefused("Refused: an empty command.", "Give a line of bash.")
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
            "Refused: a command of {size} bytes; {max_command_bytes} are allowed.",
            "Give long text as `stdin`, for example to `tee FILE`.",
            size=size,
            max_command_bytes=MAX_COMMAND_BYTES,
        )
