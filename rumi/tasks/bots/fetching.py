"""Fetching of skills from a git repository on the web.

The program fetches the repository through the web guard, and git unpacks it in a sandbox. The program then
reads the skills as plain text. A source is the URL of a repository, optionally followed by `#FOLDER` to name
a folder in the repository.
"""

import os
import re
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from rumi.chats.services import ChatWorkspaces
from rumi.errors import RumiError
from rumi.platform.openat import FOLDER, is_ordinary, openat2, opened
from rumi.sandbox.engine import Command, CommandResult, SandboxLimits
from rumi.sandbox.sandboxes import Sandboxes
from rumi.tasks.bots.config import BotError
from rumi.tasks.bots.files import MOST_SKILL_CHARS, BotFiles, BotSkill
from rumi.tasks.bots.foreign import MOST_SKILLS, SKILL
from rumi.web.messages import StreamFetcher

if TYPE_CHECKING:
    from rumi.tasks.research.repository.cache import RepositoryCache

KEY: Final = "bot.-skills"
"""Key of the sandbox in which repositories are read. Bot names cannot begin with a dash, so no bot has it."""

FETCH_S: Final = 900.0
"""Maximum time to fetch a repository, in seconds."""

_REMOTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|[^/\s]+@[^/\s]+:")
_MOST_BYTES: Final = 4 * MOST_SKILL_CHARS
_END_S: Final = 30.0


def is_remote(source: str) -> bool:
    """Return True if a source of skills is a URL, and False if it is a folder on this machine."""
    return _REMOTE.match(source) is not None


def checked_source(source: str) -> tuple[str, str]:
    """Parse a source into the repository's URL and a folder in the repository; empty means the root folder.

    Raises:
        RumiError: The URL is not allowed, or the folder leads out of the repository.
    """
    from rumi.tasks.research.repository.address import parse_address

    address, _, folder = source.partition("#")
    parts = [part for part in folder.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in folder:
        raise BotError("The folder behind # must lie in the repository.", "Name it without ..")
    return parse_address(address, local_allowed=False).text, "/".join(parts)


class FetchedSkills:
    """Fetches skills in a process that runs sandboxes, one repository at a time."""

    def __init__(
        self,
        sandboxes: Sandboxes,
        workspaces: ChatWorkspaces,
        streams: Callable[[], StreamFetcher],
        cache: "RepositoryCache",
        limits: SandboxLimits,
    ) -> None:
        self._shell = _FetchSandbox(sandboxes)
        self._sandboxes = sandboxes
        self._workspaces = workspaces
        self._streams = streams
        self._cache = cache
        self._limits = limits
        self._one = trio.Lock()

    async def skills(self, source: str) -> tuple[list[BotSkill], list[str]]:
        """Return the skills in a repository, and the problems with unreadable skills.

        Runs no code from the repository and retains no files. On cancellation at any moment, leaves no
        process and no file behind.

        Raises:
            RumiError: The repository cannot be fetched, or has no skills.
        """
        from rumi.tasks.research.repository.repository import open_repository

        uri, folder = checked_source(source)
        async with self._one:
            workspace = self._workspaces.folder / KEY
            try:
                await self._workspaces.remove(KEY)  # left by a process that was killed
                await self._shell.prepare()
                async with open_repository(
                    uri,
                    shell=self._shell,
                    workspace=workspace,
                    cache=self._cache,
                    network=self._streams(),
                    sandbox_limits=self._limits,
                ):
                    return await self._workspaces.offload(partial(_read, workspace, folder, source))
            finally:
                # Shielded, because the cleanup awaits and must also run after a cancellation; the timeout
                # keeps a broken sandbox from blocking the caller forever.
                with trio.move_on_after(_END_S, shield=True), suppress(RumiError):
                    await self._sandboxes.stop(KEY)
                    await self._workspaces.remove(KEY)


class _FetchSandbox:
    """The sandbox in which repositories are read."""

    tainted = True

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes

    async def prepare(self) -> None:
        await self._sandboxes.prepare(KEY)

    async def run(self, command: Command) -> CommandResult:
        return await self._sandboxes.run(KEY, command)


def _read(workspace: Path, folder: str, source: str) -> tuple[list[BotSkill], list[str]]:
    """Copy the skill files out of the workspace without following links; read the skills from the copies."""
    with tempfile.TemporaryDirectory(prefix="rumi-skills-") as made:
        copies = Path(made) / (os.path.basename(folder) or "skills")
        copies.mkdir()
        try:
            with opened(os.open(workspace, FOLDER)) as top:
                tree = openat2(top, os.fsencode(f"tree/{folder}" if folder else "tree"), FOLDER)
            with opened(tree):
                count = 0
                for name in sorted(os.listdir(tree)):
                    inner = name if name.endswith(".md") else f"{name}/{SKILL}"
                    count += _copied(tree, inner, copies)
                    if count >= MOST_SKILLS:
                        break
        except (OSError, UnicodeError) as error:
            raise BotError(
                "{source} has no such folder.", "Name one of the repository behind #.", source=source
            ) from error
        if not count:
            raise BotError(
                "{source} has no skills.", "Name the folder that has them: ADDRESS#FOLDER", source=source
            )
        skills, problems = BotFiles(Path(made)).skills_in(copies)
        return skills, [problem.replace(f"{copies}/", "") for problem in problems]


def _copied(tree: int, name: str, copies: Path) -> bool:
    """Copy a regular file; return False if the path is not a regular file."""
    try:
        file = openat2(tree, os.fsencode(name))
    except OSError:
        return False
    with opened(file):
        if name.startswith(".") or not is_ordinary(file):
            return False
        (copies / name).parent.mkdir(exist_ok=True)
        (copies / name).write_bytes(os.pread(file, _MOST_BYTES, 0))
        return True
