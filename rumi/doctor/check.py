"""One finding, and how long looking for it may take."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

import trio

from rumi.errors import RumiError

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


async def bounded(
    name: str, check: Callable[[], Awaitable[list[Check]]], verdict: Verdict = "failure"
) -> list[Check]:
    """The findings of a check; `verdict` is what it means where it cannot be made at all."""
    with trio.move_on_after(CHECK_S):
        try:
            return await check()
        except RumiError as error:
            return [Check(name, verdict, error.message.rstrip("."), error.advice)]
        except OSError as error:
            return [
                Check(name, "failure", str(error), "Look at the disk, and at the owner and mode of that.")
            ]
    late = f"no answer within {CHECK_S:.0f} s"
    return [Check(name, "failure", late, "Something hangs: look at the machine's load, then try again.")]


async def blocking(checks: Callable[[], list[Check]]) -> list[Check]:
    """Checks that read files, in a thread: a disk that hangs ends no other check."""
    return await trio.to_thread.run_sync(checks, abandon_on_cancel=True, limiter=trio.CapacityLimiter(1))
