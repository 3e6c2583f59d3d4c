"""The program's static files: scripts, styles and pictures, in folders of any depth.

The page names its files below a folder whose name is the version of all of them. Browsers keep these files
without asking again, also those that scripts import from each other by relative paths. Other names, and the
folders of other versions, lead to the same files, which browsers then ask about before each use.
"""

import gzip
import hashlib
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response

TYPES: Final = {
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
    "png": "image/png",
    "webmanifest": "application/manifest+json",
}
"""Media types by suffix. Files of other types, such as the HTML templates, are not served as they are."""

REVALIDATE: Final = (b"cache-control", b"no-cache")
"""Header of what a browser may keep, and must ask about before each use. These files hold nobody's data."""


KEPT: Final = (b"cache-control", b"max-age=31536000, immutable")
"""Header of what a browser may keep and use without asking: another version has another address."""

PACKED: Final = frozenset({"text/css", "text/javascript", "image/svg+xml"})
"""Media types of the files that are sent compressed. They are the same for all users and hold no secret."""

_VERSION: Final = re.compile(r"v-[0-9a-f]{12}")

_IMPORT: Final = re.compile(
    r"""^(?:import|export)\s(?:[^"'();=]*\sfrom\s+)?["'](\.[^"']+)["']""", re.MULTILINE
)
"""A static import of a module by its relative path. Comments and dynamic imports do not match."""

_MODULE: Final = re.compile(r'<script type="module" src="/static/([^"]+)"></script>')


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file, the tag (`ETag`) of its content, and its content compressed; empty if that saves nothing."""

    content: bytes
    kind: str
    tag: str
    packed: bytes = b""

    def answer(self, headers: Headers, *, kept: bool = False) -> Response:
        """Return the file, or status 304 without a body if the browser has this content already.

        `kept` lets the browser use the file without asking again.
        """
        packed = self.packed and packs(headers)
        ours = {
            "etag": f"W/{self.tag}" if packed else self.tag,
            "cache-control": (KEPT if kept else REVALIDATE)[1].decode(),
        }
        if self.packed:
            ours["vary"] = "accept-encoding"
        asked = ",".join(headers.getlist("if-none-match"))
        if any(tag.strip().removeprefix("W/") in (self.tag, "*") for tag in asked.split(",")):
            return Response(status_code=304, headers=ours)
        if packed:
            return Response(self.packed, media_type=self.kind, headers=ours | {"content-encoding": "gzip"})
        return Response(self.content, media_type=self.kind, headers=ours)


class StaticFiles:
    """All files below `root` that have one of the `TYPES`. `version` changes with the content of any."""

    def __init__(self, root: Traversable) -> None:
        self.files = read_static(root)
        whole = "".join(f"{path} {file.tag}\n" for path, file in sorted(self.files.items()))
        self.version = f"v-{hashlib.sha256(whole.encode()).hexdigest()[:12]}"

    def answer(self, path: str, headers: Headers) -> Response | None:
        """Return the file at a path below `/static/`; None if there is none."""
        version, _, rest = path.partition("/")
        found = self.files.get(rest if _VERSION.fullmatch(version) else path)
        return None if found is None else found.answer(headers, kept=version == self.version)

    def named(self, html: str) -> str:
        """Return HTML whose static files are named by their version.

        What its modules import is requested together with them. Otherwise a browser would request a module
        only after it has read the module that imports it, one round trip after the other.
        """
        return _MODULE.sub(self._with_imports, html).replace('="/static/', f'="/static/{self.version}/')

    def _with_imports(self, script: re.Match[str]) -> str:
        links = (f'<link rel="modulepreload" href="/static/{path}">\n' for path in self.imports(script[1]))
        return "".join(links) + script[0]

    def imports(self, path: str) -> list[str]:
        """Return the modules that a module imports statically, and those that these import, nearest first."""
        found = {path: None}
        for module in (waiting := [path]):
            for imported in self._imported(module):
                if imported not in found:
                    found[imported] = None
                    waiting.append(imported)
        return list(found)[1:]

    def _imported(self, path: str) -> Iterator[str]:
        for relative in _IMPORT.findall(self.files[path].content.decode()):
            imported = posixpath.normpath(posixpath.join(posixpath.dirname(path), relative))
            if imported in self.files:
                yield imported


def packs(headers: Headers) -> bool:
    """Return True if a request takes an answer that is compressed with gzip."""
    found = re.search(r"\bgzip\b\s*(;\s*q=0(\.0*)?(?![.\d]))?", headers.get("accept-encoding", ""))
    return found is not None and not found[1]


def read_static(root: Traversable) -> Mapping[str, StaticFile]:
    """Read all files below `root` that have one of the `TYPES`, by their path relative to `root`.

    Requests look their path up in this mapping, so no path can lead out of `root`.
    """
    found: dict[str, StaticFile] = {}
    _collect(root, "", found)
    return found


def _collect(folder: Traversable, prefix: str, found: dict[str, StaticFile]) -> None:
    for child in folder.iterdir():
        path = f"{prefix}{child.name}"
        if child.is_dir():
            _collect(child, f"{path}/", found)
        elif (kind := TYPES.get(child.name.rpartition(".")[2])) is not None:
            content = child.read_bytes()
            packed = gzip.compress(content, mtime=0) if kind in PACKED else b""
            tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found[path] = StaticFile(content, kind, tag, packed if len(packed) < len(content) else b"")
