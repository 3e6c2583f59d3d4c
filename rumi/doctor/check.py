"""One finding, and how long looking for it may take."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

import trio

from rumi.errors import RumiError
from rumi.redact import Redactor
from rumi.texts import Language, told, told_error

Verdict = Literal["ok", "warning", "failure"]

CHECK_S = 30.0
"""How long one check may take."""


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. `mend` says what to do, empty where nothing is to be done."""

    name: str
    verdict: Verdict
    found: str
    mend: str = ""


Tell = Callable[[Check], None]
Look = Callable[[], Awaitable[list[Check]]]


@dataclass(frozen=True, slots=True)
class Examination:
    """What was found so far. Each finding is told at once. `debug`: faults of ours are raised, not told."""

    language: Language
    tell: Tell
    debug: bool = False
    checks: list[Check] = field(default_factory=list)

    def add(self, *checks: Check) -> None:
        """Keep findings and tell them in the reader's language.

        What looks like a key is left out: some words are other programs'.
        """
        hide = Redactor(()).text
        for each in checks:
            found, mend = told(self.language, each.found).rstrip("."), told(self.language, each.mend)
            check = Check(each.name, each.verdict, hide(found), hide(mend))
            self.checks.append(check)
            self.tell(check)

    async def look(self, name: str, look: Look, verdict: Verdict = "failure") -> None:
        """Add what a check finds; `verdict` is what it means where it cannot be made at all.

        Bounded, and whatever it raises is a finding too: one check's trouble ends no other.
        """
        found = None
        with trio.move_on_after(CHECK_S):
            found = await self._found(name, look, verdict)
        if found is None:
            late = f"no answer within {CHECK_S:.0f} s"
            found = [
                Check(name, verdict, late, "Something hangs: look at the machine's load, then try again.")
            ]
        self.add(*found)

    async def _found(self, name: str, look: Look, verdict: Verdict) -> list[Check]:
        try:
            return await look()
        except RumiError as error:
            return [Check(name, verdict, error.message, error.advice)]
        except OSError as error:
            return [
                Check(
                    name, "failure", str(error), "Look at the disk, and at the owner and mode of that file."
                )
            ]
        except Exception as error:
            if self.debug:
                raise
            found = f"it could not be checked: {told_error('en', error)}"
            return [
                Check(
                    name,
                    "failure",
                    found,
                    "That is a fault of Rumi's. Report it, with what this says: rumi --debug doctor",
                )
            ]


async def blocking(checks: Callable[[], list[Check]]) -> list[Check]:
    """Checks that read files, in a thread: a disk that hangs ends no other check."""
    return await trio.to_thread.run_sync(checks, abandon_on_cancel=True, limiter=trio.CapacityLimiter(1))
