"""Finds the folders with a `SKILL.md` below a source of skills.

A skill may lie in the source's folder itself, in a folder of it, or in categories and repositories:
`writing/summary/SKILL.md`, `REPOSITORY/plugins/NAME/skills/summary/SKILL.md`. Depth and number of the folders
that are searched are limited. What is not searched or not loaded is reported.
"""

import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from rumi.agent.skills.folder import stamp
from rumi.agent.skills.format import FILE, slug
from rumi.agent.skills.messages import SkillSource
from rumi.texts import Text, os_error

MOST_IN_A_SOURCE: Final = 5_000
MOST_FOLDERS: Final = 5_000
"""Maximum number of folders without a `SKILL.md` that are searched in a source."""
DEEPEST: Final = 8

_SETTLED_NS: Final = 50_000_000  # file times are coarse: a later change may have the same time as this one
_NOT_SEARCHED: Final = frozenset({"node_modules", "__pycache__"})
_SEARCHED_HIDDEN: Final = frozenset({".agents", ".claude", ".curated", ".experimental", ".system"})
_CONTAINERS: Final = _SEARCHED_HIDDEN | {"plugins", "skills"}
"""Names of folders that say nothing about their skills. Of the hidden folders, only these are searched."""
_ARCHIVES: Final = (".skill", ".zip")


@dataclass(frozen=True, slots=True)
class Place:
    """A folder with a `SKILL.md`: its path, the file's status, and the categories that it lies in."""

    path: str
    status: os.stat_result
    categories: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Listing:
    """What is in a folder without a `SKILL.md`. Links count as folders if they lead to one."""

    folders: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(slots=True)
class _Search:
    """One search: the folders of the next level, and what was found so far."""

    waiting: list[tuple[str, ...]] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    too_deep: list[str] = field(default_factory=list)
    searched: int = 0


class Finder:
    """Finds the skills of a source again and again; folders that have not changed are not listed again."""

    def __init__(self, source: SkillSource) -> None:
        self._source = source
        self._top = str(source.folder)
        self._known: dict[str, tuple[object, _Listing]] = {}

    def find(self) -> tuple[list[Place], list[str]]:
        """Return the places of skills, upper ones first, and a line about each folder that is left out.

        The skills of a level are sorted by their paths. Blocks briefly.
        """
        known, self._known = self._known, {}
        search = _Search([()])
        for depth in range(DEEPEST + 1):
            level, search.waiting = search.waiting, []
            for parts in level:
                self._visit(search, parts, known, last=depth == DEEPEST)
                if len(search.places) > MOST_IN_A_SOURCE:
                    search.problems.append(
                        f"{self._top}: it has more than {MOST_IN_A_SOURCE} skills; the rest is left out"
                    )
                    return search.places[:MOST_IN_A_SOURCE], search.problems
                if search.searched > MOST_FOLDERS:
                    search.problems.append(
                        Text(
                            "{path}: it has more than {most} folders, and the rest is not searched",
                            path=self._top,
                            most=MOST_FOLDERS,
                        )
                    )
                    return search.places, search.problems
        if search.too_deep:
            search.problems.append(
                Text("{path}: its folders lie too deep and are not searched", path=search.too_deep[0])
            )
        return search.places, search.problems

    def _visit(
        self,
        search: _Search,
        parts: tuple[str, ...],
        known: dict[str, tuple[object, _Listing]],
        *,
        last: bool,
    ) -> None:
        path = f"{self._top}/{'/'.join(parts)}" if parts else self._top
        status = _status(f"{path}/{FILE}")
        if status is not None:
            search.places.append(Place(path, status, _categories(parts[:-1])))
            inner = f"{path}/skills"
            if len(parts) == 1 and os.access(inner, os.F_OK) and _is_own_folder(inner):
                search.waiting.append((*parts, "skills"))  # a repository that is a skill and has others
            if parts:
                return  # the other folders of a skill are its own
        search.searched += 1
        signature = _signature(path)
        before = known.get(path)
        try:
            listing = before[1] if before and before[0] == signature else self._listed(path, len(parts))
        except FileNotFoundError:
            if not parts and self._source.kind == "dirs":
                search.problems.append(f"{path}: there is no such folder ([skills] dirs names it)")
            return
        except OSError as error:
            search.problems.append(
                Text("{path}: it cannot be read: {reason}", path=path, reason=os_error(error))
            )
            return
        self._known[path] = (signature, listing)
        search.problems += listing.problems
        inner_folders = [*listing.folders, *(name for name in listing.links if self._may_follow(path, name))]
        if last and inner_folders:
            search.too_deep.append(path)
        elif not last:
            search.waiting += [(*parts, name) for name in inner_folders]

    def _listed(self, path: str, depth: int) -> _Listing:
        folders: list[str] = []
        links: list[str] = []
        problems: list[str] = []
        with os.scandir(path) as entries:
            for entry in entries:
                name = entry.name
                if name in _NOT_SEARCHED or (name.startswith(".") and name not in _SEARCHED_HIDDEN):
                    continue
                if _is_folder(entry):
                    (links if entry.is_symlink() else folders).append(name)
                elif name.casefold() == FILE.casefold() and name != FILE:
                    problems.append(f"{entry.path}: it must be called {FILE}")
                elif depth < 2 and name.endswith(_ARCHIVES):
                    problems.append(Text("{path}: it is an archive: unpack it there", path=entry.path))
        if self._source.kind == "project":  # a link in a project could lead anywhere on the machine
            problems += [
                Text("{path}: it is a link, and no link in a project is followed", path=f"{path}/{name}")
                for name in sorted(links)
            ]
            links = []
        return _Listing(tuple(sorted(folders, key=_order)), tuple(sorted(links)), tuple(sorted(problems)))

    def _may_follow(self, path: str, name: str) -> bool:
        """Return False for a link to a folder that contains the link: its search would not end."""
        target, inside = os.path.realpath(f"{path}/{name}"), os.path.realpath(path)
        return not f"{inside}/".startswith(f"{target.rstrip('/')}/")


def _order(name: str) -> tuple[bool, str]:
    """Return the sort key of a folder: what lies in `skills/` comes before the rest of a repository."""
    return name not in _CONTAINERS, name


def _categories(parents: tuple[str, ...]) -> tuple[str, ...]:
    if not parents:
        return ()
    telling = [part for part in parents if part not in _CONTAINERS] or parents
    return tuple(filter(None, map(slug, telling)))


def qualified(place: Place, name: str) -> Iterator[str]:
    """Yield longer and longer names of a skill with its categories: `writing.summary`."""
    for count in range(1, len(place.categories) + 1):
        yield ".".join((*place.categories[-count:], name))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return True if an entry is a folder. For a link that leads to itself, return False without an error."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_own_folder(path: str) -> bool:
    status = _status(path)
    return status is not None and stat.S_ISDIR(status.st_mode)


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _signature(path: str) -> object:
    """Return a value that changes whenever an entry is added to a folder or removed from it."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return settled(status)


def settled(status: os.stat_result) -> object:
    """Return the stamp of a file or a folder; if it changed a moment ago, a value that equals no other."""
    return object() if abs(time.time_ns() - status.st_ctime_ns) < _SETTLED_NS else stamp(status)
