"""The public interface of Rumi for plugins: all that a plugin may use of Rumi and of its actor runtime.

A plugin is an installed distribution with entry points in the groups `rumi.channels`, `rumi.tools`,
`rumi.models`, `rumi.tasks` and `rumi.readers`; each leads to a registration: `ChannelPlugin`, `ToolPlugin`,
`ModelPlugin`, `TaskPlugin` or `ReaderPlugin`. docs/plugins.md shows how to write one, and `rumi.api.testing`
runs one in a test.

`VERSION` follows semantic versioning. A registration says for which version it was written, and works with
this version and each later one of the same major version. What is not in `__all__` may change at any time.
"""

from typing import Final

from actors import Actor, ActorRef, Backoff, ChildSpec, Request, Supervisor, answers
from rumi.agent.plugin_tools import FunctionTool, ToolContext, ToolPlugin
from rumi.agent.tool import Claims, Progress, Question, Tool, ToolResult
from rumi.channels.channel import Channel, Process
from rumi.channels.registration import ChannelPlugin, Serving
from rumi.channels.simple import SimpleChannel, Take
from rumi.errors import ConfigError, RumiError
from rumi.models.model import (
    Emit,
    Message,
    Model,
    ModelError,
    ModelRequest,
    Reply,
    TextDelta,
    ToolCall,
    ToolSpec,
    Usage,
)
from rumi.models.plugin_models import ModelPlugin
from rumi.platform.chat_ids import ChannelPrefix
from rumi.platform.config.plugins import API, PluginContext, Registration
from rumi.tasks.kinds import Finished, NextIteration, TaskContext, TaskKind, TaskPlugin, TaskWork
from rumi.texts import Language, Text, gettext, ngettext
from rumi.web.readers.registration import ReaderPlugin

VERSION: Final = ".".join(map(str, API))

__all__ = [
    "VERSION",
    "Actor",
    "ActorRef",
    "Backoff",
    "Channel",
    "ChannelPlugin",
    "ChannelPrefix",
    "ChildSpec",
    "Claims",
    "ConfigError",
    "Emit",
    "Finished",
    "FunctionTool",
    "Language",
    "Message",
    "Model",
    "ModelError",
    "ModelPlugin",
    "ModelRequest",
    "NextIteration",
    "PluginContext",
    "Process",
    "Progress",
    "Question",
    "ReaderPlugin",
    "Registration",
    "Reply",
    "Request",
    "RumiError",
    "Serving",
    "SimpleChannel",
    "Supervisor",
    "Take",
    "TaskContext",
    "TaskKind",
    "TaskPlugin",
    "TaskWork",
    "Text",
    "TextDelta",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolPlugin",
    "ToolResult",
    "ToolSpec",
    "Usage",
    "answers",
    "gettext",
    "ngettext",
]
