"""A repository of this machine with its whole history, bare, in any folder of a sandbox."""

from pathlib import Path

from rumi.sandbox.engine import SandboxLimits
from rumi.tasks.research.repository.address import RepositoryAddress
from rumi.tasks.research.repository.git import Git
from rumi.tasks.research.repository.repository import FULL, Repository


async def copy_history(folder: Path, git: Git, workspace: Path, limits: SandboxLimits) -> str:
    """Copy a repository to `repo.git` in the folder of `git`, which the host has as `workspace`.

    Return the name of the branch that is checked out, empty for none.

    Raises:
        CloneError: It cannot be read, or does not fit.
        SandboxError: The sandbox does not work.
    """
    address = RepositoryAddress(str(folder), folder)
    repository = Repository(address, git, workspace, None, limits, FULL, lambda text: None, full=True)
    await repository.copy(folder, "")
    return repository.refs.head
