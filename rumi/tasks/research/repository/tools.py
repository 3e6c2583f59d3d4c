"""The git tools of a research task. They read history, commits, and files at any revision."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from rumi.agent.tool import CommandTrace, Question, Tool, ToolResult
from rumi.models.model import ToolSpec
from rumi.platform.texts.operating import short_size
from rumi.platform.untrusted_text import one_line, untrusted_block
from rumi.tasks.research.repository.errors import CloneError
from rumi.tasks.research.repository.git import MOST_BYTES, MOST_LINES, GitOutput
from rumi.tasks.research.repository.placeholders import MODULE, pointer
from rumi.tasks.research.repository.refs import by_number
from rumi.tasks.research.repository.repository import Repository

_LOG_COUNT: Final = 20
_MOST_LOG: Final = 500
_SHOWN_LINES: Final = 400
_LINE_CHARS: Final = 2000
_MORE: Final = 4_000_000
_BLAME_HEAD: Final = re.compile(r"([0-9a-f]{40,64}) \d+ (\d+)(?: \d+)?")
_SEPARATOR: Final = "\x1f"

_FOLDER: Final = "040000"
_LINK: Final = "120000"
_ROW: Final = re.compile(r"(?P<mode>\d{6}) (?P<kind>\w+) (?P<oid>[0-9a-f]+) +(?P<size>\S+)\t(?P<path>.*)")
_MOST_FOLDERS: Final = 30
_MOST_ENTRIES: Final = 20_000
_REPLACED: Final = "\ufffd"
_POINTER: Final = "version https://git-lfs.github.com/spec/"
_POINTER_NOTE: Final = "Git LFS pointer"

_REF: Final = {"type": "string", "description": "Commit, branch, tag, or HEAD~3; HEAD if left out"}
_PATH: Final = {"type": "string", "description": "Path in the repository"}
_NUMBER: Final = {"type": "integer"}


class BadInput(Exception):
    """The arguments of a call are invalid; the text of the error explains why."""


class NothingToShow(Exception):
    """The requested object is not in the clone; the text of the error explains why."""


@dataclass(frozen=True, slots=True)
class _Arguments:
    """The arguments of a tool call. Each method checks one argument and returns its value."""

    tool: str
    arguments: Mapping[str, object]
    inside: Callable[[str], str]

    def text(self, name: str, default: str = "") -> str:
        value = self.arguments.get(name)
        if value is None or value == "":
            return default
        if not isinstance(value, str) or "\0" in value or len(value) > 4000:
            raise BadInput(f"{self.tool} takes `{name}` as a string")
        return value

    def path(self, *, needed: bool = False) -> str:
        path = self.inside(self.text("path")).removeprefix("./")
        if path.startswith("-"):
            raise BadInput(f"{self.tool} takes no path that begins with -")
        if path.startswith("/") or ".." in path.split("/"):
            raise BadInput(f"{self.tool} takes a path inside the repository, without ..")
        if needed and not path.strip("/"):
            raise BadInput(f"{self.tool} needs `path`, a string")
        return path.strip("/") if path != "." else ""

    def number(self, name: str, default: int, most: int) -> int:
        value = self.arguments.get(name)
        if value is None or value == "":
            return default
        if isinstance(value, str) and value.strip().isdecimal():
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise BadInput(f"{self.tool} takes `{name}` as a whole number, from 1 on")
        return max(1, min(value, most))

    def flag(self, name: str) -> bool:
        return self.arguments.get(name) in (True, "true", "True", 1)


class GitTool(Tool):
    """Base class of the git tools. It holds the repository and formats the results."""

    concurrent = True
    spec: ToolSpec

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._git = repository.git

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return None: no approval is needed, because the tools only read the cloned repository."""
        return None

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Read the repository. The result is tainted, because the repository's content is untrusted."""
        checked = _Arguments(self.spec.name, arguments, self._repository.inside)
        named = [arguments.get(name) for name in ("ref", "from", "to")]
        meant = [self._repository.meaning(name) for name in named if isinstance(name, str)]
        meant = [one_line(note, 500) for note in dict.fromkeys(meant) if note]
        try:
            result = await self.answer(checked)
        except BadInput as error:
            return ToolResult(False, str(error))
        except (NothingToShow, CloneError) as error:
            return ToolResult(False, "\n".join([str(error), *meant]), tainted=True)
        return replace(result, content="\n".join([*meant, result.content])) if meant else result

    async def answer(self, arguments: _Arguments) -> ToolResult:
        """Return the result of a call.

        Raises:
            BadInput: The arguments are invalid.
            NothingToShow: The requested object is not in the clone.
            CloneError: The requested object could not be fetched or read.
        """
        raise NotImplementedError

    def result(self, about: str, text: str, output: GitOutput, *notes: str, cut: bool = False) -> ToolResult:
        """Return git's output in an untrusted block, preceded by the program's notes."""
        lines = text.split("\n")
        text, shortened = "\n".join(lines[:MOST_LINES]), len(lines) > MOST_LINES
        if len(data := text.encode()) > MOST_BYTES:
            text, shortened = data[:MOST_BYTES].decode(errors="ignore").rpartition("\n")[0], True
        cut = cut or shortened
        said = [note for note in notes if note]
        if _POINTER in text and not any(_POINTER_NOTE in note for note in said):
            said.append(f"Lines with {_POINTER} are of a {_POINTER_NOTE}, not of the file itself.")
        if cut:
            said.append("This is cut: ask for less, or for a later part.")
        inside = untrusted_block(f"{self._repository.address.text} {about}", text or "(nothing)")
        content = "\n".join([*said, inside])
        trace = CommandTrace((self.spec.name, about), output.container_id)
        return ToolResult(
            True, content, output.code if not output.ok else 0, output.duration_ms, cut, content, trace, True
        )

    def failed(self, output: GitOutput) -> NothingToShow:
        """Return the error for a failed git command."""
        if output.missing_file:
            return NothingToShow(
                "This needs a file of more than 5 MB, which the clone left out."
                if self._repository.filtered
                else "This needs an object that the clone does not have: it is partial, or damaged."
            )
        first = next(iter(output.error.strip().splitlines()), "it gave no reason")
        return NothingToShow(f"git says: {one_line(first, 300)}")

    def history_is_cut(self) -> str:
        """Return the note for a result that ends at a boundary commit of the shallow clone."""
        why = self._repository.cut_because
        return f"The history is cut here: older commits are not in the clone. {why}".strip()


