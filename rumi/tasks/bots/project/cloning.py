"""Cloning of a project into a bot's workspace: the files of the base, and any git history.

Git runs only in the sandbox, on a copy of the objects. After an interruption, the clone starts again from the
beginning.
"""

import io
import os
import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from rumi.agent.tools.bash import CommandShell
from rumi.errors import RumiError
from rumi.platform.openat import FOLDER, openat2, opened
from rumi.platform.threads import Offload
from rumi.sandbox.engine import Command, SandboxLimits
from rumi.sandbox.incoming import put_file
from rumi.sandbox.project.tree import UNBOUNDED, scan
from rumi.sandbox.workspace import WorkspaceError
from rumi.sandbox.workspace import remove as remove_workspace
from rumi.tasks.bots.config import BotError
from rumi.tasks.bots.project.link import PROJECT_FOLDER, Link, Project
from rumi.texts import Text

_DRAFT: Final = ".project"
_ROOT: Final = f"/workspace/{_DRAFT}"
_BATCH_BYTES: Final = 4 * 1024 * 1024
_WORK_S: Final = 600.0

_BEGIN: Final = f"mkdir -p {_ROOT}/files\n"
_UNPACK: Final = f"cd {_ROOT}/files && tar -xf - --no-same-owner\n"
_PUT: Final = f'cd {_ROOT} && mkdir -p "$(dirname "files/$2")" && chmod "$3" "$1" && mv "$1" "files/$2"\n'
# The index is that of HEAD: what the user has staged is among the changes that git shows.
_WITH_HISTORY: Final = """\
cd "$root" || exit
case $1 in refs/heads/*) git symbolic-ref HEAD "$1" ;; esac
rm -f repo.git/info/attributes
git config core.bare false && git --work-tree="$root/files" read-tree HEAD || exit
git --work-tree="$root/files" update-index -q --refresh
true
"""
_WITHOUT_HISTORY: Final = """\
cd "$root" && rm -rf repo.git && git init --quiet --bare --template= --initial-branch=main repo.git || exit
git config core.bare false && git --work-tree="$root/files" add --all || exit
git -c user.name=Rumi -c user.email=rumi@localhost --work-tree="$root/files" \\
  commit --quiet --allow-empty --message="The project as it was handed over"
"""
_END: Final = f"""\
cd {_ROOT} || exit
[ ! -d repo.git ] || mv repo.git files/.git || exit
mv -T files ../{PROJECT_FOLDER} && cd .. && rm -rf {_DRAFT}
"""


async def clone(
    project: Project,
    link: Link,
    shell: CommandShell,
    limits: SandboxLimits,
    offload: Offload,
    report: Callable[[RumiError], None],
) -> None:
    """Put the project into the bot's workspace, replacing an older project.

    If git's history cannot be cloned, `report` gets the reason, and the project has no history.

    Raises:
        BotError: The project does not fit into the workspace, or a command in the sandbox failed.
        SandboxError: The sandbox does not work.
    """
    from rumi.tasks.research.repository.errors import CloneError
    from rumi.tasks.research.repository.git import Git
    from rumi.tasks.research.repository.history import copy_history

    await shell.prepare()
    await offload(partial(_remove, project.workspace / _DRAFT))
    await _must(shell, _BEGIN)
    git, whole, branch = Git(shell, _ROOT), link.git == link.folder, ""
    if link.git:
        try:
            if whole:
                branch = await copy_history(Path(link.git), git, project.workspace / _DRAFT, limits)
        except CloneError as error:
            whole = False
            report(error)
            await git.remove("repo.git")
    base = project.base(link)
    batches = _batches(base)
    while (batch := await offload(partial(next, batches, None))) is not None:
        if isinstance(batch, bytes):
            await _must(shell, _UNPACK, stdin=batch)
        else:
            await _put(project, shell, base, batch, limits, offload)
    if link.git:
        try:
            script = _WITH_HISTORY if whole else _WITHOUT_HISTORY
            done = await git.script(script, branch)
            if done.exit_code:
                await git.remove("repo.git")
        except CloneError as error:  # it works without git's history
            report(error)
    # The old project is removed only now, and the new one moved in with one rename. The link is marked as
    # ready last: a kill before that starts the whole clone again.
    await offload(partial(_remove, project.workspace / PROJECT_FOLDER))
    await _must(shell, _END)
    await offload(partial(project.made, link))


def _remove(path: Path) -> None:
    """Remove a file or a folder in the workspace, even if another user owns it. Blocking."""
    if path.is_dir() and not path.is_symlink():
        remove_workspace(path)
    else:
        path.unlink(missing_ok=True)


async def _put(
    project: Project, shell: CommandShell, base: Path, path: str, limits: SandboxLimits, offload: Offload
) -> None:
    """Put one large file into the project."""
    owner = project.workspace.stat()

    def put() -> tuple[str, str]:
        with open(base / path, "rb") as source:
            mode = "755" if os.fstat(source.fileno()).st_mode & 0o100 else "644"
            name = put_file(
                project.workspace / _DRAFT,
                "large",
                source,
                user=(owner.st_uid, owner.st_gid),
                limits=limits,
                max_bytes=limits.workspace_bytes,
            )
            return name, mode

    try:
        name, mode = await offload(put)
    except (OSError, WorkspaceError) as error:
        raise BotError("The project does not fit into the bot's workspace: {error}", error=error) from error
    await _must(shell, _PUT, name, path, mode)


def _batches(base: Path) -> Iterator[bytes | str]:
    """Yield the base as tar files of a few megabytes each, and the path of each large file. Blocking."""
    with opened(os.open(base, FOLDER)) as top:
        entries = scan(top, UNBOUNDED).entries
        data, size = io.BytesIO(), 0
        tar = tarfile.open(fileobj=data, mode="w")  # noqa: SIM115
        for path, entry in entries.items():
            if entry.size > _BATCH_BYTES:  # not held in memory: copied on its own
                yield path
                continue
            about = tarfile.TarInfo(path)
            about.mode = 0o755 if entry.runs else 0o644
            if entry.kind == "link":
                about.type, about.linkname = tarfile.SYMTYPE, entry.digest
                tar.addfile(about)
            else:
                with open(openat2(top, os.fsencode(path)), "rb") as source:
                    about.size = os.fstat(source.fileno()).st_size
                    tar.addfile(about, source)
            size += entry.size + 1024
            if size > _BATCH_BYTES:
                tar.close()
                yield data.getvalue()
                data, size = io.BytesIO(), 0
                tar = tarfile.open(fileobj=data, mode="w")  # noqa: SIM115
        tar.close()
        yield data.getvalue()


async def _must(shell: CommandShell, script: str, *words: str, stdin: bytes = b"") -> None:
    result = await shell.run(Command(("sh", "-c", script, "sh", *words), stdin, timeout_s=_WORK_S))
    match result.ended:
        case "exited" if result.exit_code == 0:
            return
        case "workspace_full" | "disk_full":
            raise BotError(
                "The project does not fit into the bot's workspace.",
                "[sandbox] workspace_mb and workspace_files in config.toml say how much a bot may have.",
            )
        case _:
            why = result.stderr.text().strip().splitlines()
            last = why[-1][:200] if why else result.ended
            raise BotError(
                "The project could not be put into the bot's workspace: {last}.",
                Text("Try again."),
                last=last,
            )
