"""The tools that search a workspace: `grep`, `ls` and `find`.

Like the file tools, they run inside the sandbox. They read only /workspace, and follow no link. If the files
may contain untrusted content, the tools put their results into marked blocks, and the results are tainted.
"""

import posixpath
from collections.abc import Mapping
from typing import Final

from rumi.agent.tool import CommandTrace, Tool, ToolResult
from rumi.agent.tools.bash import CommandShell
from rumi.agent.tools.file_access import NO_LINKS, FileTool, named
from rumi.models.model import ToolSpec
from rumi.platform.untrusted_text import untrusted_block
from rumi.sandbox.engine import Command
from rumi.texts import Text

MOST_LINES: Final = 2000
MOST_BYTES: Final = 50 * 1024
GREP_LINE_CHARS: Final = 500
"""Maximum size of one result: number of lines, bytes, and characters per line of `grep`."""

_PATTERN_CHARS: Final = 1000
_OUTPUT_LIMIT: Final = 4 * MOST_BYTES
_HIDDEN: Final = "repo.git"
"""The folder that contains a repository's history. Only the git tools read this folder."""

_BEGIN: Final = f"""\
{NO_LINKS}
p=$1
! linked "$p" || {{ echo link; exit 3; }}
[ -e "$p" ] || {{ echo missing; exit 3; }}
cd /workspace || exit 3
"""
# Cut in the sandbox, so that a huge output is not transferred.
_END: Final = f" | cut -b 1-{4 * GREP_LINE_CHARS} | head -n {MOST_LINES + 1} | head -c {2 * MOST_BYTES}\n"

# Without ripgrep: grep's Perl expressions are nearly the same as ripgrep's; find and sort order the files.
_GREP: Final = f"""{_BEGIN}
if command -v rg >/dev/null; then
  set -- -e "$2" -g '!{_HIDDEN}' ${{3:+-g "$3"}} ${{4:+-i}} ${{5:+-F}} -- "$p"
  rg --no-config --no-ignore --hidden --no-follow --no-heading --with-filename --line-number --color never \\
    --sort path "$@"
else
  kind=-P
  printf '' | grep -qP x
  [ $? -lt 2 ] || kind=-E
  [ -z "$5" ] || kind=-F
  glob=$3
  set -- -nIHs $kind ${{4:+-i}} -e "$2" --
  find "$p" -name {_HIDDEN} -prune -o -type f ${{glob:+-name "$glob"}} -print0 | LC_ALL=C sort -z \\
    | xargs -0r grep "$@"
fi{_END}"""

_LS: Final = f"""{_BEGIN}
[ -d "$p" ] || {{ echo file; exit 3; }}
find "$p" -mindepth 1 -maxdepth 1 -printf '%y %s %f\\n' | LC_ALL=C sort -k 3{_END}"""

_FIND: Final = f"""{_BEGIN}
find "$p" -mindepth 1 -name {_HIDDEN} -prune -o ${{4:+-type "$4"}} "$2" "$3" -printf '%y %P\\n' \\
  | LC_ALL=C sort -k 2{_END}"""


def search_tools(shell: CommandShell) -> tuple[Tool, ...]:
    """Return the tools that search a workspace."""
    return (Grep(shell), Ls(shell), Find(shell))


def bounded(lines: list[str], line_chars: int = 2000) -> tuple[str, bool]:
    """Shorten the lines; return the lines that fit into one result, and True if some lines were left out."""
    shown: list[str] = []
    size = 0
    for line in lines[:MOST_LINES]:
        line = line if len(line) <= line_chars else f"{line[:line_chars]}…"
        size += len(line.encode("utf-8", "replace")) + 1
        if size > MOST_BYTES:
            break
        shown.append(line)
    return "\n".join(shown), len(shown) < len(lines)


class InWorkspace(FileTool):
    """Base class of tools that read only the workspace. It only accepts paths below /workspace."""

    concurrent = True
    only_reads = True
    roots = ("/workspace",)
    follows = False

    def path(self, value: object) -> str | ToolResult:
        """Convert a path to its path in the sandbox, or return an error if `..` leads out of /workspace."""
        path = super().path(value)
        if isinstance(path, ToolResult):
            return path
        path = posixpath.normpath(path)
        if path != "/workspace" and not path.startswith("/workspace/"):
            return self.refused("reaches only /workspace, and this path leads out of it")
        return path

    async def _lines(self, path: str, script: str, *words: str) -> list[str] | ToolResult:
        """Return the lines that a script prints; if the script fails, return an error result."""
        command = Command(("sh", "-c", script, "sh", path, *words), reads=True, output_limit=_OUTPUT_LIMIT)
        result = await self._shell.run(command)
        trace = CommandTrace((self.spec.name, path, *words), result.container_id) if result.ran else None
        if result.ended != "exited":
            return ToolResult(
                False,
                Text("{name} did not end: {ended}", name=self.spec.name, ended=result.ended),
                trace=trace,
                tainted=self._shell.tainted,
            )
        printed, complaint = result.stdout.text(), result.stderr.text().strip()
        if result.exit_code == 3:
            why = {
                "link": "is a link, or a folder on its way is, and links are not followed",
                "missing": "does not exist",
                "file": "is a file, not a folder",
            }.get(printed.strip(), "cannot be used")
            return ToolResult(True, f"{named(path)} {why}", 1, trace=trace, tainted=self._shell.tainted)
        if complaint and not printed:
            return ToolResult(
                True, f"nothing: {complaint[:500]}", 1, trace=trace, tainted=self._shell.tainted
            )
        return printed.split("\n")[:-1] if printed.endswith("\n") else printed.split("\n") if printed else []

    def _shown(self, path: str, lines: list[str], none: str, more: str, line_chars: int = 2000) -> ToolResult:
        """Return a result that contains the lines, in an untrusted block if the files may be untrusted."""
        if not lines:
            return ToolResult(True, none, 1, tainted=self._shell.tainted)
        text, cut = bounded(lines, line_chars)
        count = f"the first {text.count(chr(10)) + 1} of more lines. {more}" if cut else f"{len(lines)} lines"
        tainted = self._shell.tainted
        text = untrusted_block(named(path), text) if tainted else text
        return ToolResult(True, f"{count}\n{text}", truncated=cut, tainted=tainted)


