"""Calls that wait for a yes: a bot asks for them when its iteration ends, and goes on with other work.

A person answers by number, such as `yes 2 3` or `yes 2 no 3`, so no answer can be for a call that nobody has
seen.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

ParkedState: TypeAlias = Literal["waits", "allowed", "refused", "used"]

MOST_WAITING: Final = 20
_CALL_CHARS: Final = 2_000
_ANSWER: Final = re.compile(r"(yes|no|sí|si)((?:[\s,]+[0-9]{1,9})+)[\s,;.]*", re.IGNORECASE)


@dataclass(slots=True)
class Parked:
    """A call, the question that people read, and the iteration that asks it."""

    number: int
    iteration: int
    call: str
    text: str
    state: ParkedState = "waits"


class ParkedCalls:
    """The calls of a session that need a yes, in one iteration. `keep` stores them."""

    def __init__(self, parked: list[Parked], iteration: int, keep: Callable[[], Awaitable[None]]) -> None:
        self.parked = parked
        self._iteration = iteration
        self._keep = keep

    async def allowed(self, call: str) -> bool:
        """Return True if a person has said yes to exactly this call; that holds once, also after a kill."""
        found = self._last(call)
        if found is None or found.state != "allowed":
            return False
        found.state = "used"
        await self._keep()
        return True

    async def park(self, call: str, text: str) -> str:
        """Have a call wait, and return what the model reads."""
        found = self._last(call)
        if found is not None and found.state == "refused":
            return "the user said no to this call, and it was not done. Do not try it another way"
        if found is None or found.state != "waits":
            if len(self._of("waits")) >= MOST_WAITING or len(call) > _CALL_CHARS:
                return (
                    "it was not done, and the user is not asked: too much waits for an answer. Go on without"
                )
            self.parked.append(Parked(len(self.parked) + 1, self._iteration, call, text))
            await self._keep()
        return (
            "it was not done yet: the user is asked when this iteration ends. Go on with other work, or end "
            "the iteration. Once there is a yes, you are told, and then you make the call again"
        )

    async def hear(self, said: Sequence[str]) -> None:
        """Take the answers among what people have said."""
        answers: dict[int, ParkedState] = {}
        for text in map(str.strip, said):
            found = list(_ANSWER.finditer(text))
            if "".join(each[0] for each in found) == text:  # these and no other words
                for word, numbers in (each.groups() for each in found):
                    state: ParkedState = "refused" if word.casefold() == "no" else "allowed"
                    answers |= dict.fromkeys(map(int, re.findall("[0-9]+", numbers)), state)
        heard = [each for each in self._of("waits") if each.number in answers]
        for each in heard:
            each.state = answers[each.number]
        if heard:
            await self._keep()

    def asked(self) -> list[tuple[int, str]]:
        """Return the number and the question of each call that this iteration has parked."""
        return [(each.number, each.text) for each in self._of("waits") if each.iteration == self._iteration]

    def waiting(self) -> list[tuple[int, str]]:
        """Return the number and the question of each call that has no answer."""
        return [(each.number, each.text) for each in self._of("waits")]

    def in_words(self) -> str:
        """Return what the model reads of answers; empty if there is nothing to say."""
        heads: dict[ParkedState, str] = {
            "allowed": "The user said yes to these calls. Make them now, with exactly these arguments; each "
            "is allowed once:",
            "refused": "The user said no to these calls:",
            "waits": "These calls wait for the user's answer; do not wait for it:",
        }
        lines = list[str]()
        for state, head in heads.items():
            if calls := [each.call.replace("<", "\\u003c") for each in self._of(state)]:  # the same JSON
                lines += [head, *(f"- {each}" for each in calls)]
        return "\n".join(["<answers>", *lines, "</answers>"]) if lines else ""

    def _of(self, state: ParkedState) -> list[Parked]:
        return [each for each in self.parked if each.state == state]

    def _last(self, call: str) -> Parked | None:
        return next((each for each in reversed(self.parked) if each.call == call), None)


def parked_json(parked: Sequence[Parked]) -> list[dict[str, Any]]:
    """Return parked calls as JSON."""
    return [asdict(each) for each in parked]


def parked_in(kept: Mapping[str, Any]) -> list[Parked]:
    """Return the parked calls of a stored state."""
    found = [Parked(**each) for each in kept.get("parked", ())]
    return [each for each in found if each.state in get_args(ParkedState)]
