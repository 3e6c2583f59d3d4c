"""Redaction of this installation's secrets in model replies. A server may repeat the key that it received."""

import json
from dataclasses import replace

from rumi.models.model import (
    Discarded,
    Emit,
    ModelError,
    ModelEvent,
    Reply,
    TextDelta,
    ToolCall,
    ToolCallNamed,
)
from rumi.platform.redact import HIDDEN, Redactor


class Hiding:
    """A filter that hides secrets in one call's events and outcome, even a secret split between two events.

    Only known secrets are hidden, because an answer may legitimately show examples of keys. If a tool call's
    arguments contain a secret, `[hidden]` replaces all arguments, so that no tool runs with altered
    arguments.
    """

    def __init__(self, redact: Redactor, emit: Emit) -> None:
        self._redact = redact
        self._emit = emit
        self._words = redact.stream()
        self._said: list[str] = []

    def emit(self, event: ModelEvent) -> None:
        """Forward an event with its secrets hidden. Text that may be the start of a secret is held back."""
        if isinstance(event, TextDelta):
            self._say(self._words.feed(event.text))
        elif isinstance(event, ToolCallNamed):
            self._emit(ToolCallNamed(self._redact.known(event.name)))
        else:
            self._emit(event)

    def outcome(self, outcome: Reply | ModelError) -> Reply | ModelError:
        """Emit the text that was held back, and return the reply or the error with its secrets hidden.

        An error gets the text that was emitted. If a reply has another text than was emitted, because a part
        of it turned out to be reasoning or a tool call, the emitted text is discarded, and the reply's is
        emitted.
        """
        self._say(self._words.end())
        known, said = self._redact.known, "".join(self._said)
        if isinstance(outcome, ModelError):
            outcome.failed_generation = known(outcome.failed_generation)
            outcome.partial = said.rstrip()
            return outcome
        reply = self._hidden(outcome)
        if said != reply.text:
            if said:
                self._emit(Discarded())
            self._say(reply.text)
        return reply

    def _hidden(self, outcome: Reply) -> Reply:
        known = self._redact.known
        return replace(
            outcome,
            text=known(outcome.text),
            reasoning=known(outcome.reasoning),
            finish_reason=known(outcome.finish_reason),
            tool_calls=tuple(map(self._call, outcome.tool_calls)),
        )

    def _say(self, words: str) -> None:
        if words:
            self._said.append(words)
            self._emit(TextDelta(words))

    def _call(self, call: ToolCall) -> ToolCall:
        known, arguments = self._redact.known, call.arguments
        if known(arguments) != arguments or ("\\u" in arguments and self._escaped(arguments)):
            arguments = HIDDEN
        return replace(call, id=known(call.id), name=known(call.name), arguments=arguments)

    def _escaped(self, arguments: str) -> bool:
        """Return True if the JSON text contains a secret whose characters are written as escape sequences."""
        try:
            plain = json.dumps(json.loads(arguments), ensure_ascii=False)
        except (ValueError, RecursionError):
            return False
        return self._redact.known(plain) != plain
