"""The input of a turn, and the messages that it stores."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import trio

from rumi.agent.breakers import TurnLimits
from rumi.agent.permissions.gate import Confirm, Parking
from rumi.agent.permissions.intent import DeclareFor
from rumi.agent.tool import Tool
from rumi.models.model import Message, Model, ToolCall
from rumi.store.journal.shown import Shown
from rumi.texts import Language


async def _without_looking(messages: Sequence[Message]) -> Sequence[Message]:
    await trio.lowlevel.checkpoint()
    return messages


KeepOutput: TypeAlias = Callable[[str, bytes, bool], Awaitable[str]]
"""Writes an output to a file of the sandbox. The arguments are the file's name, the output, and True if it is
tainted. Returns the file's path, or "" if it was not written."""


async def without_keeping(name: str, output: bytes, tainted: bool) -> str:
    """Write nothing. This is used for turns without a sandbox."""
    await trio.lowlevel.checkpoint()
    return ""


async def ignore_shortened(message: Message) -> None:
    """Do nothing. This is used for turns whose history nobody keeps."""
    await trio.lowlevel.checkpoint()


@dataclass(frozen=True, slots=True)
class TurnMessage:
    """A message for the history.

    `tainted` means that the turn had read content from files or the web before this message.

    A system message is a message from Rumi in the middle of the conversation. `links` contains the exact URLs
    that came with the message. `shown` is what people saw of it besides its text; models never get it.
    """

    message: Message
    tainted: bool = False
    links: tuple[str, ...] = ()
    shown: Shown | None = None


async def nothing_meanwhile() -> Sequence[TurnMessage]:
    """Return nothing. This is used for turns that nobody steers."""
    return ()


@dataclass(frozen=True, slots=True)
class TurnInput:
    """The inputs of a turn. The last message of `history` is the request.

    `context_tokens` is the maximum size of prompt and reply together; the model itself may report less.
    `tainted` means that the conversation contains content from files or the web. `known_urls` contains the
    exact URLs from the user or from web pages. `words` is the user's own text in the message of this turn;
    calls that the text asks for need no approval. Without `confirm`, nobody can approve harmful calls of a
    tainted turn during the turn, and `parking` stores the calls for later approval. With both `confirm` and
    `parking`, a call that was approved earlier runs without a question. When tool results are shortened,
    `shortened` is called with the last shortened message; all earlier tool results are shortened too.
    """

    instructions: str
    history: Sequence[Message]
    model: Model
    tools: Sequence[Tool]
    limits: TurnLimits
    language: Language
    context_tokens: int = 131_072
    tainted: bool = False
    known_urls: Collection[str] = ()
    words: str = ""
    declare_for: DeclareFor | None = None
    """Asks a model which changes `words` request.

    Recordings and the turn's usage do not include this model call.
    """
    confirm: Confirm | None = None
    approved: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
    """Called after a yes to a question, before the call is made."""
    parking: Parking | None = None
    withheld: Mapping[str, str] = field(default_factory=dict)
    """Results for calls of tools that this turn does not offer, by tool name."""
    checks: str | None = None
    """The request that the check before the end repeats (`rumi.agent.end_check`). None disables the check."""
    shortened: Callable[[Message], Awaitable[None]] = ignore_shortened
    repeats: tuple[ToolCall, ...] = ()
    """Calls of the history's last reply that have no result. A resumed turn begins with them."""
    calls_before: int = 0
    """Model calls that a resumed turn has made before it was interrupted; they count against its limit."""
    keep: KeepOutput = without_keeping
    meanwhile: Callable[[], Awaitable[Sequence[TurnMessage]]] = nothing_meanwhile
    """Returns what the user has said since the last call, already stored. It is called before each model call
    except the calls within one; the messages follow the history so far."""
    look: Callable[[Sequence[Message]], Awaitable[Sequence[Message]]] = _without_looking
    """Loads the bytes of the pictures in a prompt's messages."""
    delegate_model: Model | None = None
    """The model of turns within this turn; None for `model`. Recordings do not include its calls."""
