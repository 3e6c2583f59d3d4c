"""Texts for people about standing approvals: what is allowed in all runs of a schedule, and until when."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rumi.platform.texts.formats import full_date
from rumi.platform.texts.parked import how_to_answer, numbered
from rumi.platform.texts.questions import visible
from rumi.texts import Language, gettext, ngettext

MOST_REPEATED = 600
"""Maximum length of a question that is repeated as a whole; of a longer one, only the first lines are."""


@dataclass(frozen=True, slots=True)
class GrantText:
    """What one grant allows: the tool, the destinations, and the number of uses in a run."""

    tool: str
    host: str
    addresses: Sequence[str]
    to: Sequence[tuple[str, str]]
    most: int
    numbers: bool
    """Other numbers than those of the values are allowed."""


def always(language: Language) -> str:
    """Return the word after a number that allows a call in all runs: `/yes 1 always`."""
    return gettext(language, "always")


def always_label(language: Language, number: int) -> str:
    """Return the label of the button that allows a call in all runs of its schedule."""
    return gettext(language, "🔁 {number} always", number=number)


def always_offer(language: Language, rows: Sequence[tuple[int, int, bool]], days: int) -> str:
    """Say how to allow calls in all runs; each row has the call's number, its schedule, and if it only reads.

    Return an empty text without rows.
    """
    lines = []
    for number, schedule, reads in rows:
        command = f"/yes {number} {always(language)}"
        lines.append(
            gettext(
                language,
                "🔁 {command}: from now on without asking, for {days} days, once per run of schedule "
                "{schedule}. Only numbers may change, such as those of a date.",
                command=command,
                days=days,
                schedule=schedule,
            )
            if reads
            else gettext(
                language,
                "🔁 {command}: from now on without asking, for {days} days, once per run of schedule "
                "{schedule}. Only texts may change, never where it goes.",
                command=command,
                days=days,
                schedule=schedule,
            )
        )
    return "\n".join(lines)


def still_waiting(language: Language, parked: Sequence[tuple[int, str, int]]) -> str:
    """Remind of calls that wait since earlier runs; each row has a number, the question and its age in days.

    Return an empty text without rows.
    """
    if not parked:
        return ""
    head = gettext(language, "⏳ Not done in this run, because it still waits for your answer:")
    parts = [head]
    for number, question, days in parked:
        shown = question if len(question) <= MOST_REPEATED else f"{question[:MOST_REPEATED]} …"
        parts.append(f"{numbered(number, shown)}\n{_asked(language, days)}")
    parts.append(how_to_answer(language, [number for number, _, _ in parked], "/yes", "/no"))
    return "\n\n".join(parts)


def _asked(language: Language, days: int) -> str:
    if not days:
        return gettext(language, "(asked less than a day ago)")
    return ngettext(language, "(asked {count} day ago)", "(asked {count} days ago)", days)


def granted(language: Language, schedule: int, grants: Sequence[GrantText], until: datetime) -> str:
    """Say exactly what a schedule may do in each run, until when, and how to take it back."""
    first = gettext(
        language,
        "🔁 Schedule {schedule} may do this in each run without asking, until {until}:",
        schedule=schedule,
        until=full_date(language, until),
    )
    last = gettext(
        language, "To take it back: /schedules revoke {schedule}. A new text ends it, too.", schedule=schedule
    )
    return "\n".join([first, "```", *grant_lines(language, grants), "```", last])


def grant_lines(language: Language, grants: Sequence[GrantText]) -> list[str]:
    """Return a line for each value of the grants: tools, servers, addresses and destinations."""
    lines = list[str]()
    for grant in grants:
        often = ngettext(
            language, "at most {count} time per run", "at most {count} times per run", grant.most
        )
        lines.append(f"{visible(grant.tool)}: {often}")
        lines += [f"  {visible(address)}" for address in grant.addresses]
        if grant.host and not grant.addresses:
            lines.append(f"  {visible(grant.host)}")
            lines.append(f"  {gettext(language, '(pages whose address has only words of the schedule)')}")
        lines += [
            f"  {visible(path) or gettext(language, 'any destination')}: {visible(text)}"
            for path, text in grant.to
        ]
        if grant.numbers:
            lines.append(f"  {gettext(language, '(other numbers are allowed, such as those of a date)')}")
    return lines


def nothing_granted(language: Language, schedule: int) -> str:
    """Say that a schedule has no standing approval, and how to give one."""
    return gettext(
        language,
        "Schedule {schedule} asks for each call that needs a yes. When it asks, answer with /yes 1 {always} "
        "to allow the call in each run.",
        schedule=schedule,
        always=always(language),
    )


def revoked(language: Language, schedule: int) -> str:
    """Say that the standing approval of a schedule was taken back."""
    return gettext(
        language, "🔒 Schedule {schedule} asks again for each call that needs a yes.", schedule=schedule
    )


def edited(language: Language, schedule: int, text: str, *, ended: bool) -> str:
    """Say that a schedule has a new text, and whether that ended its standing approval."""
    said = gettext(language, "✏️ Schedule {schedule} has a new text: “{text}”", schedule=schedule, text=text)
    if not ended:
        return said
    then = gettext(
        language, "🔒 What it was allowed to do without asking has ended: it asks again in its next run."
    )
    return f"{said}\n{then}"


def ended(language: Language, schedule: int, why: str) -> str:
    """Say at the end of a run why a standing approval was not used."""
    reason = {
        "edited": gettext(language, "its text was changed"),
        "owner": gettext(language, "it belongs to somebody else now"),
        "rights": gettext(language, "the person who allowed it no longer may"),
        "expired": gettext(language, "its time is over"),
        "revoked": gettext(language, "it was taken back"),
    }[why]
    return gettext(
        language,
        "🔒 What schedule {schedule} was allowed to do without asking has ended, because {reason}.",
        schedule=schedule,
        reason=reason,
    )


def only_once(language: Language, number: int, why: str) -> str:
    """Say why a call is allowed once only, although its answer allowed it for all runs."""
    reason = {
        "never": gettext(
            language,
            "what changes or deletes something for good, costs money, or has no exact destination is never "
            "allowed in advance",
        ),
        "schedule": gettext(language, "only what a recurring schedule asks can be allowed in advance"),
        "edited": gettext(language, "the schedule was changed after the question"),
        "person": gettext(language, "only the schedule's person or an admin may do that"),
        "many": gettext(language, "the schedule has too many such permissions already"),
    }[why]
    return gettext(language, "🔂 {number} is allowed this once only: {reason}.", number=number, reason=reason)
