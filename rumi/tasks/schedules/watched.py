"""What a schedule watches for changes, what was read of it, and the difference between two readings.

A reading is compared by its text, line by line and without the spaces that layout adds. The addresses of
links count without their query, because many sites put a new number into it for each visitor.
"""

import base64
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from hashlib import sha256
from typing import Final, Literal, TypeAlias

from rumi.errors import UsageError
from rumi.platform.untrusted_text import harmless, one_line
from rumi.store.journal.records import ScheduleRecord

WatchKind: TypeAlias = Literal["page", "file", "command"]

MOST_WATCHED: Final = 5
MOST_WHAT_CHARS: Final = 2_000
KEPT_CHARS: Final = 50_000
"""Maximum length of the text that is kept of one reading. A change beyond it is found, but not shown."""

MOST_DIFF_CHARS: Final = 6_000
MOST_LINE_CHARS: Final = 400
MOST_COMPARED: Final = 800
"""Maximum number of changed lines that are compared in order; of more, only new and gone lines are shown."""

_QUERY: Final = re.compile(r"(\]\(<?[^\s)?#>]+)[?#][^\s)>]*")
_SENTENCE: Final = re.compile(r"(?<=[.!?;])\s+")
_LONG: Final = 200
_COMMAND: Final = "cmd:"
_FILE: Final = "file:"


@dataclass(frozen=True, slots=True)
class WatchItem:
    """One thing that is watched: `kind` and `what` in it, an address, a path or a command."""

    kind: WatchKind
    what: str

    @property
    def name(self) -> str:
        """Return what people write to watch it."""
        return {"page": "", "file": _FILE, "command": _COMMAND}[self.kind] + self.what


@dataclass(frozen=True, slots=True)
class SourceText:
    """What was read. `title` names it for people; both parts may be untrusted."""

    text: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Kept:
    """A stored reading: the hash of its whole text, its length, its title, and the beginning of its text."""

    hash: str
    chars: int
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class WatchState:
    """What a schedule's checks have stored: readings by name, and how many checks in a row have failed.

    `told` is the time at which people were told of the failures; 0 if they were not.
    """

    read: Mapping[str, Kept] = field(default_factory=dict)
    failed: int = 0
    told: float = 0.0


def watch_of(said: str) -> WatchItem:
    """Return what a person wants to watch: an address, `file:PATH` or `cmd:COMMAND`.

    Raises:
        UsageError: It is none of these.
    """
    text = said.strip()
    if len(text) > MOST_WHAT_CHARS:
        raise UsageError("What is watched has more than {most} characters.", most=MOST_WHAT_CHARS)
    if text.startswith(("http://", "https://")):
        return WatchItem("page", text)
    for prefix, kind in ((_FILE, "file"), (_COMMAND, "command")):
        what = text.removeprefix(prefix).strip()
        if text.startswith(prefix) and what:
            return WatchItem("file" if kind == "file" else "command", what)
    raise UsageError(
        "{said} cannot be watched.",
        "Give an address like https://example.org, file:PATH for a file of the chat, or cmd:COMMAND.",
        said=f"{text[:80]!r}",
    )


def watches_of(options: Mapping[str, object]) -> tuple[WatchItem, ...]:
    """Return what a schedule with these options watches.

    Raises:
        UsageError: It cannot be watched, or is too much.
    """
    said = options.get("if_changed") or ()
    if not isinstance(said, list | tuple) or not all(isinstance(one, str) for one in said):
        raise UsageError("What is watched must be a list of texts.")
    if len(said) > MOST_WATCHED:
        raise UsageError("A schedule watches at most {most} things.", most=MOST_WATCHED)
    return tuple(dict.fromkeys(watch_of(one) for one in said))


def watches(schedule: ScheduleRecord) -> bool:
    """Return True if a schedule only works after a change."""
    return '"if_changed"' in schedule.options


def runs_commands(schedule: ScheduleRecord) -> bool:
    """Return True if a schedule runs commands in its chat's sandbox: its work is one, or it watches one."""
    if schedule.kind == "run":
        return True
    return watches(schedule) and any(
        watch.kind == "command" for watch in watches_of(json.loads(schedule.options))
    )


# Texts


