"""Git in a sandbox, on a bare repository in the task's workspace.

Git runs no program that the repository names, and the sandbox has no network. The flags keep git from running
programs named in a configuration or in attributes. Git itself wrote the repository's configuration.
"""

import re
from dataclasses import dataclass
from typing import Final

from rumi.agent.tools.bash import CommandShell
from rumi.sandbox.engine import Command, CommandResult
from rumi.tasks.research.repository.errors import CloneError
from rumi.texts import Text

ROOT: Final = "/workspace"
"""The folder that contains the repository as `repo.git`, and its checked-out files as `tree`."""

MOST_LINES: Final = 2000
MOST_BYTES: Final = 50_000
"""Maximum number of lines, and maximum size in bytes, of one result."""

WORK_S: Final = 600.0
"""Maximum time for git to index a pack or to write a tree, in seconds."""

_READ_S: Final = 120.0
_OUTPUT_LIMIT: Final = 4 * 1024 * 1024

_ENVIRONMENT: Final = (
    "export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0 "
    "GIT_ASKPASS=true GIT_OPTIONAL_LOCKS=0 GIT_NO_LAZY_FETCH=1 GIT_NO_REPLACE_OBJECTS=1 "
    "GIT_LITERAL_PATHSPECS=1 GIT_PAGER=cat PAGER=cat GIT_ALLOW_PROTOCOL= HOME=/nonexistent LC_ALL=C\n"
    "unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_EXTERNAL_DIFF\n"
)
_FLAGS: Final = " ".join(
    f"-c {setting}"
    for setting in (
        "safe.bareRepository=explicit",
        "safe.directory='*'",
        "core.hooksPath=/dev/null",
        "core.fsmonitor=false",
        "core.attributesFile=/dev/null",
        "core.excludesFile=/dev/null",
        "core.pager=cat",
        "core.symlinks=false",
        "core.autocrlf=false",
        "core.quotePath=false",
        "core.protectHFS=true",
        "core.protectNTFS=true",
        "core.bigFileThreshold=5m",
        "core.packedGitLimit=128m",
        "core.packedGitWindowSize=16m",
        "color.ui=false",
        "diff.external=",
        "gc.auto=0",
        "log.showSignature=false",
        "maintenance.auto=false",
        "pack.threads=1",
        "protocol.allow=never",
        "submodule.recurse=false",
    )
)
_PRELUDE: Final = (
    f"{_ENVIRONMENT}command -v git >/dev/null || {{ echo no-git >&2; exit 127; }}\n"
    f'git() {{ command git {_FLAGS} --git-dir="$root/repo.git" "$@"; }}\n'
)
"""The beginning of each script. It defines `git`, which runs git with the safe environment and flags.

The repository that `git` uses is `repo.git` in the folder `$root`.
"""

# The exit code of a pipeline is that of its last command, so git's own is written to stderr.
_READ: Final = (
    'first=$1 lines=$2 bytes=$3; shift 3\n{ git "$@"; echo "ended $?" >&2; } '
    '| { tail -n "+$first" | head -n "$lines" | head -c "$bytes"; } 2>/dev/null\n'
)
_ENDED: Final = re.compile(r"ended (\d{1,3})\n\Z")
_MISSING: Final = (
    "unable to read",
    "bad file",
    "bad object",
    "not a tree object",
    "could not get object info",
    "unable to find",
    "missing blob",
)
_CUT_OFF: Final = 141
"""The exit code of git after SIGPIPE: `head` has read enough lines and has closed the pipe."""


@dataclass(frozen=True, slots=True)
class GitOutput:
    """The output of git from the requested first line on. `cut` means that the output has more lines."""

    text: str
    error: str
    code: int
    cut: bool
    duration_ms: int
    container_id: str

    @property
    def ok(self) -> bool:
        """Return True if git succeeded, or was stopped because enough output was read."""
        return self.code in (0, _CUT_OFF)

    @property
    def missing_file(self) -> bool:
        """Return True if git needed an object that the clone does not have."""
        return not self.ok and any(words in self.error for words in _MISSING)


class Git:
    """Runs git in one task's sandbox, on the repository below `root`."""

    def __init__(self, shell: CommandShell, root: str = ROOT) -> None:
        self._shell = shell
        self._root = root

    async def prepare(self) -> None:
        """Make the sandbox ready."""
        await self._shell.prepare()

    async def read(
        self,
        *words: str,
        first: int = 1,
        lines: int = MOST_LINES,
        most: int = MOST_BYTES,
        stdin: bytes = b"",
    ) -> GitOutput:
        """Run a git command that changes nothing; return at most `lines` lines of its output.

        The output starts at line `first`.

        Raises:
            CloneError: The sandbox has no git, or the command did not end in time.
            SandboxError: The sandbox does not work.
        """
        # One line and one byte more than asked, to see if the output is cut.
        numbers = map(str, (first, lines + 1, most + 1))
        argv = ("sh", "-c", self._script(_READ), "sh", *numbers, *words)
        limit = max(_OUTPUT_LIMIT, most)
        result = await self._run(Command(argv, stdin, reads=True, output_limit=limit, timeout_s=_READ_S))
        error = result.stderr.text()
        ended = _ENDED.search(error)
        code = int(ended[1]) if ended else result.exit_code or 1
        text = result.stdout.text()
        shown = text.split("\n")
        cut = len(text.encode()) > most or len(shown) > lines + 1
        if cut:
            text = "\n".join(shown[: min(lines, max(len(shown) - 1, 1))])[:most]
        return GitOutput(text, _ENDED.sub("", error), code, cut, result.duration_ms, result.container_id)

    async def script(
        self,
        script: str,
        *words: str,
        stdin: bytes = b"",
        reads: bool = False,
        timeout_s: float = WORK_S,
        output_limit: int | None = None,
    ) -> CommandResult:
        """Run a shell script. In the script, `git` has the safe flags and `$root` is the folder `root`.

        Raises:
            CloneError: The sandbox has no git, or the script did not end by itself.
            SandboxError: The sandbox does not work.
        """
        argv = ("sh", "-c", self._script(script), "sh", *words)
        command = Command(argv, stdin, reads=reads, output_limit=output_limit, timeout_s=timeout_s)
        return await self._run(command)

    async def remove(self, *names: str) -> None:
        """Remove files and folders in the folder `root`. This works even if the workspace is full."""
        await self._shell.run(Command(("rm", "-rf", *(f"{self._root}/{name}" for name in names))))

    def _script(self, script: str) -> str:
        return f"root={self._root}\n{_PRELUDE}{script}"

    async def _run(self, command: Command) -> CommandResult:
        result = await self._shell.run(command)
        if result.exit_code == 127 and "no-git" in result.stderr.text():
            raise CloneError(
                "The sandbox has no git.",
                'Install git on this machine, and set tools = "work" in [sandbox].',
            )
        match result.ended:
            case "exited":
                return result
            case "timeout":
                raise CloneError("Git took too long in the sandbox.", "Ask for less at once.")
            case "workspace_full":
                raise CloneError("The repository is larger than the workspace of the task may be.")
            case "disk_full":
                raise CloneError("The disk of this machine has no room for the repository.")
            case _:
                raise CloneError("The sandbox ended while git ran.", Text("Try again."))
