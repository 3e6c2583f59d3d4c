"""Sandboxes: one container for each chat, two engines, the command policy and the workspace.

Chats use `sandboxes`, which adds the actors to the tree: `sandbox`, one for each chat; `registry`, which
records the containers that may exist; and `disk`, which keeps a reserve of the file system while commands
run. `incoming` puts users' files into the workspace. `docker/` and `bubblewrap/` are the engines; `choose`
picks one of them.
"""

from rumi.sandbox.carrying import Carried, PieceStore, WorkspaceCarrier
from rumi.sandbox.choose import Backend, choose_engine
from rumi.sandbox.copying import clone, copy_data, copy_files, size_of_files
from rumi.sandbox.disk import free_on
from rumi.sandbox.entries import Entry, Key, Unlistable, Walk, finish_entries, make_entries
from rumi.sandbox.identity import sandbox_user
from rumi.sandbox.incoming import about_file, file_in, put_file, safe_name
from rumi.sandbox.lease import ENDED_S, Lease, LeaseLostError, Leases, boottime, no_leases
from rumi.sandbox.packing import PackLimits, SpoiltWorkspace, Unpackable
from rumi.sandbox.policy import STRICT, CommandPolicy, CommandRefused, in_bash, may_write
from rumi.sandbox.sandboxes import Sandboxes, add_sandboxes
from rumi.sandbox.shared import Fault, faults
from rumi.sandbox.types import (
    Command,
    CommandResult,
    Container,
    ContainerInfo,
    Engine,
    EngineKind,
    Output,
    SandboxError,
    SandboxLimits,
    Sink,
    skills_folder,
)
from rumi.sandbox.workspace import (
    WorkspaceEntry,
    WorkspaceError,
    WorkspaceUse,
    listing,
    measure,
    open_beneath,
    prepare_workspace,
)
from rumi.sandbox.workspace import clear as clear_workspace
from rumi.sandbox.workspace import remove as remove_workspace

__all__ = [
    "ENDED_S",
    "STRICT",
    "Backend",
    "Carried",
    "Command",
    "CommandPolicy",
    "CommandRefused",
    "CommandResult",
    "Container",
    "ContainerInfo",
    "Engine",
    "EngineKind",
    "Entry",
    "Fault",
    "Key",
    "Lease",
    "LeaseLostError",
    "Leases",
    "Output",
    "PackLimits",
    "PieceStore",
    "SandboxError",
    "SandboxLimits",
    "Sandboxes",
    "Sink",
    "SpoiltWorkspace",
    "Unlistable",
    "Unpackable",
    "Walk",
    "WorkspaceCarrier",
    "WorkspaceEntry",
    "WorkspaceError",
    "WorkspaceUse",
    "about_file",
    "add_sandboxes",
    "boottime",
    "choose_engine",
    "clear_workspace",
    "clone",
    "copy_data",
    "copy_files",
    "faults",
    "file_in",
    "finish_entries",
    "free_on",
    "in_bash",
    "listing",
    "make_entries",
    "may_write",
    "measure",
    "no_leases",
    "open_beneath",
    "prepare_workspace",
    "put_file",
    "remove_workspace",
    "safe_name",
    "sandbox_user",
    "size_of_files",
    "skills_folder",
]
