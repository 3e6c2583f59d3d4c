"""Writes the commit into the packages that hatchling builds, so that `rumi --version` can show it.

The commit comes from git's files or, where they are missing as in a container's build, from the variable
`RUMI_COMMIT`. A source package already has it.
"""

import os
import runpy
import tempfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TARGET = "rumi/platform/COMMIT"


class CommitHook(BuildHookInterface[Any]):
    """A build hook of hatchling, declared in pyproject.toml."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file with the commit, if the commit is known. An editable install reads it from git."""
        if version == "editable":
            return
        path = os.path.join(self.root, TARGET)
        if not os.path.exists(path):
            commit_of = runpy.run_path(os.path.join(self.root, "rumi/platform/commit.py"))["commit_of"]
            commit = os.environ.get("RUMI_COMMIT") or commit_of(self.root)
            if not commit:
                return
            self._folder = tempfile.TemporaryDirectory()
            path = os.path.join(self._folder.name, "COMMIT")
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"{commit}\n")
        # Also for a file that is there: so a wheel of a source package has its files in the same order.
        build_data["force_include"][path] = TARGET
