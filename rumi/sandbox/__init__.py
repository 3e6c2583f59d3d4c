"""Sandboxes: one box for each chat, two engines, the command policy and the workspace.

Chats use `sandboxes`, which adds the actors to the tree: `sandbox`, one for each chat; `intents`, which
records the boxes that may exist; and `disk`, which keeps a reserve of the file system while commands run.
`incoming` puts users' files into the workspace. `docker/` and `bubblewrap/` are the engines; `choose` picks
one of them.
"""

from rumi.sandbox.choose import Backend, choose_engine
from rumi.sandbox.copying import copy_files, size_of_files
from rumi.sandbox.disk import Free, free_on
from rumi.sandbox.identity import sandbox_user
from rumi.sandbox.incoming import put_file, safe_name
from rumi.sandbox.policy import ALLOWED, Refused, parse_command
from rumi.sandbox.sandboxes import Sandboxes, add_sandboxes
from rumi.sandbox.types import (
    Box,
    BoxInfo,
    Command,
    CommandResult,
    Ending,
    Engine,
    EngineKind,
    Limits,
    Output,
    SandboxError,
    Sink,
)
from rumi.sandbox.workspace import (
    WorkspaceError,
    WorkspaceUse,
    measure,
    open_beneath,
    prepare_workspace,
    shown,
)
from rumi.sandbox.workspace import clear as clear_workspace
from rumi.sandbox.writing import may_write

__all__ = [
    "ALLOWED",
    "Backend",
    "Box",
    "BoxInfo",
    "Command",
    "CommandResult",
    "Ending",
    "Engine",
    "EngineKind",
    "Free",
    "Limits",
    "Output",
    "Refused",
    "SandboxError",
    "Sandboxes",
    "Sink",
    "WorkspaceError",
    "WorkspaceUse",
    "add_sandboxes",
    "choose_engine",
    "clear_workspace",
    "copy_files",
    "free_on",
    "may_write",
    "measure",
    "open_beneath",
    "parse_command",
    "prepare_workspace",
    "put_file",
    "safe_name",
    "sandbox_user",
    "shown",
    "size_of_files",
]
