"""Edits of a text: the forms in which models write them, their application, and the reasons for a miss."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import accumulate
from typing import Final

from rumi.agent.tools.text_file import TextDifference, TextFile, difference, lines_of, visible
from rumi.platform.openat import shown

MOST_EDITS: Final = 50
"""Maximum number of edits in one call."""

_OLD: Final = ("old_text", "old_string", "old_str", "old", "search")
_NEW: Final = ("new_text", "new_string", "new_str", "new", "replace")
"""The names that models use for the two texts of an edit; the first is the documented one."""

_NUMBERED: Final = re.compile(r"^ *\d+\t", re.MULTILINE)
_NEAR_LINES: Final = 2000
_NEAR_CHARS: Final = 120
_SHOWN_LINES: Final = 10


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of `old` by `new`: of the only occurrence, or of `every` occurrence."""

    old: str
    new: str
    every: bool = False


@dataclass(frozen=True, slots=True)
class Edited:
    """The result of edits: the new content and the number of replacements, or the reason for a failure."""

    content: bytes = b""
    count: int = 0
    difference: TextDifference | None = None
    why_not: str = ""


def edits_in(arguments: Mapping[str, object]) -> tuple[Edit, ...] | str:
    """Return the edits that a call's arguments contain, or what is wrong with the arguments.

    A list `edits`, also as JSON text, comes before a single edit beside it.
    """
    listed = arguments.get("edits")
    if isinstance(listed, str):  # some models write nested arguments as text
        try:
            listed = json.loads(listed)
        except (ValueError, RecursionError):
            return "takes `edits` as a list of objects"
    items = [*(listed if isinstance(listed, list) else [] if listed is None else [listed])]
    if _first(arguments, _OLD) is not None or not items:
        items.append(arguments)
    if len(items) > MOST_EDITS:
        return f"takes at most {MOST_EDITS} edits in one call"
    edits: list[Edit] = []
    for item in items:
        if not isinstance(item, Mapping):
            return "takes `edits` as a list of objects"
        old, new, every = _first(item, _OLD), _first(item, _NEW), item.get("replace_all")
        every = {"true": True, "false": False}.get(every.lower(), every) if isinstance(every, str) else every
        if not isinstance(old, str) or not isinstance(new, str) or not isinstance(every, bool | None):
            return "needs `old_text` and `new_text`, strings; `replace_all` is true or false"
        if not old:
            return "needs an `old_text` that is not empty. write_file writes whole files"
        edits.append(Edit(old.replace("\r\n", "\n"), new.replace("\r\n", "\n"), bool(every)))
    return tuple(edits)


def _first(arguments: Mapping[str, object], names: tuple[str, ...]) -> object:
    return next((arguments[name] for name in names if arguments.get(name) is not None), None)


def apply_edits(name: str, file: TextFile, edits: tuple[Edit, ...], most_bytes: int) -> Edited:
    """Apply the edits in order, each to the text that the one before it left: all of them or none.

    `name` is the file's name in the diff, `most_bytes` the maximum size of the edited file.
    """
    if not file.exact:
        return Edited(why_not=f"its {file.encoding} text would not stay the same. Convert it to UTF-8 first")
    edited, count = file, 0
    for number, edit in enumerate(edits, 1):
        done = _apply(edited, edit, most_bytes)
        if isinstance(done, str):
            which = f"edit {number} of {len(edits)} misses, and none was made: " if len(edits) > 1 else ""
            return Edited(why_not=which + done)
        text, places = done
        edited, count = replace(edited, text=text), count + places
    if edited.text == file.text:
        return Edited(why_not="the edits cancel each other out")
    try:
        content = file.encoded(edited.text)
    except UnicodeEncodeError as error:
        lacks = shown(edited.text[error.start : error.end][:10])
        return Edited(why_not=f"it is {file.encoding} text, which has no {lacks}")
    return Edited(content, count, difference(name, visible(file.text), visible(edited.text)))


def _apply(file: TextFile, edit: Edit, most_bytes: int) -> tuple[str, int] | str:
    """Return the edited text and the number of replacements, or the reason why there is none."""
    old, new = edit.old, edit.new
    starts = file.found(old)
    if not starts and (loose := _without_line_ends(file.plain, old)) is not None:
        start, old = loose
        starts = [start]
    if not starts:
        return _not_found(file.plain, old)
    if old == new:
        return "old_text and new_text are the same"
    if len(starts) > 1 and not edit.every:
        lines = (file.plain.count("\n", 0, start) + 1 for start in starts[:_SHOWN_LINES])
        numbers = dict.fromkeys(map(str, lines))
        more = ", …" if len(starts) > _SHOWN_LINES else ""
        return (
            f"old_text is there {len(starts)} times, at lines {', '.join(numbers)}{more}. Give more "
            "lines around the one that you mean, or set replace_all"
        )
    # Occurrences may overlap; replacing all of them needs those that do not, from the left.
    apart = starts[:1]
    for start in starts[1:]:
        if start >= apart[-1] + len(old):
            apart.append(start)
    if len(file.text) + len(apart) * (len(new) - len(old)) > most_bytes:
        return f"it would have more than {most_bytes} bytes. Use sed or awk in bash"
    return file.replaced(apart, old, new), len(apart)


def _without_line_ends(plain: str, old: str) -> tuple[int, str] | None:
    """Find the only place that differs from `old` at most by spaces and tabs at line ends.

    Return its start and its text, or None: models often leave out such spaces, which they cannot see.
    """
    lines = plain.split("\n")
    folded_lines = [line.rstrip(" \t") for line in lines]
    folded, wanted = "\n".join(folded_lines), "\n".join(line.rstrip(" \t") for line in old.split("\n"))
    at = folded.find(wanted)
    if not wanted.strip() or at < 0 or folded.find(wanted, at + 1) >= 0:
        return None
    starts = [0, *accumulate(len(line) + 1 for line in lines)]

    def in_plain(index: int) -> int:
        return starts[folded.count("\n", 0, index)] + index - (folded.rfind("\n", 0, index) + 1)

    start, end = in_plain(at), in_plain(at + len(wanted))
    return start, plain[start:end]


def _not_found(plain: str, old: str) -> str:
    """Return the error message for a text that was not found.

    The message includes the lines of the file that are most similar to the text's first line.
    """
    if (bare := _NUMBERED.sub("", old)) != old and bare in plain:
        return "old_text is there only without the line numbers. Leave them out"
    wanted_lines = lines_of(old)
    skipped = next((n for n, line in enumerate(wanted_lines) if line.strip()), 0)
    wanted = wanted_lines[skipped].strip()[:_NEAR_CHARS] if wanted_lines else ""
    lines = lines_of(plain)
    numbers: dict[str, int] = {}
    for number, line in enumerate(lines):
        numbers.setdefault(line.strip()[:_NEAR_CHARS], number)
    near = [wanted] if wanted in numbers else get_close_matches(wanted, list(numbers)[:_NEAR_LINES], 3, 0.5)
    if not near:
        return "old_text is not there, and no line is like it. Read the file first"
    length = min(len(wanted_lines), _SHOWN_LINES)
    shown_lines: dict[int, str] = {}
    for near_line in near:
        first = max(0, numbers[near_line] - skipped)
        for number in range(first, min(first + length, len(lines))):
            shown_lines[number] = f"{number + 1}\t{lines[number][:_NEAR_CHARS]}"
    nearest = "\n".join(shown_lines[number] for number in sorted(shown_lines))
    return f"old_text is not there. Copy it exactly; the nearest lines are:\n{nearest}"