class Grep(InWorkspace):
    """The tool `grep`: searches files for a regular expression, with ripgrep if the sandbox has it."""

    spec = ToolSpec(
        name="grep",
        description="Search the files of the workspace for a regular expression: path:line:text.",
        parameters={
            "type": "object",
            "properties": {
                "pattern": {"type": "string"},
                "path": {"type": "string", "description": "A file or a folder; otherwise all"},
                "glob": {"type": "string", "description": "Only files of such names, as *.md"},
                "ignore_case": {"type": "boolean"},
                "literal": {"type": "boolean", "description": "The pattern is plain text"},
            },
            "required": ["pattern"],
        },
    )

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Search the files. A line of the result has at most `GREP_LINE_CHARS` characters."""
        path = self.path(arguments.get("path") or "/workspace")
        if isinstance(path, ToolResult):
            return path
        pattern, glob = arguments.get("pattern"), arguments.get("glob") or ""
        if not _is_pattern(pattern) or not pattern:
            return self.refused(f"needs `pattern`, one line of at most {_PATTERN_CHARS} characters")
        if not _is_pattern(glob):
            return self.refused("takes `glob` as a pattern for names, such as *.md")
        flags = ["yes" if arguments.get(name) is True else "" for name in ("ignore_case", "literal")]
        lines = await self._lines(path, _GREP, str(pattern), str(glob), *flags)
        if isinstance(lines, ToolResult):
            return lines
        lines = [line.removeprefix("/workspace/") for line in lines]
        return self._shown(path, lines, "no line matches", "Search for less.", GREP_LINE_CHARS)


class Ls(InWorkspace):
    """The tool `ls`: lists a folder."""

    spec = ToolSpec(
        name="ls",
        description="List a folder of the workspace, with sizes.",
        parameters={"type": "object", "properties": {"path": {"type": "string"}}},
    )

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """List the names, sorted: folders end with /, links with @."""
        path = self.path(arguments.get("path") or "/workspace")
        if isinstance(path, ToolResult):
            return path
        lines = await self._lines(path, _LS)
        if isinstance(lines, ToolResult):
            return lines
        return self._shown(path, [_entry(line) for line in lines], f"{named(path)} is empty", "Use find.")


class Find(InWorkspace):
    """The tool `find`: finds files and folders by name."""

    spec = ToolSpec(
        name="find",
        description="Find files of the workspace by name.",
        parameters={
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "A glob: *.py, or src/*/test_*.py for the path"},
                "path": {"type": "string", "description": "The folder to search; otherwise all"},
                "type": {"type": "string", "enum": ["file", "folder"]},
            },
            "required": ["pattern"],
        },
    )

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Find entries.

        A pattern with a slash is matched against paths below the folder, any other pattern against names.
        """
        path = self.path(arguments.get("path") or "/workspace")
        if isinstance(path, ToolResult):
            return path
        pattern, kind = arguments.get("pattern"), arguments.get("type") or ""
        if not _is_pattern(pattern) or not pattern:
            return self.refused(f"needs `pattern`, one line of at most {_PATTERN_CHARS} characters")
        letter = {"": "", "file": "f", "folder": "d"}.get(str(kind))
        if letter is None:
            return self.refused("takes `type` as file or folder")
        glob = str(pattern).strip("/")
        by = ("-path", f"{_plain(path)}/{glob}") if "/" in glob else ("-name", glob)
        lines = await self._lines(path, _FIND, *by, letter)
        if isinstance(lines, ToolResult):
            return lines
        below = "" if path == "/workspace" else f"{path.removeprefix('/workspace/')}/"
        found = [f"{below}{line[2:]}{'/' if line[:1] == 'd' else ''}" for line in lines]
        return self._shown(path, found, "no name matches", "Use a narrower pattern.")


def _is_pattern(value: object) -> bool:
    return (
        isinstance(value, str)
        and len(value) <= _PATTERN_CHARS
        and not any(c in value for c in "\0\n\r")
        and value.encode("utf-8", "replace").decode() == value
    )


def _entry(line: str) -> str:
    kind, size, name = (*line.split(" ", 2), "", "")[:3]
    return {"d": f"{name}/", "l": f"{name}@"}.get(
        kind, f"{name} ({size} bytes)" if kind == "f" else f"{name} (special)"
    )


def _plain(path: str) -> str:
    """Return a glob that matches only this path."""
    return "".join(f"\\{c}" if c in "\\*?[" else c for c in path)
