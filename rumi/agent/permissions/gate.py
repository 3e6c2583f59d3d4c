"""The gate between untrusted content and the assistant's actions.

After a turn has read content from files or the web, calls that could do harm need the user's approval. The
decision depends only on the call's real arguments, not on the model's opinion.
"""

import json
import math
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from secrets import token_hex
from typing import Protocol, TypeAlias

import trio

from rumi.agent.events import ConfirmationAsked, ConfirmationEnded, TurnEvent
from rumi.agent.permissions.action_words import action_word_in
from rumi.agent.permissions.carried import CarriedOut
from rumi.agent.permissions.consent import Words, plain
from rumi.agent.permissions.intent import DeclareFor, Intent
from rumi.agent.tool import AlwaysAsks, Question, Tool, ToolResult, claims_of
from rumi.models.model import Message
from rumi.platform.texts import questions as question_texts
from rumi.platform.texts.questions import MOST_QUESTION_CHARS, Verdict
from rumi.texts import Language

Confirm: TypeAlias = Callable[[ConfirmationAsked], Awaitable[Verdict]]
"""Waits for the user's answer to a question, within its own time limit.

The gate calls the function directly after publishing the question, without a checkpoint in between. So the
function must be able to receive the answer from its first `await` on.
"""


class Parking(Protocol):
    """Storage of calls that wait for approval while no person is present; the turn continues without them.

    A call is identified by its tool's name, its arguments as JSON with sorted keys, and the `state` of its
    question, so that equal calls have the same text.
    """

    async def allowed(self, call: str, question: Question) -> bool:
        """Return True if a person has approved exactly this call, or the effect that the question names."""
        ...

    async def park(self, call: str, text: str, question: Question) -> str:
        """Store a call until a person answers the question `text`. Return the tool result for the model.

        `text` shows every value of `question`.
        """
        ...


NO: Mapping[Verdict, str] = {
    "no": "the user said no, and it was not done. Do not try it another way: go on without it, or ask them",
    "nobody": "not done: it needs the user's yes, and nobody is there to give it. Try no other way; tell "
    "them that --yes allows it",
    "expired": "nobody answered, which is a no, and it was not done. Go on without it",
}
NOBODY = "not done: this turn has read things from outside, and nobody is here to say yes"
ENOUGH = (
    "not done: the user has said no to other things of this turn and is not asked again. Go on without it"
)

TOO_LONG = (
    f"not done: nobody can judge a question of more than {MOST_QUESTION_CHARS} characters. Use shorter "
    "arguments, or several calls"
)

MOST_NOS = 3
"""Number of consecutive rejections after which a turn asks no more questions.

One unanswered question has the same effect. The limit exists because a person who is asked a hundred times
says yes in the end. Once it is reached, no call of the turn that could need a question runs, not even a call
that the user's message asks for.
"""


