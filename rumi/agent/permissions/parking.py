"""Parked calls: calls that wait for approval because no person is present.

The turn continues with other work. When the turn ends, one message asks about all parked calls. A person
answers with the calls' numbers, such as `yes 2 3` or `yes 2 no 3`. So an answer can never apply to a call
that the person has not seen.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from rumi.agent.tool import Question
from rumi.store.journal.records import Parked, ParkedState

MOST_WAITING: Final = 20
MOST_CALL_CHARS: Final = 12_000
MOST_TEXT_CHARS: Final = 16_000
MOST_WAITING_CHARS: Final = 40_000
"""Maximum total length of the questions in one message, because a person must read them all."""

_ANSWER: Final = re.compile(
    r"(yes|no|sí|si|sim|não|nao)((?:[\s,]+[0-9]{1,9})+)(\s+(?:always|siempre|sempre)\b)?[\s,;.]*",
    re.IGNORECASE,
)
_NO: Final = frozenset({"no", "não", "nao"})


StoreParked: TypeAlias = Callable[[Sequence[Parked]], Awaitable[None]]


class ParkedCalls:
    """The parked calls of a chat or a task, oldest first. `store` saves new and changed calls."""

    def __init__(self, parked: Sequence[Parked], store: StoreParked) -> None:
        self._parked = {parked_call.number: parked_call for parked_call in parked}
        self._write = store

    @property
    def all(self) -> tuple[Parked, ...]:
        """All parked calls, in every state."""
        return tuple(self._parked.values())

    async def allowed(self, call: str, question: Question) -> bool:
        """Return True if a person has approved exactly this call; the approval is then used up.

        The use is stored before this returns, so that an approval is valid only once, even after a crash.
        """
        found = self._last(call)
        if found is None or found.state != "allowed":
            return False
        await self.use(found)
        return True

    async def use(self, parked: Parked) -> None:
        """Record that a call's approval is used up."""
        await self._store(replace(parked, state="used"))

    async def withdraw(self, which: Callable[[Parked], bool]) -> None:
        """Withdraw the waiting calls for which `which` returns True; later answers to them have no effect."""
        await self._store(
            *(
                replace(parked_call, state="withdrawn")
                for parked_call in self._of("waits")
                if which(parked_call)
            )
        )

    async def park(
        self,
        call: str,
        text: str,
        question: Question | None = None,
        *,
        schedule: int = 0,
        at: float = 0.0,
        offer: str = "",
    ) -> str:
        """Park a call, unless the same call is parked already; return the tool result for the model.

        `schedule`, `at` and `offer` are stored with the call: see `Parked`.
        """
        found = self._last(call)
        if found is not None and found.state == "refused":
            return "the user said no to this call, and it was not done. Do not try it another way"
        if found is None or found.state != "waits":
            if len(call) > MOST_CALL_CHARS or len(text) > MOST_TEXT_CHARS:
                return (
                    f"not done: the call has more than {MOST_CALL_CHARS} characters. Use shorter arguments, "
                    "or several calls"
                )
            waiting = self._of("waits")
            if (
                len(waiting) >= MOST_WAITING
                or sum(len(parked_call.text) for parked_call in waiting) > MOST_WAITING_CHARS
            ):
                return "not done, and the user is not asked: too much waits for an answer. Go on without it"
            number = max(self._parked, default=0) + 1
            await self._store(Parked(number, call, text, schedule=schedule, at=at, offer=offer))
        elif offer and (offer, schedule) != (found.offer, found.schedule):
            # The schedule was changed since: an approval for all runs would be bound to the old text.
            await self._store(replace(found, offer=offer, schedule=schedule))
        return (
            "it was not done yet: the user is asked after this turn. Go on with other work, or end it; after "
            "a yes you are told, and make the call again"
        )

    async def hear(self, said: Sequence[str], seen: Collection[int] | None = None) -> tuple[Parked, ...]:
        """Apply the answers in the messages `said`; return the calls that were answered.

        Only calls that a message has asked about can be answered. With `seen`, only the calls with these
        numbers can be answered: the calls that had been asked about when the answer arrived.
        """
        answers: dict[int, ParkedState] = {}
        for text in said:
            # Only schedules have runs: for a bot, `yes 1 always` is not an answer, but words that it reads.
            answers |= {} if seen is None and always_in(text) else answers_in(text)
        heard = [
            replace(parked_call, state=answers[parked_call.number])
            for parked_call in self._of("waits")
            if parked_call.asked
            and parked_call.number in answers
            and (seen is None or parked_call.number in seen)
        ]
        await self._store(*heard)
        return tuple(heard)

    def to_ask(self) -> list[tuple[int, str]]:
        """Return the number and the question of each waiting call that no message has asked about yet.

        The caller stores the message, and in the same transaction records that it asks about these calls.
        """
        return [
            (parked_call.number, parked_call.text)
            for parked_call in self._of("waits")
            if not parked_call.asked
        ]

    @property
    def seen(self) -> frozenset[int]:
        """The numbers of the calls that a message has asked about."""
        return frozenset(parked_call.number for parked_call in self.all if parked_call.asked)

    def note_asked(self, numbers: Collection[int]) -> None:
        """Record which parked calls a message asks about; the journal stores this with the message."""
        self._parked |= {number: replace(self._parked[number], asked=True) for number in numbers}

    async def end_allowed(self, *, done: bool) -> None:
        """End all unused approvals.

        With `done`, calls whose approval was unused are finished; otherwise they wait for an answer again.
        """
        left = [
            replace(parked_call, state="used" if done else "waits") for parked_call in self._of("allowed")
        ]
        if left:
            await self._store(*left)

    def is_known(self, call: str) -> bool:
        """Return True if exactly this call waits for an answer, or was refused."""
        found = self._last(call)
        return found is not None and found.state in ("waits", "refused")

    def still_waiting(self, schedule: int) -> list[Parked]:
        """Return the calls of a schedule that a message has asked about, and that have no answer yet."""
        return [
            parked_call
            for parked_call in self._of("waits")
            if parked_call.asked and schedule and parked_call.schedule == schedule
        ]

    def waiting(self) -> list[tuple[int, str]]:
        """Return the number and the question of each call without an answer."""
        return [(parked_call.number, parked_call.text) for parked_call in self._of("waits")]

    def in_words(self) -> str:
        """Return the prompt block that tells the model the user's new answers; empty if there are none."""
        return in_words(self.all)

    async def _store(self, *parked: Parked) -> None:
        if not parked:
            return
        # In memory before the await: a concurrent call must not get the same number or use the same approval.
        self._parked |= {parked_call.number: parked_call for parked_call in parked}
        await self._write(parked)

    def _of(self, state: ParkedState) -> list[Parked]:
        return [parked_call for parked_call in self._parked.values() if parked_call.state == state]

    def _last(self, call: str) -> Parked | None:
        return next(
            (parked_call for parked_call in reversed(self._parked.values()) if parked_call.call == call), None
        )