class GitLog(GitTool):
    """The tool `git_log`: lists commits."""

    spec = ToolSpec(
        "git_log",
        "List commits, newest first: id, date, author, subject. `changed` finds commits that add or remove a "
        "text, `grep` those whose message has it.",
        {
            "type": "object",
            "properties": {
                "ref": {"type": "string", "description": "Where to begin, or a range as v1.0..v2.0"},
                "path": _PATH,
                "count": _NUMBER,
                "changed": {"type": "string"},
                "grep": {"type": "string"},
                "author": {"type": "string"},
                "since": {"type": "string", "description": "Date as 2024-01-31"},
                "until": {"type": "string"},
            },
        },
    )

    async def answer(self, arguments: _Arguments) -> ToolResult:
        """List the commits; deepen the clone if the list reaches a boundary commit."""
        count = arguments.number("count", _LOG_COUNT, _MOST_LOG)
        ref, path = arguments.text("ref", "HEAD"), arguments.path()
        words = list[str]()
        for name, option in (
            ("grep", "--grep"),
            ("author", "--author"),
            ("since", "--since"),
            ("until", "--until"),
        ):
            if value := arguments.text(name):
                words.append(f"{option}={value}")
        if changed := arguments.text("changed"):
            words.append(f"-S{changed}")
        form = "--format=" + "%x1f".join(("%H", "%ad", "%an", "%s"))
        while True:
            start, around = await self._start(ref)
            output = await self._git.read(
                "log", *_PLAIN, "--fixed-strings", "--regexp-ignore-case", "--date=short", form,
                f"--max-count={count}", *words, *start, "--", *([path] if path else []),
            )  # fmt: skip
            if not output.ok:
                raise self.failed(output)
            lines = output.text.splitlines()
            rows = [line.split(_SEPARATOR, 3) for line in lines if line.count(_SEPARATOR) >= 3]
            # Without its parents, a boundary commit seems to add every file: it would match any filter.
            if path or changed:
                rows = [row for row in rows if row[0] not in self._repository.boundary]
            enough = len(rows) == count and start == [around] and "..." not in around
            cut = not enough and await self._reaches_boundary(around, arguments.text("since"))
            if not cut or not await self._repository.deepen():
                break
        text = "\n".join(f"{oid[:12]} {date} {author}: {subject}" for oid, date, author, subject in rows)
        more = "There may be more: raise `count`." if len(rows) == count else ""
        about = " ".join(filter(None, ("log", ref, path)))
        note = self.history_is_cut() if cut else ""
        return self.result(about, text or "(no commit)", output, note, more, cut=output.cut)

    async def _start(self, ref: str) -> tuple[list[str], str]:
        """Return git's arguments that select the commits to list, and the range of all commits involved."""
        before, dots, after = ref.partition("..")
        if not dots:
            start = await self._repository.resolve(ref)
            return [start], start
        first = await self._repository.resolve(before or "HEAD")
        last = await self._repository.resolve(after.removeprefix(".") or "HEAD")
        both = f"{first}...{last}"
        return ([both] if after.startswith(".") else [f"^{first}", last]), both

    async def _reaches_boundary(self, around: str, since: str) -> bool:
        """Return True if the history of these commits reaches a boundary commit of the clone."""
        boundary = self._repository.boundary
        if not boundary:
            return False
        words = [f"--since={since}"] if since else []
        roots = await self._git.read(
            "rev-list", "--max-parents=0", *words, around, "--", lines=50 * MOST_LINES, most=_MORE
        )
        return not boundary.isdisjoint(roots.text.split())