class Gate:
    """The permission gate of one turn.

    The gate tracks whether the turn is tainted, that is, has read untrusted content, and which URLs are known
    from its conversation.

    `words` is the user's own text in this turn's message; calls that the text asks for need no approval.
    `history` contains the earlier results of MCP servers; `declare_for` and `tools` are passed to `Intent`.
    `approved` is called after a yes, before the call is made. `deadline` is the turn's cancel scope; its
    time limit is paused while a question waits for an answer. With both `confirm` and `parking`, calls
    that were approved earlier run without a question, and no call is parked.
    """

    def __init__(
        self,
        *,
        tainted: bool,
        known_urls: Collection[str],
        words: str,
        history: Sequence[Message],
        declare_for: DeclareFor | None = None,
        tools: Callable[[], Sequence[Tool]] = tuple,
        language: Language,
        watch: Callable[[TurnEvent], None],
        confirm: Confirm | None,
        parking: Parking | None,
        deadline: trio.CancelScope,
        approved: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
    ) -> None:
        self.tainted = tainted
        self._known_urls = set(known_urls)
        self._words = Words(words)
        self._heard = _ToolOutputs(history)
        self._intent = Intent(self._words, tools, declare_for)
        self._carried = CarriedOut(self._words, self._known_urls, self._heard.of)
        self._language: Language = language
        self._watch = watch
        self._confirm = confirm
        self._parking = parking
        self._deadline = deadline
        self._approved = approved
        self._one_by_one = trio.Lock()
        self._nos_left = MOST_NOS

    def note_result(self, name: str, result: ToolResult) -> None:
        """Record the taint, the URLs and the text of a tool's result."""
        self.tainted = self.tainted or result.tainted
        self._known_urls.update(result.links)
        self._heard.add(name, result.content)

    def hear(self, words: str, links: Collection[str], *, tainted: bool) -> None:
        """Take a message that the user sends during the turn; `words` is the user's own text in it."""
        self.tainted = self.tainted or tainted
        self._known_urls.update(links)
        if words.strip():
            self._words.add(words)
            self._intent.renew()

    def knows(self, url: str) -> bool:
        """Return True if the user or a page gave exactly this URL."""
        return url in self._known_urls

    async def refusal(
        self, tool: Tool, arguments: Mapping[str, object], call_id: str = ""
    ) -> ToolResult | None:
        """Return None if the call may run; otherwise the tool result that tells the model about the refusal.

        `call_id` is the id of the call, which a question names.

        On cancellation, a question that is still open becomes void.
        """
        refused = await self._refusal(tool, arguments, call_id)
        claims = claims_of(tool)
        if refused is None and claims is not None and not claims.reads:
            # Also without a question: calls before the turn was tainted use up later declarations too.
            self._intent.note_made(tool.spec.name, arguments, claims)
        return refused

    async def _refusal(self, tool: Tool, arguments: Mapping[str, object], call_id: str) -> ToolResult | None:
        may_ask = self.tainted or isinstance(tool, AlwaysAsks)
        question = tool.question(arguments, self._known_urls) if may_ask else None
        if question is None:
            return None
        # Checked before the limit of questions: an earlier approval of this call holds all the same.
        call = f"{tool.spec.name} {json.dumps(arguments, ensure_ascii=False, sort_keys=True)}"
        call = f"{call} ({question.state})" if question.state else call
        if self._parking is not None and await self._parking.allowed(call, question):
            return None
        if self._nos_left <= 0:
            return ToolResult(False, ENOUGH)
        if await self._is_asked_for(tool, arguments, question):
            return None
        asks = question_texts.question(
            self._language, question.action, question.details, tainted=self.tainted, what=question.what
        )
        if len(asks.whole or asks.text) > MOST_QUESTION_CHARS:
            return ToolResult(False, TOO_LONG)
        if self._confirm is None:
            whole = asks.whole or asks.text
            if self._parking is None:
                return ToolResult(False, NOBODY)
            return ToolResult(False, await self._parking.park(call, whole, question), parked=True)
        async with self._one_by_one:  # a person answers one question at a time
            # Checked again: answers to other questions may have used up the limit while this call waited.
            if self._nos_left <= 0:
                return ToolResult(False, ENOUGH)
            asked = ConfirmationAsked(token_hex(8), asks.text, asks.whole, call_id)
            verdict: Verdict = "no"
            self._watch(asked)
            try:
                with self._time_stands_still():
                    verdict = await self._confirm(asked)
            finally:
                self._watch(ConfirmationEnded(asked.id, verdict))
            self._nos_left = {"yes": MOST_NOS, "no": self._nos_left - 1, "expired": 0, "nobody": 0}[verdict]
        if verdict != "yes":
            return ToolResult(False, NO[verdict])
        await self._approved()
        self._carried.allow()
        claims = claims_of(tool)
        if claims is not None and not claims.reads:
            self._intent.approve(tool.spec.name, arguments, claims)
        return None

    async def _is_asked_for(self, tool: Tool, arguments: Mapping[str, object], question: Question) -> bool:
        """Return True if the user's message asks for the call.

        Also return True for a call that only reads and whose arguments tell the server little.
        """
        claims = claims_of(tool)
        if claims is None:
            asked = question.asked is None or question.asked(self._words.text)
            return asked and bool(question.consent) and all(map(self._words.consent_to, question.consent))
        if claims.reads:
            return self._carried.takes(arguments, claims)
        # A tool that may destroy needs a declaration: the message may mention its values for another reason.
        action_word = "" if claims.destroys else action_word_in(tool.spec.name, self._words.text)
        if action_word and self._words.consent_to_all(arguments, claims.schema, action_word):
            return True
        return await self._intent.covers(tool.spec.name, arguments, claims)

    @contextmanager
    def _time_stands_still(self) -> Iterator[None]:
        # The turn's time limit is for work. Confirm has its own limit for the user's answer.
        left_s = self._deadline.deadline - trio.current_time()
        self._deadline.deadline = math.inf
        try:
            yield
        finally:
            self._deadline.deadline = trio.current_time() + left_s


class _ToolOutputs:
    """The outputs of tools in this session, by tool name."""

    def __init__(self, history: Sequence[Message]) -> None:
        self._said: dict[str, list[str]] = {}
        names: dict[str, str] = {}
        for message in history:
            names |= {call.id: call.name for call in message.tool_calls}  # servers may reuse ids
            if message.role == "tool":
                self.add(names.get(message.tool_call_id or "", ""), message.content)

    def add(self, name: str, said: str) -> None:
        self._said.setdefault(name, []).append(said)

    def of(self, names: Collection[str]) -> str:
        """Return the outputs of these tools as one text, normalized by `plain`."""
        return plain("\n".join(output for name in names for output in self._said.get(name, ())))
