"""Files whose content is not in the repository: pointers of Git LFS and git-annex, and submodules.

Such a file or folder must not be taken for its content, so the tools mark it with what it stands for.
"""

import posixpath
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urljoin

from rumi.platform.texts.operating import short_size
from rumi.platform.untrusted_text import one_line
from rumi.tasks.research.repository.git import Git

MODULE: Final = "160000"
MOST_MARKS: Final = 1_000
MOST_NAMED: Final = 10
MOST_ENTRIES: Final = 200_000

_VERSION: Final = r"version https://(?:git-lfs\.github|hawser\.github|git-media)\.com/spec/[\w.]+"
_LFS: Final = re.compile(rf"{_VERSION}\r?\n(?:[\w.-]+ .*\n)*?size (?P<size>\d{{1,19}})(?:\r?\n|\Z)")
_ANNEX: Final = re.compile(
    r"(?:(?:\.\./)*\.git|/)/?annex/objects/(?:[^\s/]+/)*[A-Z0-9]+(?:-s(?P<size>\d{1,19}))?\S*--\S+\s*"
)
_POINTER_BYTES: Final = (90, 2048)  # a pointer of Git LFS has at least its three lines; extensions add some
_BATCH: Final = re.compile(r"^([0-9a-f]{40,64}) blob \d+\n", re.MULTILINE)
_MOST_BYTES: Final = 4_000_000
_WORDS: Final = "git-lfs.github.com/spec/"
_POINTERS: Final = """\
cd "$root/tree" || exit
find . -type f -size -2049c -exec grep -lF "$1" {} + | head -n "$2" | head -c 1000000 | tr '\\n' '\\000' \\
  | xargs -0r grep -HE '^size [0-9]+[[:space:]]*$'
"""
# The entries are limited before they are searched: a small repository can have billions of them.
_MODULES: Final = """\
git ls-tree -r --format='%(objectmode) %(objectname) %(path)' "$1" ${3:+-- "$3"} | head -n "$4" \\
  | grep '^160000 ' | head -n "$2" | head -c 1000000
"""


def pointer(text: str) -> str:
    """Return what a text is if it is a pointer of Git LFS or git-annex; otherwise nothing."""
    for kind, form in (("Git LFS", _LFS), ("git-annex", _ANNEX)):
        if found := form.match(text):
            return f"a {kind} pointer: the file itself{_size(found['size'])} is not in the repository"
    return ""


def _size(digits: str | None) -> str:
    return f" ({short_size(int(digits))})" if digits else ""


class Placeholders:
    """The placeholders of a repository. `by_path` has those of the files that were written last."""

    def __init__(self, git: Git, address: str) -> None:
        self._git = git
        self._address = address
        self.by_path: Mapping[str, str] = {}

    def below(self, path: str) -> list[str]:
        """Return a line for each placeholder at or below a path."""
        inside = f"{path}/" if path else ""
        return [
            f"{one_line(name, 200)} is {mark}"
            for name, mark in self.by_path.items()
            if name == path or name.startswith(inside)
        ]

    async def find(self, commit: str) -> str:
        """Find the placeholders among the written files; return sentences about them.

        Raises:
            CloneError: Git or the search took too long.
            SandboxError: The sandbox does not work.
        """
        modules = await self.modules(commit)
        pointers = await self._pointers()
        self.by_path = {**pointers, **modules}
        said: list[str] = []
        kinds = (("files are Git LFS pointers", pointers), ("submodules are empty folders", modules))
        for word, found in kinds:
            if found:
                named = [f"{one_line(name, 200)} ({mark})" for name, mark in list(found.items())[:MOST_NAMED]]
                more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
                said.append(f"{len(found)} {word}: {'; '.join(named)}{more}.")
        return " ".join(said)

    async def _pointers(self) -> dict[str, str]:
        found: dict[str, str] = {}
        result = await self._git.script(
            _POINTERS, _WORDS, str(MOST_MARKS), reads=True, output_limit=_MOST_BYTES
        )
        for line in result.stdout.text().splitlines():
            name, _, size = line.rstrip().rpartition(":size ")
            if name and size.isdecimal() and len(size) < 20:
                mark = f"a Git LFS pointer: the file itself{_size(size)} is not in the repository"
                found[name.removeprefix("./")] = mark
        return dict(sorted(found.items()))

    async def modules(self, commit: str, path: str = "") -> dict[str, str]:
        """Return the submodules of a commit at or below a path: what each is, by its path."""
        result = await self._git.script(
            _MODULES,
            commit,
            str(MOST_MARKS),
            path,
            str(MOST_ENTRIES),
            reads=True,
            output_limit=_MOST_BYTES,
        )
        rows = [line.split(" ", 2) for line in result.stdout.text().splitlines() if line.count(" ") >= 2]
        if not rows:
            return {}
        addresses = await self._addresses(commit)
        found: dict[str, str] = {}
        for _, oid, name in rows:
            where = addresses.get(name) or "without an address"
            found[name] = (
                f"a submodule: its files are in another repository, {where}, at the commit {oid[:12]}"
            )
        return found

    async def _addresses(self, commit: str) -> dict[str, str]:
        """Return the addresses of submodules by their paths, from `.gitmodules`; relative ones resolved."""
        blob = f"--blob={commit}:.gitmodules"
        keys = await self._git.read(
            "config", blob, "--get-regexp", r"^submodule\..*\.(path|url)$", most=_MOST_BYTES
        )
        paths: dict[str, str] = {}
        urls: dict[str, str] = {}
        for line in keys.text.splitlines():
            key, _, value = line.partition(" ")
            name, _, kind = key.removeprefix("submodule.").rpartition(".")
            (paths if kind == "path" else urls)[name] = value
        return {
            posixpath.normpath(path): one_line(self._resolved(urls.get(name, "")), 200)
            for name, path in paths.items()
        }

    def _resolved(self, url: str) -> str:
        if url.startswith(("./", "../")) and self._address.startswith("https://"):
            return urljoin(f"{self._address}/", url)
        return url

    async def marks(self, entries: Mapping[str, tuple[str, str]]) -> dict[str, str]:
        """Return the marks of those files that are pointers. `entries` has object id and size by path."""
        least, most = _POINTER_BYTES
        small = {
            oid: path
            for path, (oid, size) in entries.items()
            if size.isdecimal() and least <= int(size) <= most
        }
        if not small:
            return {}
        asked = "".join(f"{oid}\n" for oid in small).encode()
        read = await self._git.read("cat-file", "--batch", stdin=asked, lines=200_000, most=_MOST_BYTES)
        parts = _BATCH.split(read.text)
        by_oid = dict(zip(parts[1::2], parts[2::2], strict=False))
        return {
            path: mark
            for path, (oid, _) in entries.items()
            if oid in small and (mark := pointer(by_oid.get(oid, "")))
        }
