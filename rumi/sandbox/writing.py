"""Decides which commands leave nothing behind, by their program alone."""

from collections.abc import Sequence
from typing import Final

READERS: Final = frozenset(
    (
        *("ls", "cat", "head", "tail", "which", "stat", "du", "df", "grep", "egrep", "fgrep", "cut", "wc"),
        *("tr", "diff", "comm", "join", "paste", "echo", "printf", "yes", "base64", "md5sum", "sha256sum"),
        *("pwd", "basename", "dirname", "realpath", "date", "cal", "expr", "seq", "sleep", "true", "false"),
        *("test", "[", "printenv", "id", "whoami", "zcat"),
    )
)
"""Programs that cannot write a file, with any arguments. Others can: `sort -o`, `sed w`, `find -fprint`,
`awk >`, `uniq IN OUT`, `less -o`; and `env` and `sh` run any program.
"""


def may_write(argv: Sequence[str]) -> bool:
    """Return True if a command that the policy allowed may change a file."""
    return not argv or argv[0] not in READERS