class GitShow(GitTool):
    """The tool `git_show`: shows a commit, or a file or a folder at a revision."""

    spec = ToolSpec(
        "git_show",
        "Show a commit with its changes; with `path`, the file or folder at that commit, with line numbers.",
        {
            "type": "object",
            "properties": {
                "ref": _REF,
                "path": _PATH,
                "offset": {"type": "integer", "description": "First line"},
                "limit": _NUMBER,
            },
        },
    )

    async def answer(self, arguments: _Arguments) -> ToolResult:
        """Show the commit or the path. A boundary commit's changes are unknown, so they are not shown."""
        ref, path = arguments.text("ref", "HEAD"), arguments.path()
        offset = arguments.number("offset", 1, 10**9)
        commit = await self._repository.resolve(ref)
        if "path" in arguments.arguments and arguments.arguments["path"] is not None:
            return await self._path(commit, path, offset, arguments.number("limit", _SHOWN_LINES, MOST_LINES))
        while commit in self._repository.boundary and await self._repository.deepen():
            pass
        known = commit not in self._repository.boundary
        how = ("--stat", "--patch") if known else ("--no-patch",)
        output = await self._git.read(
            "show", *_PLAIN, *_NO_PROGRAMS, "--format=fuller", *how, commit, "--", first=offset
        )
        if output.missing_file:
            output = await self._git.read(
                "show", *_PLAIN, "--format=fuller", "--name-status", "--no-renames", commit, "--"
            )
        if not output.ok:
            raise self.failed(output)
        note = "" if known else f"Its changes are not known. {self.history_is_cut()}"
        return self.result(f"show {commit[:12]}", output.text, output, note, cut=output.cut)

    async def _path(self, commit: str, path: str, offset: int, limit: int) -> ToolResult:
        name = f"{commit}:{path}"
        about = f"{commit[:12]}:{path}"
        mode = await self._mode(commit, path)
        if not mode and _REPLACED in path:
            mode, name = await self._in_other_bytes(commit, path)
        if not mode:
            raise NothingToShow(await self._why_not(commit, path))
        if mode == MODULE:
            raise NothingToShow(await self._module(commit, path))
        if mode == _FOLDER:
            return await self._folder(name, about, commit, path, offset)
        output = await self._git.read("cat-file", "blob", name, first=offset, lines=limit)
        if not output.ok:
            if self._repository.filtered:
                raise NothingToShow(f"{path} is larger than 5 MB, so the clone left it out.")
            raise self.failed(output)
        if "\0" in output.text:
            size = (await self._git.read("cat-file", "-s", name, lines=1)).text.strip()
            note = f"The file has {short_size(int(size))}." if size.isdecimal() else ""
            return self.result(about, "(not text)", output, note)
        lines = [
            f"{number}\t{line if len(line) <= _LINE_CHARS else line[:_LINE_CHARS] + ' [… this line is cut]'}"
            for number, line in enumerate(output.text.removesuffix("\n").split("\n"), offset)
            if output.text
        ]
        more = f"There are more lines: go on with offset={offset + len(lines)}." if output.cut else ""
        link = "This is a link; it holds the path of its target." if mode == _LINK else ""
        stands_for = pointer(output.text) if offset == 1 else ""
        mark = f"This is {stands_for}." if stands_for else ""
        return self.result(about, "\n".join(lines) or "(no lines)", output, link, mark, more)

    async def _folder(self, name: str, about: str, commit: str, path: str, offset: int) -> ToolResult:
        """List a folder; mark what is only a placeholder."""
        output = await self._git.read("ls-tree", "-l", name, first=offset)
        if not output.ok:
            raise self.failed(output)
        rows = [row for row in map(_ROW.fullmatch, output.text.split("\n")) if row]
        files = {
            row["path"]: (row["oid"], row["size"])
            for row in rows
            if row["kind"] == "blob" and row["mode"] != _LINK
        }
        placeholders = self._repository.placeholders
        marks = await placeholders.marks(files)
        if any(row["mode"] == MODULE for row in rows):
            inside = f"{path}/" if path else ""
            modules = await placeholders.modules(commit, path)
            marks |= {module.removeprefix(inside): mark for module, mark in modules.items()}
        marks |= {file: "not in the clone" for file, (_, size) in files.items() if size == "BAD"}
        lines = [
            f"{row['kind']} {row['path']}"
            + (" (a link)" if row["mode"] == _LINK else "")
            + (f" ({marks[row['path']]})" if row["path"] in marks else "")
            for row in rows
        ]
        return self.result(about, "\n".join(lines), output, cut=output.cut)

    async def _in_other_bytes(self, commit: str, path: str) -> tuple[str, str]:
        """Return mode and object of a path that has bytes which are not UTF-8, as listings show it."""
        folder, _, last = path.rpartition("/")
        where = f"{commit}:{folder}" if folder else commit
        output = await self._git.read("ls-tree", "-l", where, lines=_MOST_ENTRIES, most=_MORE)
        rows = [row for row in map(_ROW.fullmatch, output.text.split("\n")) if row and row["path"] == last]
        return (rows[0]["mode"], rows[0]["oid"]) if len(rows) == 1 else ("", "")

    async def _module(self, commit: str, path: str) -> str:
        modules = await self._repository.placeholders.modules(commit, path)
        return f"{path} is {modules.get(path, 'a submodule: its files are in another repository')}."

    async def _why_not(self, commit: str, path: str) -> str:
        """Return why a path does not exist: it may lie in a submodule, or behind a link."""
        parts = path.split("/")[:-1]
        folders = ["/".join(parts[: count + 1]) for count in range(len(parts))][:_MOST_FOLDERS]
        if folders:
            form = "--format=%(objectmode) %(path)"
            rows = (await self._git.read("ls-tree", form, commit, "--", *folders)).text.splitlines()
            for mode, _, folder in (row.partition(" ") for row in rows):
                if mode == MODULE and folder in folders:
                    return f"{path} lies in a submodule. {await self._module(commit, folder)}"
                if mode == _LINK and folder in folders:
                    return f"{folder} is a link, which is not followed. git_show of it shows its target."
        return f"There is no {path} in {commit[:12]}. git_show of its folder shows the names."

    async def _mode(self, commit: str, path: str) -> str:
        """Return the file mode of a path at a commit; empty if the path does not exist."""
        if not path:
            return _FOLDER
        entry = await self._git.read("ls-tree", "--format=%(objectmode)", commit, "--", path, lines=1)
        return entry.text.strip() if entry.ok else ""


