"""A client for remote repositories, which uses git's protocol version 2 over https without running git.

Rumi splits the server's answers into lines and writes the pack to a file. Rumi never parses an object: git
does this in a sandbox without a network.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import trio

from rumi import __version__
from rumi.errors import FileError
from rumi.platform.spooled_file import SpooledFile
from rumi.platform.texts.operating import short_size
from rumi.platform.untrusted_text import one_line
from rumi.tasks.research.repository.errors import CloneError
from rumi.tasks.research.repository.pktlines import Mark, PktLines, line_bytes, not_git, unexpected
from rumi.tasks.research.repository.refs import BRANCH, TAG, Ref, Refs, is_oid, with_head
from rumi.texts import Text
from rumi.web.messages import Streamed, StreamFetcher

ObjectFormat: TypeAlias = Literal["sha1", "sha256"]

MOST_REFS: Final = 100_000
EVERYTHING: Final = 0x7FFFFFFF
"""The depth that means the whole history in git's protocol."""

_MOST_REF_BYTES: Final = 32 * 1024 * 1024
_MOST_SHALLOW: Final = 100_000
_MOST_CAPABILITIES: Final = 100
_SILENCE_S: Final = 60.0
_REFS_S: Final = 120.0
_PROGRESS_EVERY_S: Final = 2.0
_MOST_BLOB: Final = "5m"

