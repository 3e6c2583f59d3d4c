"""Which commands leave nothing behind, judged by their program alone."""

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
"""Programs that have no way to write a file, whatever their arguments. Others may: `sort -o`, `sed w`,
`find -fprint`, `awk >`, `uniq IN OUT`, `less -o`; and `env` and `sh` run any other."""


def may_write(argv: Sequence[str]) -> bool:
    """Whether a command that the policy let through may change a file."""
    return not argv or argv[0] not in READERS
