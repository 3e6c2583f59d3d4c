"""Sandboxes: one box a chat, two engines, the command policy and the workspace."""

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

__all__ = [
    "Box",
    "BoxInfo",
    "Command",
    "CommandResult",
    "Ending",
    "Engine",
    "EngineKind",
    "Limits",
    "Output",
    "SandboxError",
    "Sink",
]
