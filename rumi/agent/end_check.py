"""The check before the end: a turn that changed something and looked at nothing since is asked once more.

A model that has just written a file tends to say that it works. The answer of such a turn is held back, and
the model is asked to compare, to run the cheapest check, and then to answer. If the check confirms the
answer, the model says only that, and the user gets the answer that was held back.
"""

import json
from collections.abc import Callable
from typing import Final

from rumi.agent.events import TurnEvent
from rumi.agent.fitting import CHECK
from rumi.agent.tool import ToolResult
from rumi.agent.tool_names import CHANGING_FILES
from rumi.agent.tools.output import NO_OUTPUT
from rumi.models.model import Discarded, ModelEvent, TextDelta, ToolCall
from rumi.platform.untrusted_text import harmless
from rumi.sandbox.policy import in_bash, may_write

CONFIRMED: Final = "CONFIRMED"
"""The model's reply if its answer stays as it is."""

LEAST_CALLS: Final = 2
"""Number of model calls that must be left for a check and the answer after it."""

_REQUEST_CHARS: Final = 2_000
_ANSWER_CHARS: Final = 4_000


class EndCheck:
    """Decides for one turn whether its answer is asked for once more, and holds the answer back meanwhile.

    A change is a file tool that wrote, or a command that may write and printed nothing. Any later command or
    read is a check, and so is a command that may write and printed something, such as a test run: the model
    has seen its effect. Facts, reminders and sent files need no check, because their results say all of it.
    `request` is the user's own text, which may be empty; with None, the turn is not checked.
    """

    def __init__(self, request: str | None, watch: Callable[[TurnEvent], None]) -> None:
        self._request = request
        self._watch = watch
        self._unchecked = False
        self._holding = False
        self._held = ""
        self.asked = False
        self.answer = ""
        """The answer before the check; empty if no check was asked for."""

    def note(self, call: ToolCall, result: ToolResult) -> None:
        """Record what a call changed or showed."""
        if not result.ok:
            return
        if call.name in CHANGING_FILES:
            self._unchecked = True
        elif call.name == "bash":
            silent = result.exit_code == 0 and result.same_as.endswith(NO_OUTPUT)
            self._unchecked = silent and may_write(in_bash(_command(call)))
        elif call.name in ("read_file", "bash_output"):
            self._unchecked = False

    def hear(self, words: str) -> None:
        """Add what the user says during the turn to the request."""
        if self._request is not None and words.strip():
            self._request = f"{self._request}\n{words}"

    def due(self, calls_left: int) -> bool:
        """Return True if an answer now would be asked for once more."""
        return self._request is not None and self._unchecked and not self.asked and calls_left >= LEAST_CALLS

    def ask(self, answer: str) -> str:
        """Return the request for the check, which repeats the user's request and the model's `answer`."""
        self.asked, self.answer, self._held = True, answer, ""
        request = f"The request was:\n{_quoted(self._request, _REQUEST_CHARS)}\n" if self._request else ""
        return (
            f"{CHECK}\n{request}You were about to answer:\n{_quoted(answer, _ANSWER_CHARS)}\n"
            "Compare both with what is there: run the cheapest check that would show a mistake, and repair "
            f"what is wrong. Then answer the user; if your answer stays as it is, write only {CONFIRMED}."
        )

    def final(self, text: str) -> str:
        """Return the answer for the user: a reply's `text`, or the earlier answer that it confirms."""
        return self.answer if self.asked and _plain(text) in ("", CONFIRMED) else text

    # The text of a reply

    def begin_reply(self, calls_left: int) -> None:
        """Decide whether the text of the next reply is held back until it is known what the reply is."""
        self._holding, self._held = self.asked or self.due(calls_left), ""

    def holds(self, event: ModelEvent, so_far: str) -> bool:
        """Return True if the event is held back. `so_far` is the answer that a model call continues."""
        match event:
            case TextDelta(text) if self._holding:
                self._held += text
                if self.asked and not CONFIRMED.startswith(_plain(self._held)):
                    self.release(self._held)  # not a confirmation, so the user may read along
            case Discarded() if self._holding:
                self._held = so_far
            case _:
                return False
        return True

    def release(self, text: str) -> None:
        """Publish a reply's text, if it was held back."""
        if self._holding and text:
            self._watch(TextDelta(text))
        self._holding, self._held = False, ""


def _command(call: ToolCall) -> str:
    return str(json.loads(call.arguments)["command"])  # it has run, so its arguments are valid


def _plain(text: str) -> str:
    return text.strip(" \n\t.!*`'\"").upper()


def _quoted(text: str, most_chars: int) -> str:
    """Return a text in angle quotation marks, which it cannot close."""
    text = harmless(text).strip()
    text = text if len(text) <= most_chars else f"{text[:most_chars]}…"
    return f"«{text.replace('»', '>>')}»"
