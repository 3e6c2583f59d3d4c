"""Access to files in a chat's sandbox, by two fixed scripts that run inside the sandbox.

So a file operation has the rights, limits and timeout of a command, and no process outside of the sandbox
opens a path that a chat chose. The scripts get the path as an argument. A path is never part of a script's
text, so file names cannot inject code.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, get_args

from rumi.agent.tool import CommandTrace, Question, Tool, ToolResult
from rumi.agent.tools.bash import CommandShell
from rumi.agent.tools.output import report
from rumi.platform.file_kinds import HEAD_BYTES
from rumi.platform.openat import shown
from rumi.sandbox.engine import Command, CommandResult

MAX_BYTES: Final = 1_000_000
"""Maximum size of a file that is read completely and can be edited, in bytes."""

LINE_BYTES: Final = 4096
"""Maximum number of bytes that are read from one line of a file larger than `MAX_BYTES`."""

MOST_NAMES: Final = 500

BLOCK: Final = 4096
_OUTPUT_LIMIT: Final = MAX_BYTES + 2 * LINE_BYTES
_MAX_PATH: Final = 4000
_ROOTS: Final = ("/workspace", "/tmp", "/skills")
_NEW: Final = ".rumi-new"
"""The temporary name of a file that is being written.

If a write is killed, a file of this name may remain in the folder; the next write in the folder replaces it.
"""

NO_LINKS: Final = """\
linked() {
  d=$1
  while [ -n "$d" ] && [ "$d" != / ]; do
    [ ! -L "$d" ] || return 0
    d=${d%/*}
  done
  return 1
}
"""
"""A shell function for the scripts, which succeeds if a path or a folder above it is a link."""

_LOOK: Final = f"""\
{NO_LINKS}
p=$1 most=$7
[ "$8" = yes ] || ! linked "$p" || {{ echo link 0 0; exit; }}
names() {{ ls -Ap "$1" | head -n $most; }}
if [ -d "$p" ]; then echo folder 0 0; names "$p"
elif [ ! -e "$p" ]; then
  d=$p n=0
  while [ ! -d "$d/" ]; do d=${{d%/*}} n=$((n + 1)); done
  echo missing $n 0; names "$d/"
elif [ ! -f "$p" ]; then echo special 0 0
elif [ ! -r "$p" ]; then echo denied 0 0
else
  size=$(wc -c <"$p")
  if [ $size -le $2 ]; then echo file $size 0; cat "$p"
  else
    echo large $size $(($(wc -l <"$p") + 1 - $(tail -c 1 "$p" | wc -l)))
    head -c $6 "$p"
    [ $4 = 0 ] || tail -n "+$3" "$p" | head -n $4 | cut -b 1-$5 | head -c $2
  fi
fi
"""

# Only a complete file is renamed: truncated input fails the size check. `cp -p` preserves the file's mode.
_PUT: Final = f"""\
p=$1 new=
fail() {{ echo "$1"; [ -z "$new" ] || rm -f "$new"; exit 1; }}
[ ! -d "$p" ] || fail folder
if [ -e "$p" ]; then
  p=$(realpath "$p" && echo .) || fail failed
  p=${{p%??}} how=overwritten
  [ -f "$p" ] || fail special
  [ -w "$p" ] || fail denied
else
  [ ! -L "$p" ] || fail missing
  mkdir -p "${{p%/*}}" || fail failed
  how=created
fi
new=${{p%/*}}/{_NEW}
rm -f "$new"
[ $how = created ] || cp -p "$p" "$new" || fail failed
cat >"$new" && [ $(wc -c <"$new") -eq $2 ] && mv -f "$new" "$p" || fail failed
echo $how
"""

Kind: TypeAlias = Literal["file", "large", "folder", "missing", "special", "denied", "link"]
_KINDS: Final[Mapping[str, Kind]] = {kind: kind for kind in get_args(Kind)}


@dataclass(frozen=True, slots=True)
class FoundPath:
    """The file, folder or other object at a path.

    The meaning of the fields depends on the kind. For `file`, `content` is the whole content. For `large`,
    `content` is the first `HEAD_BYTES`, followed by the requested lines, each cut after `LINE_BYTES`; `lines`
    is the total number of lines. For `folder`, `content` lists the names in the folder. For `missing`,
    `content` lists the names in the nearest existing folder above the path; `size` is the number of levels up
    to this folder. `special` is a device, a pipe or a socket. `denied` is a file that cannot be read. `link`
    is a link, or an object behind a link, for tools that follow no links.
    """

    kind: Kind
    size: int
    lines: int
    content: bytes
    trace: CommandTrace
    duration_ms: int

    @property
    def names(self) -> list[str]:
        """The names in the folder; bytes that are not UTF-8 appear as escape sequences."""
        return [shown(name) for name in self.content.decode("utf-8", "backslashreplace").splitlines()]


_PATH_NAMES: Final = ("path", "file_path", "filepath", "filename")


def path_in(arguments: Mapping[str, object]) -> object:
    """Return the path in a call's arguments, under any of the names that models use for it; None without."""
    return next((arguments[name] for name in _PATH_NAMES if arguments.get(name) is not None), None)


def named(path: str) -> str:
    """Return a path for results: relative to the workspace, and safe to print."""
    return shown(path.removeprefix("/workspace/"))


def _listed(roots: tuple[str, ...]) -> str:
    *others, last = roots
    return f"{', '.join(others)} and {last}" if others else last


class FileTool(Tool):
    """Base class of the file tools: access to a chat's sandbox, and checks of paths."""

    writes = False
    roots: tuple[str, ...] = _ROOTS
    follows = True
    """False for a tool that does not follow links."""

    def __init__(self, shell: CommandShell) -> None:
        self._shell = shell

    async def prepare(self) -> None:
        """Prepare the sandbox while the model is still writing the arguments."""
        await self._shell.prepare()

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return None: no approval is needed, because a file tool can only affect the sandbox."""
        return None

    def refused(self, why: str) -> ToolResult:
        """Return an error result for a call that had no effect."""
        return ToolResult(False, f"{self.spec.name} {why}")

    def path(self, value: object) -> str | ToolResult:
        """Return the absolute path in the sandbox that a model's argument names, or an error result."""
        if not isinstance(value, str) or not value.strip():
            return self.refused("needs `path`, a string")
        path = value if value.startswith("/") else f"/workspace/{value}"
        try:
            bad = "\0" in path or len(path.encode()) > _MAX_PATH
        except UnicodeEncodeError:
            bad = True
        if bad:
            return self.refused("takes a path that a file can have: no NUL, valid UTF-8, not so long")
        if not f"{path}/".startswith(tuple(f"{root}/" for root in self.roots)):
            return self.refused(
                f"reaches only {_listed(self.roots)}. {shown(value)} is elsewhere; relative paths are below "
                "/workspace"
            )
        if self.writes and path.startswith("/skills/"):
            return self.refused("cannot write to /skills, which is read-only. Copy the file to /workspace")
        if self.writes and path.endswith("/"):
            return self.refused(f"needs the name of a file, and {shown(value)} is a folder's")
        return path.rstrip("/") or path

    async def look(self, path: str, first: int = 1, count: int = 0) -> FoundPath | ToolResult:
        """Return the object at a path, or an error result.

        From a large file, this reads `count` lines, starting with line `first`.
        """
        numbers = map(str, (MAX_BYTES, first, count, LINE_BYTES, HEAD_BYTES, MOST_NAMES))
        words = (path, *numbers, "yes" if self.follows else "no")
        result = await self.run(
            Command(("sh", "-c", _LOOK, "sh", *words), reads=True, output_limit=_OUTPUT_LIMIT)
        )
        trace = self._trace(path, result)
        said, _, content = (result.stdout.head + result.stdout.tail).partition(b"\n")
        kind, *rest = said.decode("ascii", "replace").split(" ")
        if result.ended != "exited" or len(rest) != 2 or kind not in _KINDS or result.stdout.truncated:
            return replace(report(trace.argv, result), tainted=self._shell.tainted)
        size, lines = map(int, rest)
        return FoundPath(_KINDS[kind], size, lines, content, trace, result.duration_ms)

    async def put(self, path: str, content: bytes) -> ToolResult:
        """Write a file completely or not at all.

        On success, the result's `content` is exactly `created` or `overwritten`. Otherwise `content` is the
        reason for the failure, in a result with exit code 1 or in an error result.
        """
        command = Command(
            ("sh", "-c", _PUT, "sh", path, str(len(content))),
            content,
            # /tmp is the sandbox's own file system: writing there takes no space of the workspace.
            needed_bytes=0 if path.startswith("/tmp/") else len(content) + BLOCK,
        )
        result = await self.run(command)
        trace, said = self._trace(path, result), result.stdout.text().strip()
        if result.ended == "exited" and said in ("created", "overwritten"):
            return ToolResult(True, said, duration_ms=result.duration_ms, trace=trace)
        if result.ended == "exited" and result.exit_code == 1 and said in (*_KINDS, "failed"):
            why = f"it cannot be written: {result.stderr.text().strip()}"
            return self.answer(
                f"{named(path)} is as it was: {_WHY.get(said, why)}", trace, result.duration_ms, 1
            )
        after = report(trace.argv, result)
        was = "was written, but then" if said in ("created", "overwritten") else "is as it was:"
        content_text = f"{named(path)} {was} {after.content}"
        return ToolResult(False, content_text, trace=after.trace, tainted=self._shell.tainted)

    def answer(
        self,
        content: str,
        trace: CommandTrace,
        duration_ms: int,
        exit_code: int | None = None,
        diff: str = "",
    ) -> ToolResult:
        """Return a successful result, which is tainted if the chat's files are tainted.

        As with commands such as `grep`, exit code 1 means that there was nothing to read or to change, not
        that the call failed.
        """
        return ToolResult(
            True,
            content,
            exit_code,
            duration_ms,
            trace=trace,
            tainted=self._shell.tainted,
            diff=diff,
        )

    def _trace(self, path: str, result: CommandResult) -> CommandTrace:
        return CommandTrace((self.spec.name, path), result.container_id)

    async def run(self, command: Command) -> CommandResult:
        """Run a command in the chat's sandbox."""
        return await self._shell.run(command)


_WHY: Final = {
    "folder": "it is a folder",
    "special": "it is a device, a pipe or a socket",
    "denied": "it is read-only",
    "missing": "it is a link to nothing. Remove the link first",
}
