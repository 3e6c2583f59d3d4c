"""Models: one interface that streams, and what stands behind it."""

from rumi.models.types import (
    Discarded,
    Emit,
    FailureKind,
    Message,
    Model,
    ModelError,
    ModelEvent,
    ModelRequest,
    Reply,
    Role,
    TextDelta,
    ToolCall,
    ToolCallNamed,
    ToolSpec,
    Usage,
    Waiting,
)

__all__ = [
    "Discarded",
    "Emit",
    "FailureKind",
    "Message",
    "Model",
    "ModelError",
    "ModelEvent",
    "ModelRequest",
    "Reply",
    "Role",
    "TextDelta",
    "ToolCall",
    "ToolCallNamed",
    "ToolSpec",
    "Usage",
    "Waiting",
]
