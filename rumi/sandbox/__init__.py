"""Sandboxes: one box a chat, two engines, the command policy and the workspace.

`sandboxes` is what chats use and adds the actors to the tree: `sandbox`, one a chat, and `intents`, which
knows what may exist. `docker/` and `bubblewrap/` are the engines, `choose` picks one of them.
"""

from rumi.sandbox.choose import Backend, choose_engine
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
from rumi.sandbox.workspace import clear as clear_workspace

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
    "Limits",
    "Output",
    "Refused",
    "SandboxError",
    "Sandboxes",
    "Sink",
    "add_sandboxes",
    "choose_engine",
    "clear_workspace",
    "parse_command",
]
