"""The repository of a research task.

The repository is cloned into the workspace. If a tool needs more history, the program fetches it.
"""

import logging
import os
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

import trio

from rumi.agent.tools.bash import CommandShell
from rumi.platform.openat import opened
from rumi.platform.spooled_file import SpooledFile, check_cancelled
from rumi.platform.threads import Threads
from rumi.platform.untrusted_text import one_line, untrusted_block
from rumi.sandbox.engine import SandboxLimits
from rumi.sandbox.incoming import put_file
from rumi.sandbox.workspace import WorkspaceError, open_beneath
from rumi.tasks.research.repository.address import RepositoryAddress, parse_address
from rumi.tasks.research.repository.cache import CloneState, RepositoryCache
from rumi.tasks.research.repository.checkout import written
from rumi.tasks.research.repository.errors import CloneError
from rumi.tasks.research.repository.git import Git
from rumi.tasks.research.repository.local import LocalRepository
from rumi.tasks.research.repository.placeholders import Placeholders
from rumi.tasks.research.repository.refs import BRANCH, TAG, Ref, Refs, by_number, is_oid, with_head
from rumi.tasks.research.repository.remote import EVERYTHING, FetchRequest, Remote, bounded
from rumi.texts import Text
from rumi.web.messages import FetchError, StreamFetcher

log = logging.getLogger("rumi.tasks.research")


@dataclass(frozen=True, slots=True)
class CloneLimits:
    """Limits on a clone: total bytes of all packs, files in a commit, and seconds per fetch."""

    most_bytes: int = 500_000_000
    most_files: int = 100_000
    time_s: float = 600.0


FULL: Final = CloneLimits(most_bytes=2_000_000_000, time_s=1800.0)
"""The limits of a clone with the whole history."""

DEPTHS: Final = (300, 5_000, EVERYTHING)
"""Depths of a shallow clone. When a tool needs more history, the clone is deepened to the next depth."""

_TAGS: Final = 30
_BRANCHES: Final = 30
_OTHER: Final = re.compile(r"refs/.+|(?:pull|merge-requests|changes|pull-requests)/.+")
"""Names of references that are neither branches nor tags; servers list them only when asked."""

_REVISION: Final = re.compile(r"[^\s\x00-\x20\x7f:?*\[\]\\{}^~-][^\s\x00-\x20\x7f:?*\[\]\\{}]{0,200}")
_IN_HISTORY: Final = re.compile(r"[0-9a-f]{4,64}|.*[~^].*")
"""Pattern of revisions that a deeper history may contain: abbreviated commit ids and ancestors of commits."""

_EMPTY_PACK_BYTES: Final = 44
_MOST_PEELED: Final = 8_000_000

# Attributes in the repository could hide differences, rewrite files or name programs; these override them.
_ATTRIBUTES: Final = (
    "* -text -ident !eol -filter -working-tree-encoding !diff !merge !export-subst !export-ignore !whitespace"
)
_INIT: Final = f"""\
cd "$root" && rm -rf repo.git tree tree.new .tree-index pack-* incoming* || exit
git init --quiet --bare --template= --object-format="$1" repo.git || exit
mkdir -p repo.git/info && printf '%s\\n' '{_ATTRIBUTES}' >repo.git/info/attributes
"""
_INDEX: Final = """\
cd "$root" || exit
hash=$(git index-pack "$1") || exit
for kind in pack idx rev; do
  [ ! -e "${1%.pack}.$kind" ] || mv -f "${1%.pack}.$kind" "repo.git/objects/pack/pack-$hash.$kind" || exit
done
echo "$hash"
"""
_MOVE_INTO_PLACE: Final = """\
cd "$root" || exit
while [ $# -gt 0 ]; do mv -f "$1" "repo.git/objects/pack/$2" || exit; shift 2; done
"""
_UNPACK: Final = 'cd "$root/repo.git" && tar -xf - --no-same-owner && rm -f objects/info/alternates\n'
_SHALLOW: Final = 'cd "$root/repo.git" && if [ "$1" = 0 ]; then rm -f shallow; else cat >shallow; fi\n'
_REFS: Final = "git update-ref --no-deref --stdin\n"
_RESOLVE: Final = 'git rev-parse --quiet --verify --end-of-options "$1"\n'