def comparable(text: str) -> str:
    """Return a text as it is compared: without the layout's spaces, and without the queries of links."""
    lines = (" ".join(line.split()) for line in _QUERY.sub(r"\1", text).splitlines())
    return "\n".join(filter(None, lines))


def kept(reading: SourceText) -> Kept:
    """Return what is stored of a reading."""
    text = comparable(reading.text)
    digest = sha256(text.encode("utf-8", "replace")).hexdigest()
    return Kept(digest, len(text), one_line(reading.title, 200), text[:KEPT_CHARS])


def difference(before: Kept, now: Kept) -> str:
    """Return the lines that are new (`+`) or gone (`-`) in a reading, within `MOST_DIFF_CHARS`."""
    old, new = _lines(before.text), _lines(now.text)
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    last = 0
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1
    old, new = old[max(0, first - 1) : len(old) - last + 1], new[max(0, first - 1) : len(new) - last + 1]
    if max(len(old), len(new)) > MOST_COMPARED:  # comparing in order takes quadratic time
        gone, come = set(old) - set(new), set(new) - set(old)
        lines = [*(f"-{line}" for line in old if line in gone), *(f"+{line}" for line in new if line in come)]
    else:
        # The first two lines name the files; a line of the text itself may begin like them.
        found = list(unified_diff(old, new, lineterm="", n=1))[2:]
        lines = [line for line in found if not line.startswith("@@")]
    if not lines:
        return "(The change is beyond the part of the text that is kept, or in the order of its lines.)"
    return _within(lines)


def _lines(text: str) -> list[str]:
    """Return the lines of a text; long lines are divided at their sentences."""
    found: list[str] = []
    for line in text.split("\n"):
        found += _SENTENCE.split(line) if len(line) > _LONG else [line]
    return found


def _within(lines: Sequence[str]) -> str:
    shown, left = list[str](), MOST_DIFF_CHARS
    for number, line in enumerate(lines):
        line = line if len(line) <= MOST_LINE_CHARS else f"{line[:MOST_LINE_CHARS]}…"
        left -= len(line) + 1
        if left < 0:
            shown.append(f"… {len(lines) - number} more changed lines")
            break
        shown.append(line)
    return harmless("\n".join(shown))


# What is stored


def memory_of(checked: str) -> WatchState:
    """Load what checks have stored; damaged parts count as not read yet."""
    try:
        found = json.loads(checked or "{}")
        read = {str(name): _kept_of(one) for name, one in dict(found.get("read", {})).items()}
        return WatchState(
            {name: one for name, one in read.items() if one is not None},
            int(found.get("failed", 0)),
            float(found.get("told", 0.0)),
        )
    except (ValueError, TypeError, AttributeError):
        return WatchState()


def _kept_of(stored: Mapping[str, object]) -> Kept | None:
    try:
        packed = base64.b64decode(str(stored["text"]))
        text = zlib.decompressobj().decompress(packed, 4 * KEPT_CHARS).decode("utf-8", "replace")
        return Kept(str(stored["hash"]), int(str(stored["chars"])), str(stored["title"]), text)
    except (KeyError, TypeError, ValueError, zlib.error):
        return None


def as_stored(memory: WatchState) -> str:
    """Return what checks have stored as JSON; `memory_of` loads it."""
    read = {
        name: {
            "hash": one.hash,
            "chars": one.chars,
            "title": one.title,
            "text": base64.b64encode(zlib.compress(one.text.encode("utf-8", "replace"))).decode(),
        }
        for name, one in memory.read.items()
    }
    return json.dumps({"read": read, "failed": memory.failed, "told": memory.told}, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class WatchSummary:
    """What a schedule watches; `title` and `chars` are those of the last reading, None before the first."""

    what: str
    title: str = ""
    chars: int | None = None


def watched_by(schedule: ScheduleRecord) -> list[WatchSummary]:
    """Return what a schedule watches, and what was read of it, without its text."""
    if not watches(schedule):
        return []
    read = memory_of(schedule.checked).read
    found = []
    for watch in watches_of(json.loads(schedule.options)):
        one = read.get(watch.name)
        found.append(
            WatchSummary(watch.name) if one is None else WatchSummary(watch.name, one.title, one.chars)
        )
    return found
