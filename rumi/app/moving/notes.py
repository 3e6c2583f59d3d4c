"""Picks facts from files of notes: MEMORY.md, USER.md, daily notes, and entries of a memory."""

import re
from collections.abc import Iterator
from typing import Final

from rumi.app.moving.records import ForeignHome, MovedFact
from rumi.memory.messages import MAX_KEY_CHARS, MAX_VALUE_CHARS
from rumi.texts import Text

MOST_FACTS: Final = 500
"""Maximum number of facts of one import. A person has at most 1000."""

_COMMENT: Final = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_FENCE: Final = re.compile(r"^(`{3,}|~{3,}).*?(?:^\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_FRONT: Final = re.compile(r"\A---[ \t]*\n.*?\n---[ \t]*(?:\n|\Z)", re.DOTALL)
_HEADING: Final = re.compile(r"#{1,6}[ \t]+(.*)")
_BULLET: Final = re.compile(r"[ \t]*(?:[-*+]|\d{1,4}[.)])[ \t]+(?:\[(?P<box>[ xX])\][ \t]*)?(?P<text>.*)")
_EMPTY_BULLET: Final = re.compile(r"[ \t]*(?:[-*+]|\d{1,4}[.)])[ \t]*$")
_PAIR: Final = re.compile(
    r"(?:\*\*|__)?(?P<key>[^:*_`\n]{2,40}?)(?::(?:\*\*|__)|(?:\*\*|__):|:)[ \t]+(?P<value>.+)"
)
_PLACEHOLDER: Final = re.compile(
    r"^[_*]?\(.*\)[_*]?$|^\[[^\]]*\]$|^…$|^\.\.\.$|^(?:none|n/a|tbd)\.?$", re.IGNORECASE
)
_ASIDE: Final = re.compile(r"^([*_]).*\1$")
_MARKS: Final = re.compile(r"\*\*|__|`")


_TEMPLATES: Final = (
    "information about the user to help personalize",
    "this file stores important information that should persist",
    "the more you know, the better you can help",
    "learn about the person you're helping",
)
"""How sentences begin that the programs themselves have written into new files."""


def leave_checks(moved: ForeignHome, text: str, path: str) -> None:
    """Note the checks in a HEARTBEAT.md: the other program made them all the time, and Rumi has schedules."""
    lines = [line.strip() for line in _COMMENT.sub("", text).splitlines()]
    if any(line and not line.startswith("#") for line in lines):
        moved.leave("schedules", path, Text("checks of the other program: make a schedule of each"))


def add_notes(moved: ForeignHome, text: str, source: str, name: str) -> None:
    """Add the facts in a file of notes. `name` is the key of what stands below no heading."""
    for key, value in _facts(text, name):
        add_fact(moved, key, value, source)


def add_fact(moved: ForeignHome, key: str, value: str, source: str) -> None:
    """Add a fact. What was found before, and what is more than the limit, is left out."""
    if any(one.key == key and one.value == value for one in moved.facts):
        return
    if len(moved.facts) >= MOST_FACTS:
        moved.leave("memory", source, Text("there are more than {most} facts", most=MOST_FACTS))
        return
    if len(value) > MAX_VALUE_CHARS:
        moved.leave("memory", source, Text("notes of more than {most} characters", most=MAX_VALUE_CHARS))
        return
    moved.facts.append(MovedFact(key[:MAX_KEY_CHARS], value, source))


def _facts(text: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield the bullets and paragraphs, each with the heading that it stands below.

    Templates that nobody has filled in yield nothing: boxes without a tick, `(your name)`, remarks.
    """
    text = _FENCE.sub("", _COMMENT.sub("", _FRONT.sub("", text)))
    heading, paragraph = name, list[str]()
    for line in [*text.splitlines(), ""]:
        bullet, title = _BULLET.match(line), _HEADING.match(line)
        if (
            bullet
            or title
            or not line.strip()
            or _EMPTY_BULLET.match(line)
            or set(line.strip()) <= set("-=*_|")
        ):
            if paragraph:
                yield from _fact(heading, " ".join(paragraph))
                paragraph = []
            if title:
                heading = _plain(title[1].rstrip(" \t#")) or name
            elif bullet and bullet["box"] != " ":
                paragraph = [bullet["text"].strip()]
        else:
            paragraph.append(line.strip())


def _fact(heading: str, text: str) -> Iterator[tuple[str, str]]:
    found = _PAIR.fullmatch(text)
    key, value = (
        (_plain(found["key"]), found["value"]) if found and "//" not in found["key"] else (heading, text)
    )
    if value.casefold().startswith(_TEMPLATES) or _plain(value).endswith(
        ":"
    ):  # such as **Name:** without one
        return
    if (_ASIDE.match(value) and not value.startswith("**")) or _PLACEHOLDER.match(value.strip()):
        return
    if plain := _plain(value):
        yield key or heading, plain


def _plain(text: str) -> str:
    return " ".join(_MARKS.sub("", text).split())
