"""Stores what was found in a foreign home: the one writer for all programs.

Each session, each schedule, all facts, each skill and each change of config.toml is stored completely or not
at all, and recognized by a later import. So an import that was killed is completed by the next one.
"""

import json
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from rumi.agent.skills.catalogue import Catalogue, sources
from rumi.agent.skills.disabled import DisabledSkills, set_disabled
from rumi.agent.skills.format import FILE, same
from rumi.app.moving.records import (
    ForeignHome,
    MovedPerson,
    MovedSchedule,
    MovedSession,
    MovedSkill,
    NotImported,
    Part,
    number_of,
)
from rumi.app.moving.report import ImportReport, PartFigures
from rumi.app.people_calls import set_person
from rumi.errors import RumiError
from rumi.memory.actor import AskMemory
from rumi.memory.messages import MAX_FACTS
from rumi.memory.moving_in import FREE, FactFromOutside, FactMoved, move_facts_in
from rumi.platform.atomic_write import atomic_write, new_folder
from rumi.platform.chat_ids import DEFAULT_CHAT, LOCAL
from rumi.platform.config.cascade import Loaded
from rumi.platform.config.editing import set_keys
from rumi.platform.config.providers import PROVIDERS
from rumi.platform.home import Home
from rumi.platform.openat import read_foreign
from rumi.platform.threads import Threads
from rumi.platform.zones import zone_of_machine
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.moving_in import (
    TurnFromOutside,
    move_schedule_in,
    move_session_in,
    schedules_moved_in,
    turns_moved_in,
)
from rumi.store.journal.records import ScheduleRecord
from rumi.store.journal.schedules import set_zone, zone_of
from rumi.tasks.schedules.times import NotATime, following
from rumi.texts import Language, Text, gettext, os_error

FOLDER: Final = "imports"
"""The folder in the home with the reports, and with files that are kept but not used."""

_WHY_NO_FACT: Final[dict[FactMoved, Text]] = {
    "secret": Text("they look like passwords, keys or numbers of cards"),
    "forgotten": Text("you had Rumi forget their keys a short while ago"),
    "full": Text("the memory is full: there is room for {most} facts", most=MAX_FACTS - FREE),
    "refused": Text("they are empty or too long"),
}


@dataclass(frozen=True, slots=True)
class Into:
    """Where the import stores things: the locked home with its databases. `tell` shows what is stored."""

    home: Home
    loaded: Loaded
    journal: AskJournal
    memory: AskMemory
    language: Language
    tell: Callable[[str], None] = lambda what: None

    @property
    def config(self) -> Path:
        """The path of config.toml, which may not exist."""
        return self.home.root / "config.toml"


