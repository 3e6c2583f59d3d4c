"""Models: one streaming interface, and its implementations.

A turn gets a `Model` from `ModelSet.bind`: a chain of attempts (`chain`) at servers that speak OpenAI's chat
completions (`chat_completions`, with `wire` and `stream`) or a protocol of their own (`native`: `anthropic`,
`ollama`), read by `reading` with `rates` and `failures`; or the offline model (`offline`). The `models` actor
shares permits fairly between chats (`actor`, `limits`). `registry` makes all that from the settings in
`build` and the table in `rumi.providers`. `transcription` transcribes voice messages, `trying` tries servers
out. Importing this does not import the groq SDK: the first call does.
"""

from rumi.models.types import (  # isort: skip  the contract, which the other modules build on
    Discarded,
    Emit,
    Message,
    Model,
    ModelError,
    ModelEvent,
    ModelRequest,
    Picture,
    Reply,
    TextDelta,
    ToolCall,
    ToolCallNamed,
    ToolSpec,
    Usage,
    Used,
    Waiting,
    text_tokens,
)
from rumi.models.actor import ModelsRef
from rumi.models.build import (
    CustomServer,
    ModelSet,
    ModelSettings,
    build_models,
    check_model_name,
    context_tokens_of,
    lacks_key,
    missing_key,
    model_takes_pictures,
    models_with_pictures,
)
from rumi.models.chain import Chain, Step
from rumi.models.fitting import (
    SHORT_CHARS,
    cut_to,
    messages_tokens,
    request_tokens,
    shortened,
    without_pictures,
)
from rumi.models.metering import Account, Counted, Hold, Limit, Meter, Period, Scope, Unit
from rumi.models.offline import Offline
from rumi.models.rates import RateLimits
from rumi.models.room import Room, context_of, prompt_share, takes_pictures
from rumi.models.server import Server
from rumi.models.transcription import Transcriber
from rumi.models.trying import LocalServer, local_servers, offered, try_out
from rumi.providers import OFFLINE

__all__ = [
    "OFFLINE",
    "SHORT_CHARS",
    "Account",
    "Chain",
    "Counted",
    "CustomServer",
    "Discarded",
    "Emit",
    "Hold",
    "Limit",
    "LocalServer",
    "Message",
    "Meter",
    "Model",
    "ModelError",
    "ModelEvent",
    "ModelRequest",
    "ModelSet",
    "ModelSettings",
    "ModelsRef",
    "Offline",
    "Period",
    "Picture",
    "RateLimits",
    "Reply",
    "Room",
    "Scope",
    "Server",
    "Step",
    "TextDelta",
    "ToolCall",
    "ToolCallNamed",
    "ToolSpec",
    "Transcriber",
    "Unit",
    "Usage",
    "Used",
    "Waiting",
    "build_models",
    "check_model_name",
    "context_of",
    "context_tokens_of",
    "cut_to",
    "lacks_key",
    "local_servers",
    "messages_tokens",
    "missing_key",
    "model_takes_pictures",
    "models_with_pictures",
    "offered",
    "prompt_share",
    "request_tokens",
    "shortened",
    "takes_pictures",
    "text_tokens",
    "try_out",
    "without_pictures",
]
