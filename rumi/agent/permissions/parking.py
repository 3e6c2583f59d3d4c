"""Calls that wait for a yes where no person is there: they are asked about when the turn ends, all in one
message, and the turn goes on with other work.

A person answers by number, such as `yes 2 3` or `yes 2 no 3`, so no answer can be for a call that nobody has
seen.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from rumi.agent.tool import Question
from rumi.store.journal.records import Parked, ParkedState

MOST_WAITING: Final = 20
MOST_CALL_CHARS: Final = 12_000
MOST_TEXT_CHARS: Final = 16_000
MOST_WAITING_CHARS: Final = 40_000
"""How much text the questions of one message may have: a person reads all of it."""

_ANSWER: Final = re.compile(r"(yes|no|sí|si)((?:[\s,]+[0-9]{1,9})+)[\s,;.]*", re.IGNORECASE)


StoreParked: TypeAlias = Callable[[Sequence[Parked]], Awaitable[None]]


class ParkedCalls:
    """The parked calls of a chat or a task, oldest first. `keep` stores what is new or has changed."""

    def __init__(self, parked: Sequence[Parked], store: StoreParked) -> None:
        self._parked = {parked_call.number: parked_call for parked_call in parked}
        self._write = store

    @property
    def all(self) -> tuple[Parked, ...]:
        """Return all of them."""
        return tuple(self._parked.values())

    async def allowed(self, call: str, question: Question) -> bool:
        """Return True if a person has said yes to exactly this call; that holds once, also after a kill."""
        found = self._last(call)
        if found is None or found.state != "allowed":
            return False
        await self.use(found)
        return True

    async def use(self, parked: Parked) -> None:
        """Note that a call's yes is used up."""
        await self._store(replace(parked, state="used"))

    async def withdraw(self, which: Callable[[Parked], bool]) -> None:
        """Have calls wait no longer: an answer to one of them counts for nothing."""
        await self._store(
            *(
                replace(parked_call, state="withdrawn")
                for parked_call in self._of("waits")
                if which(parked_call)
            )
        )

    async def park(self, call: str, text: str) -> str:
        """Have a call wait, and return what the model reads."""
        found = self._last(call)
        if found is not None and found.state == "refused":
            return "the user said no to this call, and it was not done. Do not try it another way"
        if found is None or found.state != "waits":
            if len(call) > MOST_CALL_CHARS or len(text) > MOST_TEXT_CHARS:
                return (
                    f"it was not done, and the user is not asked: the call has more than {MOST_CALL_CHARS} "
                    "characters. Make it with shorter arguments, or in several calls"
                )
            waiting = self._of("waits")
            if (
                len(waiting) >= MOST_WAITING
                or sum(len(parked_call.text) for parked_call in waiting) > MOST_WAITING_CHARS
            ):
                return (
                    "it was not done, and the user is not asked: too much waits for an answer. Go on without"
                )
            await self._store(Parked(max(self._parked, default=0) + 1, call, text))
        return (
            "it was not done yet: the user is asked when you have ended this turn. Go on with other work, or "
            "end it. Once there is a yes, you are told, and then you make the call again"
        )

    async def hear(self, said: Sequence[str], seen: Collection[int] | None = None) -> tuple[Parked, ...]:
        """Take the answers among what people have said; return the calls that have one now.

        Only calls that a message has asked for can have one; with `seen` only those that it had asked for
        when the answer came.
        """
        answers: dict[int, ParkedState] = {}
        for text in said:
            answers |= answers_in(text)
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
        """Return the number and the question of each call that no message has asked yet.

        Who stores that message notes it in the same transaction.
        """
        return [
            (parked_call.number, parked_call.text)
            for parked_call in self._of("waits")
            if not parked_call.asked
        ]

    @property
    def seen(self) -> frozenset[int]:
        """Return the numbers of the calls that a message has asked for."""
        return frozenset(parked_call.number for parked_call in self.all if parked_call.asked)

    def note_asked(self, numbers: Collection[int]) -> None:
        """Note that a message asks for these calls; the journal notes it with that message."""
        self._parked |= {number: replace(self._parked[number], asked=True) for number in numbers}

    async def end_allowed(self, *, done: bool) -> None:
        """Let no yes hold longer: a call that was not made is over if `done`, otherwise it waits again."""
        left = [
            replace(parked_call, state="used" if done else "waits") for parked_call in self._of("allowed")
        ]
        if left:
            await self._store(*left)

    def waiting(self) -> list[tuple[int, str]]:
        """Return the number and the question of each call that has no answer."""
        return [(parked_call.number, parked_call.text) for parked_call in self._of("waits")]

    def in_words(self) -> str:
        """Return what the model reads of answers; empty if there is nothing to say."""
        return in_words(self.all)

    async def _store(self, *parked: Parked) -> None:
        if not parked:
            return
        self._parked |= {parked_call.number: parked_call for parked_call in parked}
        await self._write(parked)

    def _of(self, state: ParkedState) -> list[Parked]:
        return [parked_call for parked_call in self._parked.values() if parked_call.state == state]

    def _last(self, call: str) -> Parked | None:
        return next(
            (parked_call for parked_call in reversed(self._parked.values()) if parked_call.call == call), None
        )


def answers_in(text: str) -> dict[int, ParkedState]:
    """Return what `yes 1 no 2` says of each number; nothing if the text has other words too."""
    text = text.strip()
    found = list(_ANSWER.finditer(text))
    if "".join(match[0] for match in found) != text:
        return {}
    answers: dict[int, ParkedState] = {}
    for word, numbers in (match.groups() for match in found):
        state: ParkedState = "refused" if word.casefold() == "no" else "allowed"
        answers |= dict.fromkeys(map(int, re.findall("[0-9]+", numbers)), state)
    return answers


def in_words(parked: Sequence[Parked]) -> str:
    """Return what the model reads of the answers to these calls; empty if there is nothing to say."""
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