class Repository:
    """A bare repository in a task's workspace, created by `open_repository`.

    Its `HEAD` is the commit that the task asks about.
    """

    def __init__(
        self,
        address: RepositoryAddress,
        git: Git,
        workspace: Path,
        cache: RepositoryCache | None,
        sandbox_limits: SandboxLimits,
        limits: CloneLimits,
        progress: Callable[[str], None],
        *,
        full: bool,
    ) -> None:
        self.address = address
        self.git = git
        self.limits = limits
        self.full = full
        self.refs = Refs("", "", {})
        self.tree = ""
        self.head = ""
        self.cut_because = ""
        self.placeholders = Placeholders(git, address.text)
        self._asked_for = ""
        self._workspace = workspace
        self._cache = cache
        self._sandbox_limits = sandbox_limits
        self._progress = progress
        self._remote: Remote | None = None
        self._format = "sha1"
        self._tips: dict[str, str] = {}
        self._have: set[str] = set()
        self._depth: int | None = None
        self._shallow: set[str] = set()
        self._filtered = False
        self._packs: dict[str, int] = {}
        self._stuck = False
        self._has_tree = False
        self._written = "HEAD"
        self._changing = trio.Lock()
        self._offload = Threads()

    # Content

    @property
    def boundary(self) -> frozenset[str]:
        """The boundary commits of the shallow clone: the commits whose parents are not in the clone."""
        return frozenset(self._shallow)

    @property
    def filtered(self) -> bool:
        """Return True if files over 5 MB were left out of the clone."""
        return self._filtered

    async def check_out(self, revision: str) -> str:
        """Write a revision's files below /workspace/tree; return a sentence about the written files.

        If git fails or a limit is exceeded, the files written earlier stay, and the sentence gives the
        reason.
        """
        commit = await self.resolve(revision)
        async with self._changing:
            self._progress(Text("writing the files of the repository"))
            self.tree = await written(self.git, commit, self.limits.most_files)
            self._written = commit
            self.tree = " ".join(filter(None, (self.tree, await self.placeholders.find(commit))))
        return self.tree

    def facts(self) -> str:
        """Return a description of the repository for the prompt."""
        refs = self.refs
        tags = [name.removeprefix(TAG) for name in refs.by_name if name.startswith(TAG)]
        branches = [name.removeprefix(BRANCH) for name in refs.by_name if name.startswith(BRANCH)]
        newest = _some(sorted(tags, key=by_number, reverse=True), _TAGS)
        default = "" if refs.dangling else one_line(refs.head.removeprefix(BRANCH), 200)
        theirs = [
            f"HEAD, which the question is about: {self.head}",
            f"Default branch: {default or 'none'}",
            f"Branches: {len(branches)}. Tags: {len(tags)}{': ' if tags else ''}{newest}",
            self.tree,
        ]
        if refs.dangling:
            theirs.insert(1, f"{self._dangling()} Branches: {_some(branches, _BRANCHES) or 'none'}.")
        if meaning := refs.meaning(self._asked_for):
            theirs.insert(1, one_line(meaning, 500))
        ours = [f"The repository {self.address.text} is cloned."]
        if self._shallow:
            ours.append(
                "The clone is shallow: older history is fetched when a tool needs it. A result says so where "
                "the history is cut."
            )
        if self._filtered:
            ours.append("Files over 5 MB are left out of the clone.")
        return "\n".join((*ours, untrusted_block(self.address.text, "\n".join(theirs))))

    def meaning(self, text: str) -> str:
        """Return a sentence on a revision, or a range of two, whose name could mean several; else nothing."""
        names = [re.split(r"[~^]", part, maxsplit=1)[0] for part in re.split(r"\.{2,3}", text)]
        return " ".join(filter(None, map(self.refs.meaning, dict.fromkeys(names))))

    def _dangling(self) -> Text:
        named, taken = (one_line(name, 200) for name in (self.refs.dangling, self.refs.head))
        if named == "HEAD":
            return Text("HEAD names no branch, so {taken} is used unless you name another one.", taken=taken)
        return Text(
            "HEAD names {named}, which does not exist, so {taken} is used unless you name another one.",
            named=named,
            taken=taken,
        )

    async def commit(self, text: str) -> str | None:
        """Return the full id of the commit that a revision names; None if it is not in the clone."""
        if not _REVISION.fullmatch(text):
            return None
        # A name means the same whatever the clone has: git alone would take the branch of a name while the
        # tag of that name is not fetched.
        base = re.split(r"[~^]", text, maxsplit=1)[0]
        ref = None if base == "HEAD" or is_oid(base) else self.refs.find(base)
        full = ref.name + text.removeprefix(base) if ref is not None else text
        return await self._resolved(f"{full}^{{commit}}")

    async def exists(self, path: str, line: int = 1, rev: str = "") -> bool:
        """Return True if a file has a line at the revision `rev`.

        Without `rev`, checks HEAD and the commit whose files were written to the workspace. Fetches nothing
        from the remote.
        """
        path = self.inside(path).strip("/")
        commits = {await self.commit(name) for name in ((rev,) if rev else ("HEAD", self._written))}
        if not path or "\0" in path or line < 1:
            return False
        for commit in commits - {None}:
            read = await self.git.read("cat-file", "blob", f"{commit}:{path}", first=line, lines=1, most=64)
            if read.ok and read.text:
                return True
        return False

    def marks(self, path: str) -> list[str]:
        """Return a line for each file or folder at or below a workspace path that is only a placeholder."""
        if path == "":
            return self.placeholders.below("")
        return (
            self.placeholders.below(path.removeprefix("tree").strip("/")) if path.startswith("tree") else []
        )

    def inside(self, path: str) -> str:
        """Convert a workspace path below `tree/` to a repository path; return other paths unchanged."""
        if path.startswith("/workspace/tree/"):
            return path.removeprefix("/workspace/tree/")
        return path if self._has_tree else path.removeprefix("tree/")

    async def resolve(self, text: str) -> str:
        """Return the full id of the commit that a revision names; fetch the commit if only the remote has it.

        Raises:
            CloneError: The commit does not exist, or cannot be fetched.
        """
        if not _REVISION.fullmatch(text):
            raise CloneError(
                "{text} is not a revision.",
                "Give a commit, a branch, a tag, or HEAD~3.",
                text=one_line(text, 100),
            )
        base = re.split(r"[~^]", text, maxsplit=1)[0]
        while (commit := await self.commit(text)) is None:
            if not await self._fetch_named(base) and not (
                _IN_HISTORY.fullmatch(text) and await self.deepen()
            ):
                raise CloneError("There is no commit {text} in this repository.", self.cut_because, text=text)
        return commit

    async def deepen(self) -> bool:
        """Fetch more of the history; return False if the history is complete or no more can be fetched."""
        # Calls of several tools may wait for the lock. `_fetch` replaces the set, so a call that got the lock
        # second sees that the clone is deeper now, and does not fetch again.
        before = self._shallow
        async with self._changing:
            if not self._shallow:
                return False
            if self._shallow is not before:  # another call has deepened the clone meanwhile
                return True
            depth = next((deeper for deeper in DEPTHS if deeper > (self._depth or 1)), None)
            if self._remote is None or self._stuck or depth is None:
                self.cut_because = self.cut_because or Text("The original of this clone is cut there.")
                return False
            self._progress(Text("fetching more of the history"))
            try:
                await self._fetch(self._tips, depth)
            except (CloneError, FetchError) as error:
                self._stuck = True
                self.cut_because = Text(
                    "More of the history could not be fetched: {message}", message=error.message
                )
                return False
            return True

    # Cloning and fetching

    async def clone(self, streams: StreamFetcher, ref: str) -> None:
        """Fill the repository from the cache, then fetch the missing objects from the remote."""
        self._progress(Text("asking the server for {text}", text=self.address.text))
        self._remote = remote = Remote(streams, self.address.text)
        until = trio.current_time() + self.limits.time_s
        with bounded(self.limits.time_s):
            await remote.connect()
            self.refs = await remote.refs()
            await self._learn(ref)
        found = self.refs.by_name
        self._format = remote.format
        await self._init()
        await self._take_from_cache()
        named = self._named(ref)
        # Cached tips that the remote has moved or deleted since are dropped.
        tips = {n: oid for n, oid in self._tips.items() if n in found and found[n].oid == oid}
        tips[named.name] = named.oid
        if self.full:
            tips |= {tip.name: tip.oid for tip in found.values()}
        if not set(tips.values()) <= self._have:
            await self._fetch(tips, None if self.full else self._depth or 1, until - trio.current_time())
        else:
            await self._update(tips)
        await self._look_at(named.oid)

    async def _learn(self, name: str) -> None:
        """Ask the server for a reference that is neither a branch nor a tag, such as `pull/7/head`."""
        if self._remote is None or not _OTHER.fullmatch(name) or not _REVISION.fullmatch(name):
            return
        if self.refs.find(name) is None:
            ref = await self._remote.other(name if name.startswith("refs/") else f"refs/{name}")
            if ref is not None:
                self.refs.by_name[ref.name] = ref

    async def copy(self, folder: Path, ref: str) -> None:
        """Copy a local repository."""
        local = LocalRepository(folder)
        self._progress(Text("reading the folder {text}", text=self.address.text))
        self.refs, shallow, self._format = await self._offload(local.refs)
        await self._init()
        packs = local.packs(self.limits.most_bytes)
        while (pack := await self._offload(partial(next, packs, None))) is not None:
            await self._index(pack)
        loose = local.loose(self.limits.most_bytes)
        while (batch := await self._offload(partial(next, loose, None))) is not None:
            await self._must(_UNPACK, stdin=batch)
        await self._set_shallow(shallow)
        await self._peel()
        await self._update({tip.name: tip.oid for tip in self.refs.by_name.values()})
        named = self._named(ref)
        await self._look_at(named.oid)

    async def _peel(self) -> None:
        """Find the commits of annotated tags; leave out the references whose objects are not there."""
        oids = sorted({ref.oid for ref in self.refs.by_name.values()})
        asked = "".join(f"{oid}^{{}}\n" for oid in oids).encode()
        words = ("cat-file", "--batch-check=%(objectname)", "--buffer")
        peeled = await self.git.read(*words, stdin=asked, lines=len(oids), most=_MOST_PEELED)
        commits = dict(zip(oids, peeled.text.split("\n"), strict=False))
        whole = {
            name: replace(ref, commit=commits[ref.oid])
            for name, ref in self.refs.by_name.items()
            if is_oid(commits.get(ref.oid, ""))
        }
        if missing := self.refs.by_name.keys() - whole.keys():
            self._progress(
                Text(
                    "left out, because their objects are not there: {names}", names=_some(sorted(missing), 10)
                )
            )
        name = self.refs.dangling or self.refs.head
        self.refs = with_head(name, "" if self.refs.dangling else self.refs.head_oid, whole)

    def _named(self, ref: str) -> Ref:
        """Return the branch, the tag or the commit that the task asks about.

        Raises:
            CloneError: The remote has no reference of this name.
        """
        self._asked_for = ref
        if not ref and self.refs.dangling:
            self._progress(self._dangling())
        if ref and not _REVISION.fullmatch(ref):
            raise CloneError("{ref} is not a branch, a tag or a commit.", ref=one_line(ref, 100))
        found = self.refs.find(ref)
        if found is not None:
            return found
        if is_oid(ref):
            return Ref(ref, ref, ref)
        raise CloneError(
            "The repository has no branch or tag {ref}.",
            "Give a branch, a tag, or the full name of a commit.",
            ref=ref or "HEAD",
        )

    async def _fetch_named(self, name: str) -> bool:
        """Fetch a branch, a tag or a full commit id. Return False if there is nothing to fetch."""
        if self._remote is None or name == "HEAD":
            return False
        try:
            await self._learn(name)
        except FetchError as error:
            raise CloneError(error.message, error.advice) from error
        ref = None if is_oid(name) else self.refs.find(name)
        if ref is None and is_oid(name):
            ref = Ref(name, name, name)
        async with self._changing:
            if ref is None or ref.name in self._tips:
                return False
            tips = {**self._tips, ref.name: ref.oid}
            if ref.oid in self._have:
                await self._update(tips)
                return True
            self._progress(Text("fetching {name} of the repository", name=name))
            try:
                await self._fetch(tips, self._depth)
            except FetchError as error:
                raise CloneError(error.message, error.advice) from error
            return True

    async def _fetch(self, tips: dict[str, str], depth: int | None, time_s: float | None = None) -> None:
        """Fetch the commits `tips`, and update the references of the repository to these tips.

        The fetch may take `time_s` seconds, or what the limits allow.

        Raises:
            CloneError: See `Remote.fetch`; or git refuses the pack, or the workspace is full.
            FetchError: The server does not answer.
        """
        assert self._remote is not None
        request = FetchRequest(
            sorted(set(tips.values())),
            sorted(self._have),
            self._shallow,
            depth,
            small_files_only=not self.full,
        )
        left = max(0, self.limits.most_bytes - sum(self._packs.values()))
        with SpooledFile(self._workspace.parent, self._offload) as spooled:
            fetched = await self._remote.fetch(
                request,
                spooled,
                most_bytes=left,
                time_s=self.limits.time_s if time_s is None else time_s,
                progress=self._progress,
            )
            if spooled.size > _EMPTY_PACK_BYTES:
                self._progress(Text("reading the received pack"))
                await self._index(spooled.file)
        # The pack comes first: boundary commits and references may only name objects that are there.
        self._filtered = self._filtered or fetched.filtered
        await self._set_shallow((self._shallow | fetched.shallow) - fetched.unshallow)
        await self._update(tips)
        self._depth = depth
        await self._store()

    async def _init(self) -> None:
        await self._must(_INIT, self._format)

    async def _take_from_cache(self) -> None:
        if self._cache is None:
            return
        with ExitStack() as stack:
            stored = await self._offload(lambda: stack.enter_context(self._cache.stored(self._key)))  # type: ignore[union-attr]
            if stored is None or stored.known.format != self._format:
                return
            self._progress(Text("using the stored copy of the repository"))
            words = list[str]()
            for name, file in stored.files.items():
                words += [await self._put(name, file), name]
                if name.endswith(".pack"):
                    self._packs[name] = os.fstat(file.fileno()).st_size
            await self._must(_MOVE_INTO_PLACE, *words)
        self._filtered = stored.known.filtered
        await self._set_shallow(set(stored.known.shallow))
        self._depth = stored.known.depth
        await self._update(dict(stored.known.refs))

    @property
    def _key(self) -> str:
        return f"{self.address.text}{' full' if self.full else ''}"

    async def _store(self) -> None:
        """Store the packs in the cache for later tasks. A failure is only logged."""
        if self._cache is None:
            return
        known = CloneState(self._format, self._tips, self._shallow, self._depth, self._filtered)
        with ExitStack() as stack:
            try:
                files = dict[str, int]()
                for pack in self._packs:
                    for name in (pack, pack.replace(".pack", ".idx"), pack.replace(".pack", ".rev")):
                        try:
                            file = open_beneath(self._workspace, f"repo.git/objects/pack/{name}")
                        except WorkspaceError:
                            if name.endswith(".rev"):  # older versions of git do not write it
                                continue
                            raise
                        files[name] = stack.enter_context(opened(file))
                await self._offload(partial(self._cache.store, self._key, known, files))
            except (OSError, WorkspaceError) as error:
                log.warning("a repository could not be stored: %s", error)

    async def _index(self, pack: BinaryIO) -> None:
        """Put a pack into the workspace, and have git index it in the sandbox.

        Raises:
            CloneError: The pack is invalid.
        """
        name = await self._put("incoming.pack", pack)
        size = os.fstat(pack.fileno()).st_size
        found = ""
        try:
            result = await self.git.script(_INDEX, name)
            found = result.stdout.text().strip() if result.exit_code == 0 else ""
        finally:
            if not found:
                # Shielded, so that a cancellation does not leave the pack; a command in the sandbox always
                # ends within its time limit.
                with trio.CancelScope(shield=True):
                    await self.git.remove(*(name.replace(".pack", end) for end in (".pack", ".idx", ".rev")))
        if not is_oid(found):
            raise CloneError("What the server sent is not a valid pack of git.", "Try again later.")
        self._packs[f"pack-{found}.pack"] = size

    async def _put(self, name: str, source: BinaryIO) -> str:
        owner = self._workspace.stat()
        put = partial(
            put_file,
            self._workspace,
            name,
            source,
            user=(owner.st_uid, owner.st_gid),
            limits=self._sandbox_limits,
            max_bytes=self.limits.most_bytes,
            checkpoint=check_cancelled,
        )
        try:
            return await self._offload(put)
        except WorkspaceError as error:  # its advice only fits the workspaces of people
            raise CloneError(error.message) from error

    async def _set_shallow(self, shallow: set[str]) -> None:
        lines = "".join(f"{oid}\n" for oid in sorted(shallow))
        await self._must(_SHALLOW, str(len(shallow)), stdin=lines.encode())
        self._shallow = shallow

    async def _update(self, tips: dict[str, str]) -> None:
        """Update the repository's references to the tips.

        A tip that is a plain commit id gets no reference.
        """
        lines = [f"delete {name}\n" for name in self._tips.keys() - tips.keys() if name.startswith("refs/")]
        lines += [f"update {name} {oid}\n" for name, oid in tips.items() if name.startswith("refs/")]
        if lines:
            await self._must(_REFS, stdin="".join(lines).encode())
        self._tips = dict(tips)
        self._have |= set(tips.values())

    async def _look_at(self, oid: str) -> None:
        commit = await self._resolved(f"{oid}^{{commit}}")
        if commit is None:
            raise CloneError("This reference is not a commit.")
        await self._must(_REFS, stdin=f"update HEAD {commit}\n".encode())
        about = await self.git.read("show", "--no-patch", "--format=%H of %cs: %s", commit)
        self.head = one_line(about.text, 300)
        self._has_tree = await self._resolved(f"{commit}:tree") is not None

    async def _resolved(self, revision: str) -> str | None:
        result = await self.git.script(_RESOLVE, revision, reads=True)
        found = result.stdout.text().strip()
        return found if not result.exit_code and is_oid(found) else None

    async def _must(self, script: str, *words: str, stdin: bytes = b"") -> None:
        result = await self.git.script(script, *words, stdin=stdin)
        if result.exit_code:
            log.warning("git failed on %s: %s", self.address.text, result.stderr.text()[-500:])
            raise CloneError(
                "Git refuses what this repository has.", "Its references or objects are damaged."
            )


