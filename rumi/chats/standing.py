"""Standing approvals in a chat: runs of schedules use them, and `/yes 1 always` gives them."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from typing_extensions import override

from rumi.agent.permissions.parking import CoveringCalls, ParkedCalls
from rumi.agent.permissions.standing import (
    DAYS,
    Approval,
    Offer,
    approval_in,
    approval_json,
    bound_to,
    grant_of,
    offer_in,
    offer_json,
    renewed,
    words_of,
)
from rumi.agent.tool import Question
from rumi.chats.people.people import OWNER, People
from rumi.models.model import Message
from rumi.platform.texts import standing as standing_texts
from rumi.platform.zones import local_at
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.records import HistoryEntry, Incoming, Parked, ScheduleRecord
from rumi.store.journal.schedules import load_schedule
from rumi.store.journal.standing import set_approval
from rumi.texts import Language

MOST_TRIES: Final = 50
"""Maximum number of attempts to change an approval that other calls and people change meanwhile."""

Approve: TypeAlias = Callable[[Parked], Awaitable[str]]
"""Approves a parked call for all runs of its schedule; returns what the person is told."""


class StandingCalls(CoveringCalls):
    """The parked calls in a run of a schedule, whose standing approval covers some calls.

    `note` is called with the reason why an approval was not used. `message` is the run's message.
    """

    def __init__(
        self,
        calls: ParkedCalls,
        message: Incoming,
        ask: AskJournal,
        people: People,
        now: Callable[[], float],
        note: Callable[[str], None],
    ) -> None:
        super().__init__(calls)
        self._message = message
        self._ask = ask
        self._people = people
        self._now = now
        self._note = note
        self._schedule: ScheduleRecord | None = None

    @override
    async def take(self, call: str, question: Question) -> bool:
        """Return True if the schedule's approval covers the call; the use is stored before."""
        # Each failed attempt means that another call or a person has changed the approval.
        for _ in range(MOST_TRIES):
            self._schedule = schedule = await self._ask(load_schedule(self._message.schedule))
            approval = None if schedule is None else approval_in(schedule.approval)
            if schedule is None or approval is None or question.reach is None:
                return False
            why = approval.why_ended(schedule, self._now())
            if why is None and not _may_approve(self._people, schedule, approval):
                why = "rights"
            if why is not None:
                # Said with the question, and not again in each run that finds it without an answer.
                if not self.calls.is_known(call):
                    self._note(why)
                return False
            after = approval.take(question.reach, words_of(schedule), self._message.id)
            if after is None:
                return False
            if await self._ask(set_approval(schedule, approval_json(after))):
                return True
        return False

    @override
    async def park(self, call: str, text: str, question: Question) -> str:
        """Park a call, and offer to approve it for all runs if that is possible."""
        schedule, reach, offer, id = self._schedule, question.reach, "", self._message.schedule
        if schedule is not None and schedule.cron and reach is not None:
            offer = offer_json(Offer(bound_to(schedule), grant_of(reach, call)))
            words = words_of(schedule)

            def is_earlier(other: Parked) -> bool:
                """Return True for a question of an earlier run about the same, with another date, say."""
                before = offer_in(other.offer) if other.asked and other.schedule == id else None
                return before is not None and other.call != call and before.grant.covers(reach, words)

            await self.calls.withdraw(is_earlier)
        return await self.calls.park(call, text, question, schedule=id, at=self._now(), offer=offer)


def _may_approve(people: People, schedule: ScheduleRecord, approval: Approval) -> bool:
    """Return True if the person who gave an approval still may give it."""
    approver = OWNER if approval.operator else people.approver(schedule.chat, approval.by)
    return people.may_approve(approver, schedule)


@dataclass(frozen=True, slots=True)
class StandingAnswers:
    """Gives standing approvals on behalf of the sender of a message, in the turn `turn`."""

    ask: AskJournal
    people: People
    now: Callable[[], float]
    message: Incoming
    turn: str
    language: Language

    async def approve(self, parked: Parked) -> str:
        """Approve a parked call for all runs of its schedule; return what the person is told.

        A second call for the same answer has no additional effect.
        """
        offer, language = offer_in(parked.offer), self.language
        if offer is None:
            return standing_texts.only_once(
                language, parked.number, "never" if parked.schedule else "schedule"
            )
        for _ in range(MOST_TRIES):
            schedule = await self.ask(load_schedule(parked.schedule))
            if schedule is None or bound_to(schedule) != offer.bound:
                return standing_texts.only_once(language, parked.number, "edited")
            if not self.people.may_approve(self.people.of(self.message), schedule):
                return standing_texts.only_once(language, parked.number, "person")
            approval = renewed(schedule, self.now(), DAYS)
            approval = replace(approval, by=self.message.user, operator=self.message.unattended)
            after = approval.adding(offer.grant)
            if after is None:
                return standing_texts.only_once(language, parked.number, "many")
            if await self.ask(set_approval(schedule, approval_json(after), self.turn)):
                return in_words(language, schedule, after)
        return standing_texts.only_once(language, parked.number, "edited")


def in_words(language: Language, schedule: ScheduleRecord, approval: Approval) -> str:
    """Say exactly what an approval of a schedule allows."""
    grants = [
        standing_texts.GrantText(
            grant.tool,
            grant.host,
            grant.addresses,
            grant.to,
            grant.most,
            grant.reads and bool(grant.addresses or grant.to),
        )
        for grant in approval.grants
    ]
    until = local_at(approval.until, schedule.zone)
    return standing_texts.granted(language, schedule.id, grants, until)


def waiting_note(turn: str, waiting: Sequence[Parked], tainted: bool) -> tuple[HistoryEntry, ...]:
    """Return the entry that tells a run which calls of earlier runs wait; none if there are none.

    It names only numbers and tools: arguments may be a page's words, and would taint the turn.
    """
    if not waiting:
        return ()
    calls = ", ".join(f"{parked.number} ({parked.call.partition(' ')[0]})" for parked in waiting)
    text = (
        f"[Calls of earlier runs of this schedule still wait for the user's yes: {calls}. Do not wait for "
        "them, and do not try another way to the same end; your reply will remind the user of them.]"
    )
    return (HistoryEntry(turn, Message("system", text), tainted),)