class GitBlame(GitTool):
    """The tool `git_blame`: shows commit, date and author of each line of a file."""

    spec = ToolSpec(
        "git_blame",
        "Say for lines of a file which commit changed them last, when, and who.",
        {
            "type": "object",
            "properties": {"path": _PATH, "ref": _REF, "start": _NUMBER, "end": _NUMBER},
            "required": ["path"],
        },
    )

    async def answer(self, arguments: _Arguments) -> ToolResult:
        """Blame the lines, deepening the clone if needed.

        No author is shown for a line that is older than the clone's history.
        """
        path = arguments.path(needed=True)
        start = arguments.number("start", 1, 10**9)
        end = max(start, arguments.number("end", start + _SHOWN_LINES - 1, 10**9))
        end = min(end, start + MOST_LINES - 1)
        ref = arguments.text("ref", "HEAD")
        commit = await self._repository.resolve(ref)
        while True:
            output = await self._git.read(
                "blame",
                "--porcelain",
                f"-L{start},{end}",
                commit,
                "--",
                path,
                lines=40 * MOST_LINES,
                most=_MORE,
            )
            if not output.ok:
                raise self.failed(output)
            lines = _blamed(output.text, self._repository.boundary)
            older = [line for line in lines if line.endswith(_OLDER, 0, line.find("\t"))]
            if not older or not await self._repository.deepen():
                break
        note = f"{len(older)} lines are older than the clone. {self.history_is_cut()}" if older else ""
        return self.result(f"blame {commit[:12]} {path}", "\n".join(lines), output, note, cut=output.cut)


_OLDER: Final = "older than the clone"