class CoveringCalls:
    """The parked calls of work that has an approval in advance, such as a bot's plan.

    Calls that the approval covers run without a question. Other calls that need approval are parked.
    """

    def __init__(self, calls: ParkedCalls) -> None:
        self.calls = calls

    async def allowed(self, call: str, question: Question) -> bool:
        """Return True if the call itself was approved, or the approval in advance still covers it."""
        return await self.calls.allowed(call, question) or await self.take(call, question)

    async def take(self, call: str, question: Question) -> bool:
        """Return True if the approval in advance covers the call; the use is counted and stored before."""
        raise NotImplementedError

    async def park(self, call: str, text: str, question: Question) -> str:
        """Store a call until a person decides on it; return the tool result for the model."""
        return await self.calls.park(call, text, question)


def counted(used: Mapping[str, int], key: str, most: int) -> dict[str, int] | None:
    """Return the counts with one more use of `key`; None if it was used `most` times already.

    The caller stores the result before the use: a kill may lose a use, but never adds one.
    """
    times = used.get(key, 0)
    return None if times >= most else {**used, key: times + 1}


def answers_in(text: str) -> dict[int, ParkedState]:
    """Parse a text like `yes 1 no 2` into answers by number; return none if it has any other words.

    An approval for all runs of a schedule, such as `yes 1 always`, is an approval of the call, too.
    """
    answers: dict[int, ParkedState] = {}
    for word, numbers, _ in _answers(text):
        state: ParkedState = "refused" if word.casefold() in _NO else "allowed"
        answers |= dict.fromkeys(numbers, state)
    return answers


def always_in(text: str) -> tuple[int, ...]:
    """Return the numbers in an answer that are approved for all runs of a schedule: `yes 1 always`."""
    allowed = {number for number, state in answers_in(text).items() if state == "allowed"}
    always = [number for _, numbers, always in _answers(text) if always for number in numbers]
    return tuple(number for number in dict.fromkeys(always) if number in allowed)


def _answers(text: str) -> list[tuple[str, list[int], str]]:
    """Return the parts of an answer: the word, the numbers, and the word for all runs, if any."""
    text = text.strip()
    found = list(_ANSWER.finditer(text))
    if "".join(match[0] for match in found) != text:
        return []
    parts = [(match[1], list(map(int, re.findall("[0-9]+", match[2]))), match[3] or "") for match in found]
    # A no for all runs does not exist: nothing of such an answer counts.
    return [] if any(always and word.casefold() in _NO for word, _, always in parts) else parts


def in_words(parked: Sequence[Parked]) -> str:
    """Return the prompt block that informs the model of the answers to these calls; empty without calls."""
    heads: dict[ParkedState, str] = {
        "allowed": "The user said yes to these calls. Make them now, with exactly these arguments; each "
        "is allowed once:",
        "refused": "The user said no to these calls:",
        "waits": "These calls wait for the user's answer; do not wait for it:",
    }
    lines = list[str]()
    for state, head in heads.items():
        calls = [
            parked_call.call.replace("<", "\\u003c") for parked_call in parked if parked_call.state == state
        ]  # the same JSON
        if calls:
            lines += [head, *(f"- {call}" for call in calls)]
    return "\n".join(["<answers>", *lines, "</answers>"]) if lines else ""
