"""What people saw of a turn besides its messages: outcomes of calls, questions, and figures of model calls.

Live events carry these values, and the journal stores them beside the history, so that a view shows the same
during the turn and after a restart. Prompts never contain them.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

SAID_CHARS: Final = 2_000
"""Maximum number of characters shown of a tool's result."""

THOUGHT_CHARS: Final = 20_000
"""Maximum number of characters that are kept of the model's reasoning before one message."""

MOST_WITHIN: Final = 50
"""Maximum number of calls within a call that are kept."""


@dataclass(frozen=True, slots=True)
class ShownQuestion:
    """A question that a person was asked. `whole` is the same with all values in full, or empty.

    `verdict` is `yes`, `no`, `expired` or `nobody`; empty while the question waits for its answer.
    """

    id: str = ""
    text: str = ""
    whole: str = ""
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class ShownCall:
    """What people saw of a tool call that has ended.

    `said` is the beginning of its result in words for people; `cut` is True if there is more. `ms` is the
    time that it took in milliseconds, None if unknown, and `exit` the exit code of its command. `refused`
    means that it had no effect. `diff` is the diff of the file that it changed, and `shows` lists the files
    that it showed. `steps` counts the steps that it reported. `questions` were asked before it ran. `within`
    are the calls that ran within it.
    """

    ok: bool
    said: str = ""
    cut: bool = False
    exit: int | None = None
    ms: int | None = None
    refused: bool = False
    diff: str = ""
    shows: tuple[str, ...] = ()
    steps: int = 0
    questions: tuple[ShownQuestion, ...] = ()
    within: "tuple[CallWithin, ...]" = ()


@dataclass(frozen=True, slots=True)
class CallWithin:
    """A tool call without a stored result of its own. `title` is for people.

    If the call ran within another one, its `id` begins with the id of that one and a dot.
    """

    id: str
    name: str
    title: str
    call: ShownCall


@dataclass(frozen=True, slots=True)
class CallFigures:
    """The figures of a model call that has ended, with all its attempts; also an event of a running turn.

    `number` grows with each call of the turn, also when the turn goes on after a restart; the chat sets it.
    `prompt`, `completion` and `cached` are tokens, `nano` is the price in billionths of a USD, 0 if unknown.
    `ms` is the time that the call took in milliseconds, `first_ms` the time until the first token. `thought`
    is the model's reasoning, at most `THOUGHT_CHARS` characters, which took `thought_ms`; empty without any.
    """

    model: str = ""
    prompt: int = 0
    completion: int = 0
    cached: int = 0
    nano: int = 0
    ms: int = 0
    first_ms: int = 0
    thought: str = ""
    thought_ms: int = 0
    number: int = 0

    def __add__(self, later: "CallFigures") -> "CallFigures":
        """Return the figures of both calls together, which have made one message."""
        thoughts = "\n\n".join(filter(None, (self.thought, later.thought)))
        return CallFigures(
            later.model,
            self.prompt + later.prompt,
            self.completion + later.completion,
            self.cached + later.cached,
            self.nano + later.nano,
            self.ms + later.ms,
            self.first_ms,
            thoughts[:THOUGHT_CHARS],
            self.thought_ms + later.thought_ms,
            later.number,
        )


@dataclass(frozen=True, slots=True)
class ShownReply:
    """What people saw of a message of the model, besides its text.

    `call` has the figures of the model calls that made it, None if none did. `calls` are tool calls of the
    turn that have no stored result: the turn was stopped meanwhile, or a person typed the command.
    """

    call: CallFigures | None = None
    calls: tuple[CallWithin, ...] = ()


Shown: TypeAlias = ShownCall | ShownReply
