"""The catalogue of installed skills: scans their folders, and reads only folders that have changed."""

import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from rumi.agent.skills.disabled import Disabled
from rumi.agent.skills.finding import Finder, Place, qualified, settled
from rumi.agent.skills.folder import opened, read_skill_file
from rumi.agent.skills.format import CODE, FILE, decode, is_name, parse, quoted, same, slug
from rumi.agent.skills.matching import Index, weights
from rumi.agent.skills.messages import (
    InPrompt,
    Listed,
    PromptSkills,
    Skill,
    SkillEntry,
    SkillError,
    SkillSource,
    UnknownSkill,
    WhyOff,
)
from rumi.agent.skills.trust import TrustedSkills, digest_of
from rumi.platform.openat import shown
from rumi.texts import Text, os_error

NEAREST: Final = 5

BUNDLED: Final = Path(__file__).parent / "bundled"


def sources(home: Path, dirs: Iterable[str] = (), project: Path | None = None) -> tuple[SkillSource, ...]:
    """Return the folders that are searched for skills, in order of increasing priority.

    A skill from a later folder replaces a skill of the same name from an earlier folder.

    `dirs` are the configured paths: `~` is the user's home, and relative paths are below `home`, the
    installation's home. A folder that occurs twice counts only the first time. So the user's own folder of
    skills, which comes earlier, never counts as a project's folder.
    """
    found = [SkillSource("bundled", BUNDLED), SkillSource("home", home / "skills")]
    found += [SkillSource("dirs", home / os.path.expanduser(skills_dir)) for skills_dir in dirs]
    if project is not None:
        found.append(SkillSource("project", project / ".rumi" / "skills"))
    firsts = {os.path.realpath(source.folder): source for source in reversed(found)}
    return tuple(source for source in found if firsts[os.path.realpath(source.folder)] is source)


@dataclass(frozen=True, slots=True)
class _CachedFolder:
    """The cached content of one folder: a skill or an error.

    The content is valid until the folder's signature changes.
    """

    place: Place
    signature: object
    skill: Skill | None
    problem: str = ""
    words: Mapping[str, int] = field(default_factory=dict)


class CatalogueView:
    """An immutable view of the skills at one moment."""

    def __init__(
        self, entries: Sequence[SkillEntry], problems: Sequence[str], words: Mapping[Path, Mapping[str, int]]
    ) -> None:
        self.listed = Listed(tuple(entries), tuple(map(shown, problems)))
        self._by_name = {same(entry.skill.name): entry for entry in entries}
        self._on = [name for name, entry in self._by_name.items() if entry.off is None]
        self._index = Index({name: words[entry.skill.folder] for name, entry in self._by_name.items()})

    def find(self, name: str, about: str = "") -> SkillEntry | SkillError:
        """Return the skill with the given name, enabled or not, or an error that suggests similar skills."""
        for wanted in _spellings(name):
            if (entry := self._by_name.get(wanted)) is not None:
                return entry
        near = [self._by_name[key].skill.name for key in self.nearest(f"{name} {about}")]
        advice = (
            Text("The nearest are: {near}.", near=", ".join(near))
            if near
            else Text("`rumi skills list` shows the available ones.")
        )
        return UnknownSkill("Unknown skill {name}.", advice, name=quoted(name))

    def nearest(self, about: str) -> Sequence[str]:
        """Return the names of the best matching enabled skills, normalized by `same()`."""
        return self._index.matching(about, self._on, NEAREST)

    def usable(self, name: str, about: str = "") -> Skill | SkillError:
        """Return the skill with the given name if it is enabled, otherwise an error."""
        found = self.find(name, about)
        if isinstance(found, SkillError):
            return found
        return found.skill if found.off is None else SkillError(*why_off(found))

    def enabled(self) -> list[Skill]:
        """Return the enabled skills."""
        return [self._by_name[name].skill for name in self._on]

    def for_prompt(self, query: str, limit: int, noted: Iterable[str] = ()) -> PromptSkills:
        """Return the skills for a prompt; see `ForPrompt`."""
        chosen = sorted(self._on)
        if len(chosen) > limit:
            chosen = self._index.best(query, chosen)[:limit]
        skills = [self._by_name[name].skill for name in chosen]
        return PromptSkills(
            tuple(InPrompt(skill.name, skill.header.description) for skill in skills),
            more=len(self._on) - len(skills),
            tainted=not all(skill.vouched for skill in skills),
            gone=tuple(name for name in noted if isinstance(self.usable(name), SkillError)),
        )


def why_off(entry: SkillEntry) -> tuple[str, str]:
    """Return the reason why a skill is disabled, and how to enable it."""
    name = entry.skill.name
    return {
        "config": (
            Text("The skill {name} is off.", name=name),
            Text("Switch it on with: rumi skills enable {name}", name=name),
        ),
        "environment": (
            Text("The skill {name} is off: RUMI_SKILLS__DISABLED names it.", name=name),
            Text("Take it out of that variable, which overrides config.toml, and start again."),
        ),
        "itself": (
            Text("The skill {name} is off: its own SKILL.md says enabled: false.", name=name),
            Text("Change that line in {folder}", folder=entry.skill.folder / FILE),
        ),
    }[entry.off or "config"]


