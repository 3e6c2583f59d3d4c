"""Events as JSON lines, for programs: one object per line, nothing else on standard output.

Every object has `event`, `chat`, `turn` (empty outside of turns) and `time` (RFC 3339, UTC). The events:

- `queued`: `place`, `text`; the message waits for the running turn; `turn` is the id of its later turn
- `turn_started`
- `text`: `delta`
- `tool_call`: `id`, `name`, `arguments`, an object; a call of `todo` has the whole list in `items`, each with
  `text` and `state` (`open`, `doing`, `done`)
- `tool_progress`: `id`, `step`, `text`; a step of a running call, one line of at most 200 characters; `step`
  counts from 1; at most four steps per second are printed for a call, and always its last one
- `tool_output`: `id`, `text`; the next output of a running command, at most four times per second; of much
  output at once only the end
- `tool_result`: `id`, `ok`, `content`, and for commands `exit_code`, `duration_ms`, `truncated`; for a
  changed file `diff`, a unified diff; for shown files `shows`, their paths; for a call with steps `steps`,
  their number
- `confirm`: `id`, `text`, and, if `text` shortens a value, `whole`: the question with all values in full; a
  line with yes or no on standard input answers it
- `usage`: for one model call `model`, `prompt_tokens`, `completion_tokens`, `cached_tokens` (prompt tokens
  that the server had in its cache) and `usd` (the price, 0 if unknown)
- `turn_finished`: `reason`, `answer`, `usage` with the same figures for all model calls of the turn; if a
  question was not answered with yes, `not_done`: a list of its `text`, its `verdict` (`no`, `expired`,
  `nobody`), and `why` if nobody could answer
- `reply`: `text`, the reply to a message without a turn, such as a command
"""

import json
from dataclasses import asdict

from rumi.agent.events import ConfirmationAsked, ConfirmationEnded, ToolFinished, TurnFinished
from rumi.channels.terminal.session import Settled
from rumi.channels.terminal.streams import Writer
from rumi.channels.terminal.words import Reader, void_note
from rumi.chats.events import ChatEvent, Replied, TurnRestarted, TurnStarted, picked
from rumi.models.model import Discarded, Waiting
from rumi.platform.printable import clean, escaped
from rumi.platform.timestamps import utc
from rumi.texts import gettext

_OUTCOME = (
    "result.ok result.content result.exit_code result.duration_ms result.truncated result.diff result.shows"
)

PRINTED = {
    "queued": "queued place text",
    "turn_started": "turn_started",
    "text": "text delta=text",
    "tool_call": "tool_call call.id call.name arguments",
    "tool_progress": "tool_progress id=call step text",
    "tool_output": "tool_output id=call text",
    "tool_result": f"tool_result call.id {_OUTCOME} steps",
    "confirm": "confirm id text whole",
    "usage": "usage model usage.prompt_tokens usage.completion_tokens usage.cached_tokens usage.usd",
    "turn_finished": "turn_finished reason answer usage",
    "reply": "reply text",
}
"""The printed fields of each kind of event, in the format that `picked` expects."""


def encode(value: object) -> str:
    """Return `value` as one line of JSON that is safe to print."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return escaped(text)


def printed(event: ChatEvent) -> dict[str, object] | None:
    """Return the object that is printed for an event; None for an event that is not printed."""
    fields = picked(event, PRINTED)
    if fields is None:
        return None
    what = event.what
    # The output of `bash` always has these fields, even without an exit code.
    if isinstance(what, ToolFinished) and what.call.name != "bash" and what.result.exit_code is None:
        for name in ("exit_code", "duration_ms", "truncated"):
            del fields[name]
    if isinstance(what, TurnFinished):
        usage = fields["usage"]
        del usage["nano_usd"]
        usage["usd"] = what.usage.usd
    for name in ("diff", "shows", "steps", "whole"):
        if not fields.get(name, True):
            del fields[name]
    return fields | {"time": utc(event.time)}


class JsonView:
    """Prints events on `output`, one JSON object per line; notices go to `errors` as text.

    With `extract`, the end of a turn has the field `code`: the first code block of the answer, or null. Then
    `missing` is True after an answer without one.
    """

    def __init__(self, output: Writer, errors: Writer, reader: Reader, *, extract: bool = False) -> None:
        self.missing = False
        self._extract = extract
        self._output = output
        self._errors = errors
        self._reader = reader
        self._asked: dict[str, str] = {}
        self._not_done: list[dict[str, str]] = []

    async def event(self, event: ChatEvent) -> None:
        """Print the event as one line; ignore kinds of events that are not printed."""
        fields = printed(event)
        self._follow(event)
        if fields is not None:
            if isinstance(event.what, TurnFinished) and self._not_done:
                fields["not_done"], self._not_done = self._not_done, []
            if isinstance(event.what, TurnFinished) and self._extract:
                from rumi.channels.terminal.code_blocks import first_block

                block = first_block(event.what.answer)
                fields["code"] = None if block is None else asdict(block)
                self.missing = block is None
            await self._output.write(encode(fields) + "\n")
        elif isinstance(event.what, Waiting):
            wait = event.what
            await self.notice(
                gettext(
                    self._reader.language, "⏳ {seconds} s · {why}", why=wait.why, seconds=round(wait.seconds)
                )
            )
        elif isinstance(event.what, Discarded | TurnRestarted):
            await self.notice(void_note(event, self._reader.language))

    def _follow(self, event: ChatEvent) -> None:
        """Record the turn's questions that were not answered with yes, because `turn_finished` lists them."""
        match event.what:
            case TurnStarted():
                self._asked, self._not_done = {}, []
            case ConfirmationAsked(id, text):
                self._asked[id] = text
            case ConfirmationEnded(id, verdict) if verdict != "yes" and id in self._asked:
                why = (
                    {
                        "why": gettext(
                            self._reader.language,
                            "not done: it needed your confirmation; run again with --yes to allow it",
                        )
                    }
                    if verdict == "nobody"
                    else {}
                )
                self._not_done.append({"text": self._asked[id], "verdict": verdict, **why})
            case _:
                pass

    async def reply(self, event: ChatEvent, settled: Settled) -> None:
        """Print a reply that belongs to no turn. A turn's reply is printed in `turn_finished` instead."""
        if settled.finished is None:
            await self._output.write(encode(printed(event)) + "\n")

    async def earlier(self, reply: Replied) -> None:
        """Show an earlier, unread reply as a notice."""
        await self.notice(f"{gettext(self._reader.language, 'Earlier:')} {reply.text}")

    async def elsewhere(self, text: str, source: str) -> None:
        """Show a message from another sender as a notice."""
        await self.notice(f"{source} {text}")

    async def stopping(self, presses: int) -> None:
        """Show as a notice that the user requested a stop."""
        await self.notice(
            f"{gettext(self._reader.language, 'stopping')}…"
            if presses == 1
            else gettext(self._reader.language, "Still stopping. Press Ctrl-C again to leave now.")
        )

    async def notice(self, text: str) -> None:
        """Write a line to the error output."""
        await self._errors.write(clean(text).rstrip("\n") + "\n")
