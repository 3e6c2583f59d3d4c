"""The interface through which chats, tools and other processes use schedules; it also executes firings."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import trio
from typing_extensions import override

from actors import ActorError, ActorRef
from rumi.agent.permissions.rights import RightsError
from rumi.agent.permissions.standing import ToolVersion
from rumi.chats.commands import ChatCommand
from rumi.chats.hub import Hub
from rumi.chats.people.people import People
from rumi.chats.services import CommandReply
from rumi.errors import RumiError, UsageError
from rumi.platform.chat_ids import ChatIds
from rumi.platform.config.schema import GroupSection, SchedulesSection
from rumi.platform.logs.audit import AuditLog
from rumi.platform.printable import flat
from rumi.platform.texts import schedules as schedule_texts
from rumi.platform.texts import standing as standing_texts
from rumi.platform.texts.tasks import shortly
from rumi.platform.texts.translation import error_text
from rumi.store.journal.records import Fired, Firing, Incoming, ScheduleRecord, TaskRecord
from rumi.store.journal.schedules import fire_schedules
from rumi.store.journal.transaction import JournalMessage
from rumi.tasks.schedules.approvals import approval_words
from rumi.tasks.schedules.checking import Checks
from rumi.tasks.schedules.firing import MakeTask, in_words, last_in_words, next_in_words, research_of, work
from rumi.tasks.schedules.snoozing import snooze_command
from rumi.tasks.schedules.sources import WatchSources
from rumi.tasks.schedules.stored import StoredSchedules, bot_of
from rumi.tasks.schedules.times import NotATime, QuietHours, quiet_hours
from rumi.tasks.schedules.watched import runs_commands, watched_by, watches
from rumi.tasks.schedules.when import read_when_and_text
from rumi.tasks.tasks import Tasks
from rumi.texts import Language, gettext

logger = logging.getLogger(__name__)

MOST_ZONE_CHARS: Final = 60
"""Maximum length of an unknown zone's name in a reply."""

SOON_S: Final = 300.0
"""A daemon that is not a service keeps running if a schedule fires within this time, in seconds."""


@dataclass(frozen=True, slots=True)
class ScheduleServices:
    """The services that schedules use, wired by `rumi.app.tree`.

    `wake` delivers a stored message to its chat. `bot` returns the task that a schedule of a bot starts; it
    is None if there are no bots. `has_bot` returns True for the name of a bot. `stays` means that this
    process keeps running without attached clients. `group_of` returns the settings of the group of a chat.
    `admins` returns the chats of the people who are told that nothing can be delivered to a chat any more;
    they are told in `language`. `sources` read what schedules watch; None if nothing can be watched.
    `version_of` returns the accepted description of another program's tool.
    """

    journal: ActorRef[JournalMessage]
    tasks: Tasks
    hub: Hub
    ids: ChatIds
    wake: Callable[[Incoming], None]
    audit: AuditLog | None = None
    limits: SchedulesSection = field(default_factory=SchedulesSection)
    now: Callable[[], float] = time.time
    bot: MakeTask | None = None
    has_bot: Callable[[str], bool] = lambda name: False
    stays: bool = True
    people: People = field(default_factory=People)
    group_of: Callable[[str], GroupSection] = lambda chat: GroupSection()
    admins: Callable[[str], Sequence[str]] = lambda chat: ()
    version_of: Callable[[str], ToolVersion | None] = lambda name: None
    language: Language = "en"
    sources: WatchSources | None = None


