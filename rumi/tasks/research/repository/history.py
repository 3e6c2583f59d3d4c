"""Copying of a local repository, with its whole history, to a bare repository in a sandbox."""

from pathlib import Path

from rumi.sandbox.engine import SandboxLimits
from rumi.tasks.research.repository.address import RepositoryAddress
from rumi.tasks.research.repository.git import Git
from rumi.tasks.research.repository.refs import BRANCH
from rumi.tasks.research.repository.repository import FULL, Repository


async def copy_history(folder: Path, git: Git, workspace: Path, limits: SandboxLimits) -> str:
    """Copy a repository to `repo.git` in the folder `root` of `git`; return the checked-out branch.

    `workspace` is the path of the folder `root` on the host. The result is the full name of the branch, or an
    empty string if no branch is checked out.

    Raises:
        CloneError: The repository cannot be read, or does not fit.
        SandboxError: The sandbox does not work.
    """
    address = RepositoryAddress(str(folder), folder)
    repository = Repository(address, git, workspace, None, limits, FULL, lambda text: None, full=True)
    await repository.copy(folder, "")
    head = repository.refs.head
    return head if head.startswith(BRANCH) else ""