class Catalogue:
    """A cache of the skills in the source folders. Not thread-safe. Calls block briefly.

    `disabled` returns the currently disabled skills. Without `trusted`, no skill of a project is trusted.
    """

    def __init__(
        self,
        sources: Sequence[SkillSource],
        disabled: Callable[[], Disabled] = Disabled,
        trusted: TrustedSkills | None = None,
    ) -> None:
        self._sources = [(source, Finder(source)) for source in sources]
        self._disabled = disabled
        self._trusted = trusted
        self._found: dict[tuple[str, str], _CachedFolder] = {}
        self._seen: object = None
        self._view = CatalogueView((), (), {})

    def look(self) -> CatalogueView:
        """Scan the folders and return the current skills; read only skills that have changed.

        If no skill has changed, this returns the same view object as the previous call.
        """
        found: dict[tuple[str, str], _CachedFolder] = {}
        problems: list[str] = []
        for source, finder in self._sources:
            places, trouble = finder.find()
            problems += trouble
            for place in places:
                key = (source.kind, place.path)
                found[key] = self._one(source, place, self._found.get(key))
        disabled = self._disabled()
        # Compared by identity: an unchanged folder yields the cached object of the last scan.
        changed = found.keys() != self._found.keys() or any(
            found[key] is not self._found[key] for key in found
        )
        self._found = found
        seen = (disabled, tuple(problems))
        if changed or seen != self._seen:
            problems += [cached.problem for cached in found.values() if cached.problem]
            entries = _merged(found.values(), disabled, problems)
            words = {
                cached.skill.folder: cached.words for cached in found.values() if cached.skill is not None
            }
            self._view = CatalogueView(entries, problems, words)
            self._seen = seen
        return self._view

    def _one(self, source: SkillSource, place: Place, before: _CachedFolder | None) -> _CachedFolder:
        # A skill that changed a moment ago gets a unique signature, so that the next scan reads it again.
        signature: object = (settled(place.status), _has_code(place.path))
        # Trust decides if a project's skill is vouched for, so a change of the trust file is a change too.
        if source.kind == "project" and self._trusted is not None:
            signature = (signature, self._trusted.signature())
        if before is not None and before.signature == signature:
            return before
        folder = Path(place.path)
        try:
            skill = _load(source, folder, self._trusted)
        except SkillError as error:
            return _CachedFolder(
                place, signature, None, Text("{path}: {why}", path=folder / FILE, why=error.message)
            )
        except OSError as error:
            return _CachedFolder(
                place,
                signature,
                None,
                Text("{path}: it cannot be read: {reason}", path=folder / FILE, reason=os_error(error)),
            )
        return _CachedFolder(place, signature, skill, words=weights(skill))


def _spellings(name: str) -> Iterable[str]:
    """Yield the normalized names that a name may stand for.

    The skill `summary` of a plugin is called `plugin:summary` or `plugin/summary` by other programs.
    """
    yield same(name)
    if parts := [part for part in re.split(r"[:/]", name) if part.strip()]:
        yield same(".".join(parts))
        yield same(parts[-1])


def _has_code(folder: str | Path) -> bool:
    """Return True if the folder has a `skill.py`.

    Whether the code works is only checked when the skill is run.
    """
    try:
        return not stat.S_ISDIR(os.lstat(f"{folder}/{CODE}").st_mode)
    except OSError:
        return False


def _load(source: SkillSource, folder: Path, trusted: TrustedSkills | None) -> Skill:
    with opened(folder, own_link=source.kind != "project") as descriptor:
        raw = read_skill_file(descriptor)
    header, _ = parse(decode(raw))
    from_folder = slug(folder.name) if folder.name.isprintable() else ""
    names = (header.name, folder.name, slug(header.title), from_folder)
    name = next(filter(is_name, names), "")
    if not name:
        raise SkillError("neither its name nor its folder's is a word of letters, digits, - and _")
    vouched, words = source.kind != "project", digest_of(raw)
    if not vouched and trusted is not None:
        pin = trusted.pins().get(str(folder))
        vouched = pin is not None and pin.words == words
    return Skill(name, header, source, folder, _has_code(folder), vouched, words, own_name=name)


def _merged(found: Iterable[_CachedFolder], disabled: Disabled, problems: list[str]) -> list[SkillEntry]:
    """Return one skill for each name, from the last source that has a skill of that name.

    Of several skills of one name in one source, the uppermost and first one keeps its name; the others get
    the names of their categories before theirs. Those without a category are reported in `problems`.
    """
    by_name: dict[str, SkillEntry] = {}
    for cached in found:
        if (skill := cached.skill) is None:
            continue
        own_name, before = skill.name, by_name.get(same(skill.name))
        if before is not None and before.skill.source == skill.source:
            if before.skill.words == skill.words and skill.folder.parent != skill.source.folder:
                continue  # a copy, as repositories have them for several programs
            longer = qualified(cached.place, skill.name)
            name = next((name for name in longer if is_name(name) and same(name) not in by_name), "")
            if not name:
                problems.append(
                    f"{skill.folder / FILE}: its name is that of {before.skill.folder}, which is used instead"
                )
                continue
            note = Text(
                "it is called {name}, because {folder} has its name", name=name, folder=before.skill.folder
            )
            header = replace(skill.header, notes=(*skill.header.notes, note))
            skill, before = replace(skill, name=name, header=header), None
        off: WhyOff | None = None if skill.header.enabled else "itself"
        if not {same(skill.name), same(own_name)}.isdisjoint(disabled.names):
            off = disabled.by
        hides = (before.skill, *before.hides) if before else ()
        by_name[same(skill.name)] = SkillEntry(skill, off, hides)
    return [by_name[name] for name in sorted(by_name)]