class HomeWriter:
    """Stores one `ForeignHome`, or with `dry` only says what would be stored.

    Cancelled between two steps, it leaves what was stored; the next import adds the rest.
    """

    def __init__(self, into: Into, moved: ForeignHome, *, dry: bool) -> None:
        self._into = into
        self._moved = moved
        self._dry = dry
        self._threads = Threads()
        self._report = ImportReport(moved.kind, moved.home, dry, time.time(), left_out=list(moved.left_out))

    async def move_in(self, parts: tuple[Part, ...], *, people: bool) -> ImportReport:
        """Store the `parts`; people only if a person has allowed them with `people`.

        Raises:
            RumiError: The home's databases or files cannot be written.
        """
        work: dict[Part, Callable[[PartFigures], Awaitable[None]]] = {
            "sessions": self._sessions,
            "memory": self._memory,
            "skills": self._skills,
            "schedules": self._schedules,
            "config": self._config,
            "people": partial(self._people, people),
        }
        self._report.left_out = [one for one in self._report.left_out if one.part in parts]
        for part, move in work.items():
            if part in parts:
                await move(self._report.parts.setdefault(part, PartFigures()))
        return self._report

    async def save(self) -> None:
        """Store the report in the home.

        Raises:
            OSError: The file cannot be written.
        """
        await self._threads(self._save)

    def _leave(self, part: Part, what: str, why: Text, count: int = 1) -> None:
        self._report.left_out.append(NotImported(part, what, why, count))

    async def _sessions(self, figures: PartFigures) -> None:
        source = f"import-{self._moved.kind}"
        oldest = time.time() - (self._into.loaded.settings.session.retention_s or float("inf"))
        expired = [one for one in self._moved.sessions if one.at < oldest]
        if expired:
            why = Text("older than session.keep_days, so Rumi would delete them")
            self._leave("sessions", "", why, len(expired))
        for session in self._moved.sessions:
            if session.at < oldest:
                continue
            known = await self._into.journal(turns_moved_in(session.chat, source))
            turns = self._turns(session)
            new = [turn for turn in turns if turn.number not in known]
            figures.within += len(new)
            figures.count(session.title or session.chat, bool(new))
            if new and not self._dry:
                self._into.tell(session.title)
                await self._into.journal(move_session_in(session.chat, source, session.title, turns))
                self._report.chats.append(session.chat)

    def _turns(self, session: MovedSession) -> tuple[TurnFromOutside, ...]:
        # Views show a reply to each message, so one without an answer gets a remark.
        nothing = gettext(self._into.language, "(No answer was stored.)")
        return tuple(
            TurnFromOutside(number_of(turn.key), turn.text, turn.at, turn.entries, turn.reply or nothing)
            for turn in session.turns
        )

    async def _memory(self, figures: PartFigures) -> None:
        kind = self._moved.kind
        facts = tuple(
            FactFromOutside(one.key, one.value, f"import {kind}: {one.source}"[:200])
            for one in self._moved.facts
        )
        outcomes = await self._into.memory(move_facts_in(LOCAL, facts, self._dry)) if facts else ()
        why: dict[tuple[FactMoved, str], int] = {}
        for found, outcome in zip(self._moved.facts, outcomes, strict=True):
            if outcome in ("new", "here"):
                figures.count(f"{found.key}: {found.value}", outcome == "new")
            else:
                why[outcome, found.source] = why.get((outcome, found.source), 0) + 1
        for (outcome, source), count in why.items():
            self._leave("memory", source, _WHY_NO_FACT[outcome], count)
        if self._moved.texts:
            self._report.kept = await self._threads(self._keep_texts)

    def _keep_texts(self) -> list[str]:
        folder = self._into.home.root / FOLDER / self._moved.kind
        kept: list[str] = []
        for text in self._moved.texts:
            path = folder / text.name
            try:
                if not self._dry:
                    _make(folder)
                    atomic_write(path, text.content)
                kept.append(str(path))
            except OSError as error:  # for example, its name is too long, or a folder has it
                self._leave("memory", text.name, Text("{why}", why=os_error(error)))
        return kept

    async def _skills(self, figures: PartFigures) -> None:
        await self._threads(partial(self._move_skills, figures))

    def _move_skills(self, figures: PartFigures) -> None:
        root = self._into.home.root
        disabled = DisabledSkills(self._into.config, os.environ)
        found = sources(root, self._into.loaded.settings.skills.dirs)
        taken = {
            same(entry.skill.name): entry.skill.folder for entry in Catalogue(found).look().listed.entries
        }
        coming: dict[str, MovedSkill] = {}
        for skill in self._moved.skills:
            if (other := coming.get(same(skill.name))) is not None:  # two skills of the other program
                if _words(other) == _words(skill):
                    figures.count(skill.name, False)
                else:
                    self._leave("skills", skill.name, Text("another skill has its name"))
                continue
            there = taken.get(same(skill.name), root / "skills" / skill.name)
            if os.path.lexists(there):
                if _is_same(there, skill):
                    figures.count(skill.name, False)
                else:
                    self._leave("skills", skill.name, Text("another skill has its name"))
                continue
            if disabled.is_overridden and same(skill.name) not in disabled().names:
                # It would be on, and a foreign skill is on only if a person wants that.
                self._leave("skills", skill.name, Text("RUMI_SKILLS__DISABLED would leave it on"))
                continue
            coming[same(skill.name)] = skill
            figures.count(skill.name, True)
            if not self._dry:
                # Off first: killed in between, the folder is not there.
                set_disabled(self._into.config, skill.name, off=True)
                _make(there.parent)
                with new_folder(there) as draft:
                    for path, content in skill.files:
                        (draft / path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                        (draft / path).write_bytes(content)

    async def _schedules(self, figures: PartFigures) -> None:
        known = await self._into.journal(schedules_moved_in(LOCAL))
        own = await self._into.journal(zone_of(LOCAL)) or self._moved.zone or zone_of_machine()
        most = self._into.loaded.settings.schedules.max_per_owner
        for schedule in self._moved.schedules:
            record = self._record(schedule, own)
            shown = schedule.name or schedule.text[:60]
            if record is None:
                self._leave("schedules", shown, Text("its time never comes"))
            elif record.options in known or self._dry:
                figures.count(shown, record.options not in known)
            elif await self._into.journal(move_schedule_in(record, most)) == "full":
                self._leave("schedules", shown, Text("there are {most} schedules already", most=most))
            else:
                figures.count(shown, True)

    def _record(self, schedule: MovedSchedule, own: str) -> ScheduleRecord | None:
        zone = schedule.zone or own
        at = schedule.instant
        if schedule.cron:
            try:
                at = following(schedule.cron, zone, time.time())
            except NotATime:
                return None
        return ScheduleRecord(
            owner=LOCAL,
            chat=DEFAULT_CHAT,
            kind=schedule.action,
            text=schedule.text,
            options=json.dumps({"import": f"{self._moved.kind} {schedule.id[:200]}"}),
            cron=schedule.cron,
            zone=zone,
            instant=at,
            state="paused",
            language=self._into.language,
            tainted=True,
        )

    async def _config(self, figures: PartFigures) -> None:
        if self._moved.zone:
            known = await self._into.journal(zone_of(LOCAL))
            if known not in ("", self._moved.zone):
                self._leave("config", self._moved.zone, Text("you have chosen another time zone"))
            else:
                figures.count(self._moved.zone, not known)
                if not known and not self._dry:
                    await self._into.journal(set_zone(LOCAL, self._moved.zone))
        await self._threads(partial(self._set_keys, figures))

    def _set_keys(self, figures: PartFigures) -> None:
        for key, value in self._moved.settings.items():
            shown = f"{key} = {value}"
            current = self._into.loaded.settings.model.default
            if value == current:
                figures.count(shown, False)
            elif self._into.loaded.origins.get(key, "default") != "default":
                self._leave("config", shown, Text("you have chosen another value"))
            elif not self._has_key(value.partition(":")[0]):
                self._leave("config", shown, Text("Rumi has no key of this provider: rumi setup asks for it"))
            else:
                try:
                    if not self._dry:
                        set_keys(self._into.config, {key: value})
                    figures.count(shown, True)
                except RumiError:
                    self._leave("config", shown, Text("Rumi does not accept the value"))

    def _has_key(self, provider: str) -> bool:
        """Return True if a model of the provider can answer, as far as its key is concerned."""
        try:
            return PROVIDERS[provider].key is None or self._into.loaded.key(provider) is not None
        except RumiError:
            return False

    async def _people(self, allowed: bool, figures: PartFigures) -> None:
        settings = self._into.loaded.settings
        telegram = settings.telegram
        known = {id for person in settings.people.values() for id in person.telegram}
        known |= {*telegram.allowed_users, *telegram.admins}
        for person in self._moved.people:
            if person.telegram in known:
                figures.count(person.name, False)
            elif self._dry:
                figures.count(f"{person.name} ({person.telegram})", True)
                self._report.people.append(f"{person.name} ({person.telegram})")
            elif not allowed:
                why = Text(
                    "nobody gets rights unasked: rumi config people add {name} --telegram {id} --role guest",
                    name=person.name,
                    id=person.telegram,
                )
                self._leave("people", person.name, why)
            else:
                await self._add_person(person, figures)

    async def _add_person(self, person: MovedPerson, figures: PartFigures) -> None:
        name = (
            person.name if person.name not in self._into.loaded.settings.people else f"user{person.telegram}"
        )
        try:
            await self._threads(partial(set_person, self._into.home.root, name, (person.telegram,), "guest"))
        except RumiError as error:
            self._leave("people", name, Text("{why}", why=error.message))
            return
        figures.count(f"{name} ({person.telegram})", True)
        self._report.people.append(f"{name} ({person.telegram})")

    def _save(self) -> None:
        folder = self._into.home.root / FOLDER
        _make(folder)
        day = time.strftime("%Y-%m-%d", time.localtime(self._report.at))
        path, number = folder / f"{day}-{self._moved.kind}.json", 1
        while os.path.lexists(path):
            number += 1
            path = folder / f"{day}-{self._moved.kind}-{number}.json"
        self._report.file = path
        content = json.dumps(self._report.as_json(self._into.language), indent=2, ensure_ascii=False)
        atomic_write(path, content.encode("utf-8", "replace") + b"\n")


def _make(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _is_same(folder: Path, skill: MovedSkill) -> bool:
    """Return True if the folder has the same SKILL.md."""
    words = _words(skill)
    try:
        return read_foreign(folder / FILE, len(words)) == words
    except OSError:
        return False


def _words(skill: MovedSkill) -> bytes:
    return next(content for path, content in skill.files if path == FILE)
