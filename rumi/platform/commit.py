"""The git commit of this program, for `rumi --version`, status, doctor and bug reports.

A package has it in a file that the build writes. In a clone it is read from git's files; git itself is
never run. Only `os` is imported, because `rumi --version` imports this module.
"""

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

PACKED: "Final" = "COMMIT"
"""The file beside this module that has the commit in a built package: deploy/build_hook.py writes it."""

_HEAD_BYTES: "Final" = 4096
_PACKED_REFS_BYTES: "Final" = 16_000_000
_DIGITS: "Final" = frozenset("0123456789abcdef")


def version(number: str, commit: str) -> str:
    """Return how a version is shown: its number and, if it is known, the commit in seven digits."""
    return f"{number} (commit {commit[:7]})" if commit else number


def own_commit() -> str:
    """Return this program's commit in hexadecimal digits; empty if it is not known."""
    folder = os.path.dirname(os.path.abspath(__file__))
    return _hash(_read(os.path.join(folder, PACKED))) or commit_of(os.path.dirname(os.path.dirname(folder)))


def commit_of(root: str) -> str:
    """Return the commit that the clone or work tree `root` has checked out; empty if it is not known.

    Files that are larger than git's, or not regular files, count as missing.
    """
    git = os.path.join(root, ".git")
    link = _read(git)  # a work tree has a file that names its folder
    if link.startswith("gitdir: "):
        git = os.path.join(root, link.removeprefix("gitdir: "))
    shared = os.path.join(git, _read(os.path.join(git, "commondir")) or ".")
    head = _read(os.path.join(git, "HEAD"))
    if not head.startswith("ref: "):
        return _hash(head)
    name = head.removeprefix("ref: ")
    if not name.startswith("refs/") or ".." in name:
        return ""
    return _hash(_read(os.path.join(shared, name))) or _in_packed_refs(shared, name)


def _in_packed_refs(folder: str, name: str) -> str:
    for line in _read(os.path.join(folder, "packed-refs"), _PACKED_REFS_BYTES).splitlines():
        if line.endswith(f" {name}"):
            return _hash(line.removesuffix(f" {name}"))
    return ""


def _hash(text: str) -> str:
    """Return the text if it is an object name of git (SHA-1 or SHA-256), and otherwise an empty text."""
    return text if len(text) in (40, 64) and _DIGITS.issuperset(text) else ""


def _read(path: str, most: int = _HEAD_BYTES) -> str:
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    try:
        about = os.fstat(opened)
        if not stat.S_ISREG(about.st_mode) or about.st_size > most:
            return ""
        return os.read(opened, most).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    finally:
        os.close(opened)
