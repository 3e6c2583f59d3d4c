"""The findings of `rumi doctor`'s checks, and the time limit for each check."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

import trio

from rumi.errors import RumiError
from rumi.platform.redact import Redactor
from rumi.platform.texts.translation import error_text
from rumi.texts import Language, Text, translate

Verdict = Literal["ok", "warning", "failure"]

CHECK_S = 30.0
"""The time limit of one check, in seconds."""


@dataclass(frozen=True, slots=True)
class Check:
    """One finding of a check. `fix` tells the user what to do; it is empty if there is nothing to fix."""

    name: str
    verdict: Verdict
    found: str
    fix: str = ""


ReportCheck = Callable[[Check], None]
Look = Callable[[], Awaitable[list[Check]]]


@dataclass(frozen=True, slots=True)
class Examination:
    """The findings so far; each finding is reported immediately.

    If `debug` is True, an unexpected exception in a check is raised instead of reported. `redact` hides
    secrets in the findings.
    """

    language: Language
    report: ReportCheck
    debug: bool = False
    redact: Redactor = field(default=Redactor(()))
    checks: list[Check] = field(default_factory=list)

    def add(self, *checks: Check) -> None:
        """Store findings and report them in the reader's language, with secrets redacted."""
        hide = self.redact.text
        for finding in checks:
            found, fix = (
                translate(self.language, finding.found).rstrip("."),
                translate(self.language, finding.fix),
            )
            check = Check(finding.name, finding.verdict, hide(found), hide(fix))
            self.checks.append(check)
            self.report(check)

    async def look(self, name: str, look: Look, verdict: Verdict = "failure") -> None:
        """Run a check and add its findings; if the check itself fails, add a finding with `verdict`.

        The check has a time limit, and its exceptions become findings, so a failed check does not stop the
        other checks.
        """
        found = None
        with trio.move_on_after(CHECK_S):
            found = await self._found(name, look, verdict)
        if found is None:
            late = Text("no answer within {seconds} s", seconds=f"{CHECK_S:.0f}")
            fix = Text("Something hangs: look at the machine's load, then try again.")
            found = [Check(name, verdict, late, fix)]
        self.add(*found)

    async def _found(self, name: str, look: Look, verdict: Verdict) -> list[Check]:
        try:
            return await look()
        except RumiError as error:
            return [Check(name, verdict, error.message, error.advice)]
        except OSError as error:
            fix = Text("Look at the disk, and at the owner and mode of that file.")
            return [Check(name, "failure", str(error), fix)]
        except Exception as error:
            if self.debug:
                raise
            found = Text("it could not be checked: {error}", error=error_text("en", error))
            fix = Text("This is a bug in Rumi. Report it with the output of: rumi --debug doctor")
            return [Check(name, "failure", found, fix)]


async def blocking(checks: Callable[[], list[Check]]) -> list[Check]:
    """Run, in a thread, checks that read files. If cancelled, abandon the thread.

    So a disk that does not respond cannot stop the other checks.
    """
    # Its own limiter: an abandoned thread would keep a slot of trio's shared one.
    return await trio.to_thread.run_sync(checks, abandon_on_cancel=True, limiter=trio.CapacityLimiter(1))