def _blamed(text: str, boundary: Collection[str]) -> list[str]:
    """Return a text for each blamed line, with its number, commit, date, author and content."""
    about = dict[str, dict[str, str]]()
    lines = list[str]()
    commit, number = "", ""
    for line in text.split("\n"):
        if line.startswith("\t"):
            known = about.get(commit, {})
            when = known.get("date", "")
            who = f"{commit[:12]} {when} {known.get('author', '')}"
            lines.append(f"{number} {_OLDER if commit in boundary else who}\t{line[1:][:_LINE_CHARS]}")
        elif head := _BLAME_HEAD.fullmatch(line):
            commit, number = head[1], head[2]
            about.setdefault(commit, {})
        elif line.startswith("author "):
            about[commit]["author"] = one_line(line[7:], 100)
        elif line.startswith("author-time ") and line[12:].strip().isdecimal():
            about[commit]["date"] = _day(int(line[12:]))
    return lines


def _day(seconds: int) -> str:
    from datetime import UTC, datetime

    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
    except (OverflowError, OSError, ValueError):
        return "unknown date"


class GitDiff(GitTool):
    """The tool `git_diff`: shows the differences between two commits."""

    spec = ToolSpec(
        "git_diff",
        "Show what differs between two commits. Ask for `summary` first where much may differ.",
        {
            "type": "object",
            "properties": {
                "from": {"type": "string", "description": "Commit, branch or tag"},
                "to": _REF,
                "path": _PATH,
                "summary": {"type": "boolean", "description": "Only names and numbers of lines"},
                "offset": {"type": "integer", "description": "First line of the output"},
            },
            "required": ["from"],
        },
    )

    async def answer(self, arguments: _Arguments) -> ToolResult:
        """Compare the files of two commits. The history between the commits is not needed."""
        if not (first := arguments.text("from")):
            raise BadInput("git_diff needs `from`, a string")
        second, path = arguments.text("to", "HEAD"), arguments.path()
        commits = [await self._repository.resolve(revision) for revision in (first, second)]
        how = ("--stat=200",) if arguments.flag("summary") else ("--stat=200", "--patch")
        where = [path] if path else []
        offset = arguments.number("offset", 1, 10**9)
        note = ""
        output = await self._git.read(
            "diff", *_PLAIN, *_NO_PROGRAMS, *how, *commits, "--", *where, first=offset
        )
        if output.missing_file:
            note = "A file of more than 5 MB differs, which the clone left out: only names are shown."
            output = await self._git.read(
                "diff", *_PLAIN, "--name-status", "--no-renames", *commits, "--", *where, first=offset
            )
        if not output.ok:
            raise self.failed(output)
        about = f"diff {first} {second} {path}".strip()
        return self.result(about, output.text or "(no difference)", output, note, cut=output.cut)


class GitRefs(GitTool):
    """The tool `git_refs`: lists branches and tags."""

    spec = ToolSpec(
        "git_refs",
        "List branches and tags, highest version first.",
        {
            "type": "object",
            "properties": {
                "filter": {"type": "string", "description": "Part of a name, or a pattern with *"}
            },
        },
    )

    async def answer(self, arguments: _Arguments) -> ToolResult:
        """List the branches and tags of the remote."""
        wanted = arguments.text("filter")
        pattern = wanted if "*" in wanted else f"*{wanted}*"
        refs = sorted(
            self._repository.refs.by_name.values(), key=lambda ref: by_number(ref.name), reverse=True
        )
        rows = [
            f"{ref.kind} {ref.short} {ref.commit[:12]}" for ref in refs if fnmatchcase(ref.short, pattern)
        ]
        return self.result(f"refs {wanted}".strip(), "\n".join(rows) or "(none)", _NOTHING_RUN)


_NOTHING_RUN: Final = GitOutput("", "", 0, False, 0, "")


class GitCheckout(GitTool):
    """The tool `git_checkout`: writes the files of a commit into the workspace."""

    concurrent = False
    spec = ToolSpec(
        "git_checkout",
        "Put the files of a commit below tree/, in place of those that are there, to read and search them.",
        {"type": "object", "properties": {"ref": _REF}},
    )

    async def answer(self, arguments: _Arguments) -> ToolResult:
        """Write the files of the commit."""
        said = await self._repository.check_out(arguments.text("ref", "HEAD"))
        return ToolResult(True, said, tainted=True)


_PLAIN: Final = ("--no-color", "--no-ext-diff", "--no-textconv")
_NO_PROGRAMS: Final = ("--submodule=short", "--find-renames")


def git_tools(repository: Repository) -> tuple[Tool, ...]:
    """Return the git tools for a repository."""
    kinds = (GitLog, GitShow, GitBlame, GitDiff, GitRefs, GitCheckout)
    return tuple(kind(repository) for kind in kinds)