def _some(names: Sequence[str], most: int) -> str:
    """Return the first names as a text, and the number of the others."""
    more = [f"and {len(names) - most} more"] if len(names) > most else []
    return ", ".join([*(one_line(name, 100) for name in names[:most]), *more])


@asynccontextmanager
async def open_repository(
    uri: str,
    *,
    ref: str = "",
    full: bool = False,
    shell: CommandShell,
    workspace: Path,
    cache: RepositoryCache | None,
    network: StreamFetcher,
    progress: Callable[[str], None] = lambda text: None,
    local_allowed: bool = False,
    limits: CloneLimits | None = None,
    sandbox_limits: SandboxLimits | None = None,
) -> AsyncIterator[Repository]:
    """Clone a repository into a task's workspace for a block, and write its files below /workspace/tree.

    The workspace belongs to the task, and the task removes it. If the workspace contains an unfinished clone,
    cloning starts again from the beginning. On cancellation at any moment, leaves no connection and no
    process.

    Raises:
        CloneError: The repository cannot be cloned. The error says why.
        SandboxError: The sandbox does not work.
    """
    address = parse_address(uri, local_allowed=local_allowed)
    git = Git(shell)
    await git.prepare()
    repository = Repository(
        address,
        git,
        workspace,
        cache,
        sandbox_limits or SandboxLimits(),
        limits or (FULL if full else CloneLimits()),
        progress,
        full=full,
    )
    try:
        if address.folder is None:
            await repository.clone(network, ref)
        else:
            await repository.copy(address.folder, ref)
    except FetchError as error:
        raise CloneError(error.message, error.advice) from error
    await repository.check_out("HEAD")
    yield repository
