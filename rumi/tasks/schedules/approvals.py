"""Changes a schedule's text, and gives and takes back its standing approval, outside of its chat's turns."""

import json
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from typing import Final

from rumi.agent.permissions.exact_hosts import exact_host
from rumi.agent.permissions.standing import (
    DAYS,
    MOST_DAYS,
    MOST_GRANTS,
    MOST_PER_RUN,
    Approval,
    Grant,
    ToolVersion,
    approval_in,
    approval_json,
    renewed,
)
from rumi.errors import RumiError, UsageError
from rumi.platform.texts import standing as standing_texts
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.records import ScheduleRecord
from rumi.store.journal.standing import edit_schedule, set_approval
from rumi.texts import Language

MOST_TRIES: Final = 20
FETCH: Final = "web_fetch"
SEND_FILE: Final = "send_file"


@dataclass(frozen=True, slots=True)
class WantedApproval:
    """What a person wants to allow: exact hosts, tools by name, and the destinations of these tools.

    A destination is `NAME=VALUE`, or a value for any destination of the tools.
    """

    hosts: Collection[str] = ()
    tools: Collection[str] = ()
    to: Collection[str] = ()
    per_run: int = 1
    days: float = DAYS


@dataclass(frozen=True, slots=True)
class Approvals:
    """The standing approvals of stored schedules.

    `show` returns a schedule by its number and the owner that asks; `version_of` the accepted description of
    another program's tool, None if it is not known.
    """

    ask: AskJournal
    show: Callable[[int, str | None], Awaitable[ScheduleRecord]]
    now: Callable[[], float]
    version_of: Callable[[str], ToolVersion | None] = lambda name: None

    def valid(self, schedule: ScheduleRecord) -> Approval | None:
        """Return the approval of a schedule, None if there is none or if it has ended."""
        found = approval_in(schedule.approval)
        return None if found is None or found.why_ended(schedule, self.now()) else found

    async def edit(self, id: int, owner: str | None, text: str) -> tuple[ScheduleRecord, bool]:
        """Replace a schedule's text by words of a person, and end its approval.

        Return the schedule, and True if an approval was ended.

        Raises:
            UsageError: The schedule is unknown or done.
        """
        for _ in range(MOST_TRIES):
            schedule = await self.show(id, owner)
            found, had = approval_in(schedule.approval), self.valid(schedule) is not None
            # Kept as ended: the next run says why it asks again.
            after = "" if found is None else approval_json(replace(found, ended="edited", grants=()))
            if await self.ask(edit_schedule(schedule, text, after)):
                return replace(schedule, text=text, approval=after, tainted=False), had
            if schedule.state == "done":
                break
        raise UsageError("Schedule {id} is done.", "Look at the list of schedules.", id=id)

    async def revoke(self, id: int, owner: str | None) -> ScheduleRecord:
        """Take back the approval of a schedule. A call that has begun is not stopped.

        Raises:
            UsageError: The schedule is unknown.
        """
        return await self._set(id, owner, lambda schedule: None)

    async def approve(self, id: int, owner: str | None, wanted: WantedApproval) -> ScheduleRecord:
        """Add what the owner of the home allows to the approval of a schedule.

        Raises:
            UsageError: The schedule is unknown or of another kind, or something is never allowed.
        """
        grants = self._grants(wanted)

        def changed(schedule: ScheduleRecord) -> Approval:
            if schedule.kind != "turn" or not schedule.cron:
                raise UsageError(
                    "Schedule {id} does no recurring work in its chat.",
                    "Only such schedules can be allowed something: rumi schedule add WHEN TEXT --turn",
                    id=id,
                )
            after: Approval | None = renewed(schedule, self.now(), wanted.days)
            for grant in grants:
                after = after if after is None else after.adding(grant)
            if after is None:
                raise UsageError(
                    "A schedule may have at most {most} permissions.",
                    "Take them back first: rumi schedule approve {id} --revoke",
                    most=MOST_GRANTS,
                    id=id,
                )
            return replace(after, by=None, operator=True)

        return await self._set(id, owner, changed)

    async def _set(
        self, id: int, owner: str | None, change: Callable[[ScheduleRecord], Approval | None]
    ) -> ScheduleRecord:
        for _ in range(MOST_TRIES):
            schedule = await self.show(id, owner)
            approval = change(schedule)
            after = "" if approval is None else approval_json(approval)
            if await self.ask(set_approval(schedule, after)):
                return replace(schedule, approval=after)
        raise RumiError("Schedule {id} changes all the time.", "Pause it first, and try again.", id=id)

    def _grants(self, wanted: WantedApproval) -> list[Grant]:
        if not 0 < wanted.per_run <= MOST_PER_RUN:
            raise UsageError("A run may do it 1 to {most} times.", "Give another number.", most=MOST_PER_RUN)
        if not 0 < wanted.days <= MOST_DAYS:
            raise UsageError("A permission lasts up to {most} days.", "Give another number.", most=MOST_DAYS)
        if wanted.to and not wanted.tools:
            raise UsageError("--to belongs to a tool.", "Name the tool: --tool NAME --to VALUE")
        grants = [self._of_host(host, wanted) for host in wanted.hosts]
        grants += [self._of_tool(tool, wanted) for tool in wanted.tools]
        if not grants:
            raise UsageError(
                "Nothing is named that it may do.", "Give --host HOST, or --tool NAME --to VALUE."
            )
        return grants

    @staticmethod
    def _of_host(host: str, wanted: WantedApproval) -> Grant:
        try:
            _, origin = exact_host(host)
        except ValueError:
            raise UsageError(
                "{host} is not an exact host.",
                "Name one server, without a path or a pattern: --host example.com",
                host=f"{host[:80]!r}",
            ) from None
        return Grant(FETCH, origin, reads=True, per_run=wanted.per_run)

    def _of_tool(self, name: str, wanted: WantedApproval) -> Grant:
        version = ToolVersion("") if name == SEND_FILE else self.version_of(name)
        if version is None:
            raise UsageError(
                "Unknown tool {tool}.",
                "Only tools of MCP servers that a running Rumi has, and send_file: rumi mcp list",
                tool=f"{name[:80]!r}",
            )
        if not version.stands:
            raise UsageError(
                "{tool} may delete something for good, or cost money: that is never allowed in advance.",
                "Each call of it asks.",
                tool=name,
            )
        if not wanted.to and not version.reads:
            raise UsageError("{tool} needs an exact destination.", "Give it: --to NAME=VALUE", tool=name)
        return Grant(
            name,
            to=tuple(map(_destination, wanted.to)),
            version=version.digest,
            reads=version.reads,
            per_run=wanted.per_run,
        )


def _destination(said: str) -> tuple[str, str]:
    """Parse `NAME=VALUE` or a value; values of arguments are compared as JSON texts."""
    name, mark, value = said.partition("=")
    if not mark or not name.replace("_", "").isalnum():
        return "", said
    return name, json.dumps(value, ensure_ascii=False)


def approval_words(language: Language, schedule: ScheduleRecord, approval: Approval | None) -> str:
    """Say exactly what a schedule is allowed to do without asking, or that it asks."""
    from rumi.chats.standing import in_words  # the client's commands load no chats

    if approval is None or not approval.grants:
        return standing_texts.nothing_granted(language, schedule.id)
    return in_words(language, schedule, approval)