_HEADERS: Final = (("User-Agent", f"git/2.0 (Rumi {__version__})"), ("Git-Protocol", "version=2"))
_BAD_REF: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.(?:lock)?(?:/|\Z)|/\Z|\A/|\A\.")
_ASKED_FOR: Final = (BRANCH, TAG)
_BODY_BYTES: Final = 512
_BODY_S: Final = 5.0
_DUMB: Final = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?\trefs/")


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A fetch request for the object ids in `want`. `shallow` lists the clone's boundary commits.

    `have` lists the clone's newest commits. If `depth` is None, the fetch gets the history down to these
    commits.
    """

    want: Sequence[str]
    have: Sequence[str] = ()
    shallow: Iterable[str] = ()
    depth: int | None = None
    small_files_only: bool = True


@dataclass(slots=True)
class Fetched:
    """The answer to a fetch, without the pack: the commits that became or ceased to be boundary commits.

    The parents of a boundary commit are not in the clone. `filtered` means that large files were left out.
    """

    shallow: set[str] = field(default_factory=set)
    unshallow: set[str] = field(default_factory=set)
    filtered: bool = False


class Remote:
    """A repository on a server, used by one task. A cancelled request leaves no connection open."""

    def __init__(self, streams: StreamFetcher, url: str) -> None:
        self._streams = streams
        self._url = url
        self._capabilities: dict[str, str] = {}
        self.format: ObjectFormat = "sha1"

    async def connect(self) -> None:
        """Request the server's capabilities.

        If the server redirects this request, all later requests use the new address.

        Raises:
            CloneError: The server is not a git server, or does not support version 2 of the protocol.
            FetchError: The server cannot be reached.
        """
        suffix = "/info/refs?service=git-upload-pack"
        with bounded(_REFS_S):
            async with self._streams.stream(
                f"{self._url}{suffix}", _HEADERS, most_bytes=_MOST_REF_BYTES
            ) as answer:
                await _check(answer, "application/x-git-upload-pack-advertisement")
                if not answer.url.endswith(suffix):
                    raise CloneError("The server redirects to something that is not a repository.")
                self._url = answer.url.removesuffix(suffix)
                await self._read_capabilities(PktLines(_impatient(answer)))
        wanted = self._capabilities.get("object-format", "sha1")
        if wanted not in ("sha1", "sha256"):
            raise not_git()
        self.format = "sha256" if wanted == "sha256" else "sha1"

    async def refs(self) -> Refs:
        """Return the branches and tags.

        Raises:
            CloneError: The answer is invalid, or has too many references or one with a forbidden name.
            FetchError: The server does not answer.
        """
        name, oid, found = await self._list(_ASKED_FOR)
        if not oid and not found:
            raise CloneError("The repository is empty.")
        return with_head(name, oid, found)

    async def other(self, name: str) -> Ref | None:
        """Return a reference that is neither a branch nor a tag, such as `refs/pull/7/head`; or None.

        Raises:
            CloneError: The answer is invalid.
            FetchError: The server does not answer.
        """
        if _BAD_REF.search(name):
            return None
        return (await self._list((name,)))[2].get(name)

    async def _list(self, prefixes: Sequence[str]) -> tuple[str, str, dict[str, Ref]]:
        """Return the name and the commit of HEAD, and the references that begin with one of the prefixes."""
        lines = ["peel\n", "symrefs\n", "ref-prefix HEAD\n", *(f"ref-prefix {p}\n" for p in prefixes)]
        if "unborn" in self._capabilities["ls-refs"].split():
            lines.insert(0, "unborn\n")
        found: dict[str, Ref] = {}
        head = head_oid = ""
        with bounded(_REFS_S):
            async with self._command("ls-refs", lines, _MOST_REF_BYTES) as answer:
                while (line := await answer.next()) is not Mark.FLUSH:
                    if isinstance(line, Mark):
                        raise unexpected(line)
                    if not _is_text(line):  # git allows any bytes in a name; no user can request such a name
                        continue
                    oid, name, words = self._ref(line)
                    if name == "HEAD":
                        head_oid = oid if is_oid(oid) else ""
                        head = words.get("symref-target", "")
                        continue
                    if not name.startswith(tuple(prefixes)):  # servers may ignore the prefixes
                        continue
                    if len(found) >= MOST_REFS:
                        raise CloneError(
                            "The repository has more than {most_refs} branches and tags.", most_refs=MOST_REFS
                        )
                    found[name] = Ref(name, oid, words.get("peeled", oid))
        return head, head_oid, found

    async def fetch(
        self,
        request: FetchRequest,
        spooled: SpooledFile,
        *,
        most_bytes: int,
        time_s: float,
        progress: Callable[[str], None],
    ) -> Fetched:
        """Write the pack with the requested objects to `spooled`.

        Raises:
            CloneError: The answer is invalid, the server refuses, or the pack is too large or too slow.
            FetchError: The server does not answer.
        """
        features = self._capabilities["fetch"].split()
        filtered = request.small_files_only and "filter" in features
        if (request.depth is not None or request.shallow) and "shallow" not in features:
            raise CloneError("The server gives no part of a history.", "Try again with --full.")
        lines = ["ofs-delta\n", "include-tag\n"]
        lines += [f"want {oid}\n" for oid in request.want]
        lines += [f"shallow {oid}\n" for oid in sorted(request.shallow)]
        if request.depth is not None:
            lines.append(f"deepen {request.depth}\n")
        if filtered:
            lines.append(f"filter blob:limit={_MOST_BLOB}\n")
        lines += [f"have {oid}\n" for oid in request.have]
        lines.append("done\n")
        fetched = Fetched(filtered=filtered)
        with bounded(time_s):
            async with self._command("fetch", lines, most_bytes + _MOST_REF_BYTES) as answer:
                await self._read_sections(answer, fetched)
                await _read_pack(answer, spooled, most_bytes, progress)
        return fetched

    @asynccontextmanager
    async def _command(self, name: str, lines: Sequence[str], most_bytes: int) -> AsyncIterator[PktLines]:
        head = [f"command={name}\n", f"agent=rumi/{__version__}\n"]
        if "object-format" in self._capabilities:
            head.append(f"object-format={self.format}\n")
        body = b"".join(map(line_bytes, head)) + b"0001" + b"".join(map(line_bytes, lines)) + b"0000"
        headers = [
            *_HEADERS,
            ("Content-Type", "application/x-git-upload-pack-request"),
            ("Accept", "application/x-git-upload-pack-result"),
        ]
        where = f"{self._url}/git-upload-pack"
        async with self._streams.stream(where, headers, most_bytes=most_bytes, body=body) as answer:
            await _check(answer, "application/x-git-upload-pack-result")
            yield PktLines(_impatient(answer))

    async def _read_capabilities(self, lines: PktLines) -> None:
        line = await lines.next()
        if isinstance(line, bytes) and line.startswith(b"# service="):
            if await lines.next() is not Mark.FLUSH:
                raise not_git()
            line = await lines.next()
        if isinstance(line, Mark):
            raise unexpected(line)
        _refuse_error(line)
        if line.rstrip(b"\n") != b"version 2":
            raise CloneError("The server does not speak version 2 of git's protocol, which Rumi needs.")
        while (line := await lines.next()) is not Mark.FLUSH:
            if isinstance(line, Mark):
                raise unexpected(line)
            _refuse_error(line)
            if len(self._capabilities) >= _MOST_CAPABILITIES:
                raise not_git()
            name, _, value = _text(line).partition("=")
            self._capabilities[name] = value
        if "fetch" not in self._capabilities or "ls-refs" not in self._capabilities:
            raise CloneError("The server does not speak version 2 of git's protocol, which Rumi needs.")

    def _ref(self, line: bytes) -> tuple[str, str, dict[str, str]]:
        _refuse_error(line)
        oid, _, rest = _text(line).partition(" ")
        name, *words = rest.split(" ")
        unborn = name == "HEAD" and oid == "unborn"
        if not unborn and (len(oid) != (64 if self.format == "sha256" else 40) or not is_oid(oid)):
            raise not_git()
        if name != "HEAD" and (
            not name.startswith("refs/") or _BAD_REF.search(name) or len(name.encode()) > 1000
        ):
            raise CloneError("The repository has a branch or tag with a name that git forbids.")
        more = dict(word.partition(":")[::2] for word in words)
        if "peeled" in more and not is_oid(more["peeled"]):
            raise not_git()
        return oid, name, more

    async def _read_sections(self, lines: PktLines, fetched: Fetched) -> None:
        """Read the sections that precede the pack in the answer."""
        while True:
            line = await lines.next()
            if isinstance(line, Mark):
                raise unexpected(line)
            _refuse_error(line)
            section = _text(line)
            if section == "packfile":
                return
            if section != "shallow-info":
                raise not_git()
            while (line := await lines.next()) is not Mark.DELIMITER:
                if isinstance(line, Mark):
                    raise unexpected(line)
                if len(fetched.shallow) + len(fetched.unshallow) > _MOST_SHALLOW:
                    raise not_git()
                _refuse_error(line)
                kind, _, oid = _text(line).partition(" ")
                if kind not in ("shallow", "unshallow") or not is_oid(oid):
                    raise not_git()
                (fetched.shallow if kind == "shallow" else fetched.unshallow).add(oid)


async def _read_pack(
    lines: PktLines, spooled: SpooledFile, most_bytes: int, progress: Callable[[str], None]
) -> None:
    """Write the pack from channel 1 of the side band to a file.

    Channel 2 contains progress messages, channel 3 an error message.
    """
    reported_at = trio.current_time()
    await spooled.reset()
    try:
        while (line := await lines.next()) is not Mark.FLUSH:
            if isinstance(line, Mark):
                raise unexpected(line)
            if not line:
                raise not_git()
            _refuse_error(line)
            if line[0] == 1:
                await spooled.write(line[1:])
                if spooled.size > most_bytes:
                    most = short_size(most_bytes)
                    raise CloneError(
                        "The server sends more than the {most} that the repository may take.", most=most
                    )
            elif line[0] == 3:
                words = one_line(line[1:].decode("utf-8", "replace"), 200).strip()
                raise CloneError(
                    "The server broke off: it could not make the pack. It says: {words}",
                    "Try again later.",
                    words=words or "(nothing)",
                )
            elif line[0] != 2:
                raise not_git()
            if trio.current_time() - reported_at >= _PROGRESS_EVERY_S:
                reported_at = trio.current_time()
                progress(Text("received {size} of the repository", size=short_size(spooled.size)))
        await spooled.flush()
    except FileError as error:
        raise CloneError(error.message, error.advice) from error


def _impatient(answer: Streamed) -> Callable[[], Awaitable[bytes]]:
    """Return a function that reads the answer and raises `CloneError` after `_SILENCE_S` without data."""

    async def more() -> bytes:
        with trio.move_on_after(_SILENCE_S):
            return await answer.more()
        raise CloneError(
            "The server sent nothing for {silence_s} s.", "Try again later.", silence_s=f"{_SILENCE_S:g}"
        )

    return more


@contextmanager
def bounded(time_s: float) -> Iterator[None]:
    """Limit the time of a block in seconds, however many bytes the server sends in it.

    Raises:
        CloneError: The time is over.
    """
    with trio.move_on_after(time_s) as scope:
        yield
    if scope.cancelled_caught:
        raise CloneError(
            "The repository did not come within {time_s} s.", "Try again later.", time_s=f"{time_s:g}"
        )


async def _check(answer: Streamed, media_type: str) -> None:
    """Raise `CloneError` if the answer is not the one of a git server."""
    if (why := _NO_ACCESS.get(answer.status)) is not None:
        raise CloneError(
            "There is no public repository at this address (HTTP {status}): {why}.",
            "Check its spelling. Rumi reads only repositories that everybody can read.",
            status=answer.status,
            why=why,
        )
    if answer.status != 200:
        raise CloneError(
            "The server does not give the repository (HTTP {status}).",
            "Try again later.",
            status=answer.status,
        )
    if answer.media_type == media_type:
        return
    begins = b""
    with trio.move_on_after(_BODY_S):  # its beginning only helps to say what it is
        while len(begins) < _BODY_BYTES and (piece := await answer.more()):
            begins += piece
    if _DUMB.match(begins):
        raise not_git(Text("it offers the repository only as files, and Rumi does not read those"))
    if "html" in answer.media_type or begins.lstrip()[:1] == b"<":
        raise not_git(Text("it sends a web page"))
    raise not_git()


_NO_ACCESS: Final = {
    401: Text("the server asks for a login"),
    403: Text("the server forbids it"),
    404: Text("nothing is there"),
    407: Text("a proxy asks for a login"),
    410: Text("nothing is there any more"),
}


def _text(line: bytes) -> str:
    try:
        return line.removesuffix(b"\n").decode()
    except UnicodeDecodeError:
        raise not_git() from None


def _is_text(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _refuse_error(line: bytes) -> None:
    if line.startswith(b"ERR "):
        words = one_line(line[4:].decode("utf-8", "replace"), 200)
        raise CloneError("The server refuses: {words}", words=words)
