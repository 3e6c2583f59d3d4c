"""Files of a chat's sandbox: read and written inside it, by two fixed scripts that get the path as a word.

So every file operation has a command's rights, limits, time and end, and no process outside opens a path that
a chat chose. Names of any kind are safe: no path is ever part of a script.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, get_args

from rumi.agent.tool import CommandTrace, Question, Tool, ToolResult
from rumi.agent.tools.bash import CommandShell, report
from rumi.platform.openat import shown
from rumi.sandbox.engine import Command, CommandResult

FILE_TOOLS: Final = ("read_file", "edit_file", "write_file")

MAX_BYTES: Final = 1_000_000
"""A file up to this size is read as a whole, and can be edited."""

LINE_BYTES: Final = 4096
"""How much of a line of a larger file is read."""

HEAD_BYTES: Final = 64
"""How much of a larger file is read to know its kind."""

MOST_NAMES: Final = 500

BLOCK: Final = 4096
_OUTPUT_LIMIT: Final = MAX_BYTES + 2 * LINE_BYTES
_MAX_PATH: Final = 4000
_ROOTS: Final = ("/workspace", "/tmp", "/skills")
_NEW: Final = ".rumi-new"
"""The name under which a file is written before it is renamed. A write that is killed may leave one file of
this name in a folder, which the next write there replaces.
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
"""A function for scripts: true if a path or a folder on its way is a link."""

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

# The renamed file is complete: input that broke off has another size. `cp -p` gives it the old file's mode.
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
    """What stands at a path.

    `file`: `content` is all of it. `large`: its first bytes, and then the lines that were asked for, each cut
    after `LINE_BYTES`; `lines` is how many it has. `folder`: `content` has the names in it, and of what is
    `missing` those in the folder above, `size` levels up. `special` is a device, a pipe or a socket. `link`
    is a link or something behind one, where no link is followed.
    """

    kind: Kind
    size: int
    lines: int
    content: bytes
    trace: CommandTrace
    duration_ms: int

    @property
    def names(self) -> list[str]:
        """Return the names in a folder; bytes that are not UTF-8 are written out."""
        return [shown(name) for name in self.content.decode("utf-8", "backslashreplace").splitlines()]


def named(path: str) -> str:
    """Return a path as results show it: without the workspace, and safe to show."""
    return shown(path.removeprefix("/workspace/"))


def _listed(roots: tuple[str, ...]) -> str:
    *others, last = roots
    return f"{', '.join(others)} and {last}" if others else last


class FileTool(Tool):
    """What the file tools share: a chat's sandbox, and paths in it."""

    writes = False
    roots: tuple[str, ...] = _ROOTS
    follows = True
    """False: no link is followed."""

    def __init__(self, shell: CommandShell) -> None:
        self._shell = shell

    async def prepare(self) -> None:
        """Make the sandbox ready while the model still writes the arguments."""
        await self._shell.prepare()

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """None, as for a command: a file tool reaches only its own sandbox."""
        return None

    def refused(self, why: str) -> ToolResult:
        """Return a failure: nothing was done."""
        return ToolResult(False, f"{self.spec.name} {why}")

    def path(self, value: object) -> str | ToolResult:
        """Return the path inside the sandbox that a model means, or why it cannot be used."""
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
        """Return what stands at the path; of a large file `count` lines from `first` on."""
        numbers = map(str, (MAX_BYTES, first, count, LINE_BYTES, HEAD_BYTES, MOST_NAMES))
        words = (path, *numbers, "yes" if self.follows else "no")
        result = await self._run(
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
        """Write a file whole or not at all; the result's `content` is `created` or `overwritten`.

        Otherwise its `content` says why not, with an exit code or as a failure.
        """
        command = Command(
            ("sh", "-c", _PUT, "sh", path, str(len(content))),
            content,
            needed_bytes=0 if path.startswith("/tmp/") else len(content) + BLOCK,  # the sandbox's own
        )
        result = await self._run(command)
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
        told = f"{named(path)} {was} {after.content}"
        return ToolResult(False, told, trace=after.trace, tainted=self._shell.tainted)

    def answer(
        self,
        content: str,
        trace: CommandTrace,
        duration_ms: int,
        exit_code: int | None = None,
        diff: str = "",
    ) -> ToolResult:
        """Return a result, which is tainted where the files are.

        With exit code 1 it says, as a command would, that there was nothing to read or to change; that is not
        a failure.
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

    async def _run(self, command: Command) -> CommandResult:
        return await self._shell.run(command)


_WHY: Final = {
    "folder": "it is a folder",
    "special": "it is a device, a pipe or a socket",
    "denied": "it is read-only",
    "missing": "it is a link to nothing. Remove the link first",
}