class Schedules(StoredSchedules):
    """Adds and fires schedules. `next_at` is the next known fire time, in seconds since 1970.

    `changed_at` is the time at which a check has last begun work.
    """

    def __init__(self, services: ScheduleServices) -> None:
        super().__init__(
            services.journal.ask, services.limits, services.now, services.has_bot, services.version_of
        )
        self.services = services
        self.next_at = float("inf")
        self.changed_at = float("-inf")
        self.to_look = trio.Event()
        self.fired = trio.Event()
        self.taken_over = False
        self._firing = trio.Lock()
        self.checks = Checks(services, self.checked, self.task_of, self._checked)

    @override
    def checked(self, new: ScheduleRecord) -> ScheduleRecord:
        """Return a schedule unchanged if it can start its work; see `StoredSchedules.checked`."""
        if runs_commands(super().checked(new)):
            self._check_commands(new)
        return new

    def _check_commands(self, schedule: ScheduleRecord) -> None:
        """Raise a `RumiError` if the person of a schedule may not run commands, or not this one."""
        rights = self.services.people.of_schedule(schedule).rights
        if not rights.may_use("bash"):
            what = gettext(schedule.language, "commands")
            raise RightsError(
                "The role {role} does not allow {what}.", "Ask an admin.", role=rights.role, what=what
            )
        if schedule.kind == "run" and self.services.sources is not None:
            self.services.sources.policy_of(schedule.chat).parse(schedule.text)

    @override
    async def edit(
        self, id: int, owner: str | None, text: str, may: Callable[[ScheduleRecord], bool] = lambda one: True
    ) -> tuple[ScheduleRecord, bool]:
        """Replace a schedule's text; a new command is checked now, not when it fires."""
        found = await self.show(id, owner)
        if found.kind == "run" and may(found):
            self._check_commands(replace(found, text=text))
        return await super().edit(id, owner, text, may)

    @override
    async def first_read(self, new: ScheduleRecord) -> ScheduleRecord:
        """Return a new schedule with the first reading of what it watches.

        Raises:
            RumiError: It cannot be read.
        """
        return replace(new, checked=await self.checks.first_reading(new)) if watches(new) else new

    def _checked(self, firing: Firing | None, fired: Fired, told: Incoming | None) -> None:
        """Deliver what a check has stored."""
        if firing is not None:
            self.changed_at = self.services.now()
            self._deliver(firing, fired)
        if told is not None:
            self.services.wake(told)

    @override
    def quiet_of(self, chat: str) -> QuietHours | None:
        """Return the quiet hours of a chat: those of its group, or else those of all schedules."""
        return quiet_hours(self.services.group_of(chat).quiet) or super().quiet_of(chat)

    @override
    def most_of(self, schedule: ScheduleRecord) -> tuple[int | None, tuple[int, ...]]:
        """Return the maximum number of schedules for the role of a schedule's user, and the user's ids."""
        return self.services.people.most_schedules(schedule)

    # For chats

    async def command(
        self, message: Incoming, language: Language, command: ChatCommand
    ) -> str | CommandReply:
        """Execute `/remind WHEN TEXT`, `/schedules`, `/snooze WHEN` or `/timezone ZONE`; return the reply."""
        owner = self.services.ids.owner_of(message.chat)
        try:
            match command.name:
                case "remind":
                    return await self._remind(message, language, owner, command.rest)
                case "snooze":
                    ask = self.services.journal.ask
                    return await snooze_command(self, ask, owner, message, language, command.rest)
                case "timezone":
                    return await self._timezone(language, owner, command.rest)
                case _:
                    return await self._schedules(message, language, owner, command.rest)
        except RumiError as error:
            return f"❌ {error_text(language, error)}"
        except ActorError as error:
            logger.warning("schedules do not answer: %r", error)
            return f"❌ {gettext(language, 'The schedules do not answer. Try again in a moment.')}"

    async def _remind(self, message: Incoming, language: Language, owner: str, said: str) -> str:
        read = read_when_and_text(said)
        if read is None:
            return schedule_texts.schedule_usage(language)
        when, text = read
        new = ScheduleRecord(
            *(owner, message.chat, "text", text),
            language=language,
            message=message.id,
            user=message.user,
            asked_at=message.said_at,
        )
        return self.understood(await self.add(new, when), language)

    async def _timezone(self, language: Language, owner: str, zone_name: str) -> str:
        try:
            zone = await (self.set_zone(owner, zone_name) if zone_name else self.zone_of(owner))
        except NotATime as error:
            return schedule_texts.zone_unknown(language, zone_name[:MOST_ZONE_CHARS], str(error))
        now = in_words(self.services.now(), zone, language) if zone else ""
        return schedule_texts.zone_is(language, zone, now)

    async def _schedules(self, message: Incoming, language: Language, owner: str, said: str) -> str:
        do, _, number = said.partition(" ")
        id = _number(number)
        match do:
            case "":
                return self.list_in_words(await self.listed(owner), language)
            case "pause" if id:
                await self.pause(id, owner)
                return schedule_texts.schedule_changed(language, id, "pause")
            case "resume" if number.strip() == "all":
                resumed = [
                    (one.id, next_in_words(one, language))
                    for one in await self.resume_all(owner, message.chat)
                ]
                return schedule_texts.schedules_resumed(language, resumed)
            case "resume" if id:
                schedule = await self.resume(id, owner)
                return schedule_texts.schedule_changed(
                    language, id, "resume", next_in_words(schedule, language)
                )
            case "run" if id:
                await self.run(id, owner, message.id)
                return schedule_texts.schedule_changed(language, id, "run")
            case "approve" if id:
                schedule = await self.show(id, owner)
                return approval_words(language, schedule, self.approvals.valid(schedule))
            case "revoke" if id:
                await self.approvals.revoke(id, owner)
                return standing_texts.revoked(language, id)
            case "edit" if (edited := _numbered_text(number)) is not None:
                return await self._edit(message, language, owner, *edited)
            case "delete" if id:
                await self.delete(id, owner)
                return schedule_texts.schedule_changed(language, id, "delete")
            case _:
                return schedule_texts.schedules_usage(language)

    async def _edit(self, message: Incoming, language: Language, owner: str, id: int, text: str) -> str:
        people = self.services.people

        def may(schedule: ScheduleRecord) -> bool:
            return people.may_approve(people.of(message), schedule)

        schedule, ended = await self.edit(id, owner, text, may)
        return standing_texts.edited(language, id, shortly(schedule.text), ended=ended)

    def list_in_words(
        self, schedules: tuple[ScheduleRecord, ...], language: Language, *, reasons: bool = True
    ) -> str:
        """Return a list of schedules in Markdown; with `reasons`, it has text from outside."""
        return schedule_texts.schedule_list(
            language,
            [
                (
                    *(s.id, s.kind, s.state, s.reason, next_in_words(s, language), s.text),
                    schedule_texts.if_changed(language, [shortly(flat(one.what)) for one in watched_by(s)]),
                    last_in_words(s, language, self.services.now(), reasons=reasons),
                )
                for s in schedules
            ],
        )

    def understood(self, schedule: ScheduleRecord, language: Language) -> str:
        """Return the confirmation of a new schedule. It names the command that changes the schedule."""
        quiet = ""
        if schedule.next_at > schedule.instant:
            quiet = in_words(schedule.next_at, schedule.zone, language)
        when = next_in_words(schedule, language)
        stays = self.services.stays
        return schedule_texts.schedule_set(
            language, schedule.id, schedule.kind, when, schedule.text, stays=stays, quiet=quiet
        )

    # For chats, tools and other processes

    @override
    async def run(self, id: int, owner: str | None, number: int = 0) -> ScheduleRecord:
        """Fire a schedule now; its next fire time does not change.

        `number` identifies the message that asked for this. If the message is handled again, the schedule
        does not fire again.

        Raises:
            UsageError: The schedule is unknown.
        """
        schedule = await self.show(id, owner)
        now = self.services.now()
        firing = work(schedule, Firing(id, now, of=now, number=number or _no_message(now)), "", self.task_of)
        await self.do((firing,))
        self.changed()
        return schedule

    def task_of(self, schedule: ScheduleRecord) -> TaskRecord:
        """Return the task that a firing of the schedule starts.

        Raises:
            RumiError: The task cannot be started now.
        """
        make = research_of if schedule.kind == "research" else self.services.bot
        if make is None:
            raise UsageError(
                "Unknown bot {schedule}.",
                "Look at the list: rumi bot list",
                schedule=f"{bot_of(schedule)[:80]!r}",
            )
        task = replace(make(schedule), schedule=schedule.id, user=schedule.user)
        self.services.tasks.check_open_limit(task.owner)
        return self.services.tasks.checked(task)

    async def do(self, firings: tuple[Firing, ...]) -> tuple[Fired, ...]:
        """Store firings in one transaction, and deliver their messages and tasks."""
        # `pause_all` takes the same lock: when it returns, no stored firing waits for its delivery.
        async with self._firing:
            done = await self.services.journal.ask(fire_schedules(firings))
            for firing, fired in zip(firings, done, strict=True):
                self._deliver(firing, fired)
        return done

    def _deliver(self, firing: Firing, fired: Fired) -> None:
        if fired.task is not None:
            self.services.tasks.begun(fired.task)
        if fired.message is not None:
            self.services.wake(fired.message)
        self._note(firing, fired)

    @override
    async def _set(self, schedule: ScheduleRecord, *, paused: bool) -> ScheduleRecord:
        self.checks.cancel(schedule.id)
        return await super()._set(schedule, paused=paused)

    @override
    async def delete(self, id: int, owner: str | None, turn: str = "") -> None:
        """Delete a schedule, and cancel its check; see `StoredSchedules.delete`."""
        await super().delete(id, owner, turn)
        self.checks.cancel(id)

    @override
    async def pause_all(self) -> int:
        """Pause all active schedules of all owners; return the number of paused schedules.

        When this returns, the messages and tasks of all earlier firings have been delivered.
        """
        self.checks.cancel()
        async with self._firing:
            return await super().pause_all()

    def _note(self, firing: Firing, fired: Fired) -> None:
        what = "missed" if firing.missed else "fired" if fired.message or fired.task else ""
        if what and self.services.audit is not None:
            chat = fired.message.chat if fired.message else fired.task.chat if fired.task else ""
            self.services.audit.write(
                f"schedule_{what}", chat_id=chat, schedule=firing.schedule, missed=firing.missed
            )

    async def take_over(self, numbers: frozenset[int]) -> None:
        """Start firing the schedules in partitions that this worker now serves."""
        self.taken_over = True
        self.to_look.set()
        self.to_look = trio.Event()

    async def hand_over(self, numbers: frozenset[int], patience_s: float) -> None:
        """Do nothing: the queries for due schedules cover only the partitions that this worker serves."""

    @override
    def changed(self) -> None:
        """Wake the clock after a schedule was changed or fired, so that it reads the next fire time."""
        # Waiters hold the old event, so it is replaced after the set.
        self.to_look.set()
        self.to_look = trio.Event()

    # For a daemon that only runs for its attached clients

    @property
    def soon(self) -> bool:
        """Return True if a schedule fires within the next `SOON_S` seconds."""
        return self.next_at - self.services.now() <= SOON_S

    async def none_soon(self) -> None:
        """Wait until no schedule fires within the next `SOON_S` seconds."""
        while self.soon:
            with trio.move_on_after(1 + max(0.0, self.next_at - self.services.now())):
                await self.fired.wait()


def _number(text: str) -> int:
    text = text.strip().removeprefix("#")
    return int(text) if text.isdecimal() and len(text) <= 18 else 0


def _numbered_text(said: str) -> tuple[int, str] | None:
    """Parse a schedule's number and a text; None if one of them is missing."""
    first, _, text = said.strip().partition(" ")
    id = _number(first)
    return (id, text.strip()) if id and text.strip() else None


def _no_message(now: float) -> int:
    """Return a unique number for a manual firing that no message requested: the time in microseconds."""
    return int(now * 1e6)
