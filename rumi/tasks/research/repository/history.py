"""Copy of a local repository with its whole history, as a bare repository in a sandbox."""

from pathlib import Path

from rumi.sandbox.engine import SandboxLimits
from rumi.tasks.research.repository.address import RepositoryAddress
from rumi.tasks.research.repository.git import Git
from rumi.tasks.research.repository.repository import FULL, Repository


async def copy_history(folder: Path, git: Git, workspace: Path, limits: SandboxLimits) -> str:
    """Copy a repository to `repo.git` in the root folder of `git`, whose path on the host is `workspace`.

    Return the full name of the checked-out branch; empty if there is none.

    Raises:
        CloneError: The repository cannot be read, or does not fit.
        SandboxError: The sandbox does not work.
    """
    address = RepositoryAddress(str(folder), folder)
    repository = Repository(address, git, workspace, None, limits, FULL, lambda text: None, full=True)
    await repository.copy(folder, "")
    return repository.refs.head
