"""Parser of a `SKILL.md`'s YAML front matter, between the two `---`, into texts, lists and mappings.

The parser uses YAML events instead of a loader. So every value stays text, no Python object is constructed,
and YAML aliases take no memory. The depth and the number of values are limited during parsing.

Many authors write front matter that is not YAML. Where YAML fails, each key is read by itself, so that a bad
value affects only its own key; a value that is not YAML is taken as the text that it looks like.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from rumi.agent.skills.messages import SkillError
from rumi.texts import Text

Value: TypeAlias = "str | list[Value] | dict[str, Value]"

MOST_CHARS: Final = 64_000
MOST_EVENTS: Final = 5_000
MOST_KEYS: Final = 200
DEEPEST: Final = 20
MOST_NOTED: Final = 10

_FENCE: Final = re.compile(r"-{3,}[ \t\xa0]*")
# A closing line may be YAML's `...`, or the body may begin on it: `---# Title`.
_CLOSING: Final = re.compile(r"(?:-{3,}|\.{3})[ \t\xa0]*|-{3,}(?P<body>[^-\s].*)")
_WRAPPED: Final = re.compile(r"(`{3,}|~{3,})[\w-]*[ \t]*")
_COMMENT: Final = re.compile(r"<!--.*?-->\s*", re.DOTALL)
_FIRST_KEY: Final = re.compile(r"(?:name|description)[ \t]*:[ \t].*", re.IGNORECASE)
_PAIR: Final = re.compile(
    r"(?P<quote>[\"']?)(?P<key>[A-Za-z_][\w.-]{0,99})(?P=quote)[ \t]*(?:：|:(?=[ \t]|$))[ \t]*(?P<value>.*)"
    r"|(?P<glued>name|description):(?P<text>\S.*)",
    re.IGNORECASE,
)
_HEADING: Final = re.compile(r"#{1,6}[ \t].*")
# Front matter goes on after an empty line with a key, a list, an indented line, a comment or a bracket.
_GOES_ON: Final = re.compile(rf"{_PAIR.pattern}|-[ \t].*|[ \t\]}}#].*", re.IGNORECASE)
_BLOCK: Final = re.compile(r"[|>][-+\d]{0,2}")
_NULLS: Final = frozenset({"null", "~", "Null", "NULL"})


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The values of a front matter, and the text that follows it.

    The keys are in lower case, with `_` for `-`. `notes` describe what is unusual and what was left out.
    """

    values: dict[str, Value]
    body: str
    notes: tuple[str, ...] = ()


def parse(text: str) -> FrontMatter:
    """Return the front matter of a text, and the rest of the text; all kinds of line ends are accepted.

    Raises:
        SkillError: The text has no front matter, or it has no keys.
    """
    notes: list[str] = []
    lines = _lines(text, notes)
    end = next((at for at, line in enumerate(lines) if _CLOSING.fullmatch(line)), len(lines))
    front, body = lines[:end], lines[end + 1 :]
    if end < len(lines) and (closing := _CLOSING.fullmatch(lines[end])) and closing["body"]:
        body.insert(0, closing["body"])
    values = _whole("\n".join(front), notes)
    if end == len(lines) or values is None:
        # Without its closing line, the front matter goes on to the first line that cannot be a part of it. A
        # later `---` is a rule of the body.
        last = _last_line(front, closed=end < len(lines))
        if last < len(front):
            front, body = lines[:last], lines[last:]
            notes.append(Text("the line --- after its front matter is missing"))
            values = _whole("\n".join(front), notes)
        elif end == len(lines):
            raise SkillError("its front matter has no end: a line --- must follow it")
    if values is None:
        values = _key_by_key(front, notes)
    for key, part in _parts(front) if "" in values.values() else ():
        # YAML takes `#1 of all tools` for a comment.
        if values.get(key) == "" and re.match(r"#[^\s#]", said := _plain_text(part)):
            values[key] = said
    return FrontMatter(values, "\n".join(body).strip("\n"), tuple(notes))


def _lines(text: str, notes: list[str]) -> list[str]:
    """Return the lines that follow the opening `---`."""
    text = text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n").lstrip("\n")
    if text.startswith("<!--"):
        text = _COMMENT.sub("", text, count=1)
    lines = text.split("\n")
    if (wrapped := _WRAPPED.fullmatch(lines[0])) and len(lines) > 1 and _FENCE.fullmatch(lines[1]):
        notes.append(Text("it is wrapped in a block of code"))
        closing = [at for at, line in enumerate(lines[1:], 1) if line.rstrip() == wrapped[1]]
        del lines[closing[-1] if closing else len(lines) :]
        del lines[0]
    if _FENCE.fullmatch(lines[0]):
        indented = re.match(r" *", lines[1])[0] if len(lines) > 1 else ""  # type: ignore[index]
        return [line.removeprefix(indented) for line in lines[1:]]
    if _FIRST_KEY.fullmatch(lines[0]) and any(map(_FENCE.fullmatch, lines)):
        notes.append(Text("the line --- before its front matter is missing"))
        return lines
    raise SkillError("it has no front matter: its first line must be ---")


def _last_line(front: list[str], *, closed: bool) -> int:
    """Return the number of lines up to the first one that cannot belong to the front matter."""
    for at in range(1, len(front)):
        if front[at - 1].strip():
            continue
        if (not _GOES_ON.fullmatch(front[at]) and front[at].strip()) or (
            not closed and _HEADING.fullmatch(front[at])
        ):
            while at and (not front[at - 1].strip() or _HEADING.fullmatch(front[at - 1])):
                at -= 1
            return at
    return len(front)


def _whole(text: str, notes: list[str]) -> dict[str, Value] | None:
    """Parse the whole front matter as YAML; return None if it is not YAML."""
    if len(text) > MOST_CHARS:
        return None
    reader = _Reader()
    try:
        value = reader.read(text)
    except SkillError:
        return None
    if value == "":
        return {}
    if not isinstance(value, dict):
        return None
    notes += [
        Text("its key {key} is there twice, and the last one counts", key=key)
        for key in reader.repeated[:MOST_NOTED]
    ]
    return {_normal(key): item for key, item in value.items()}


def _key_by_key(front: list[str], notes: list[str]) -> dict[str, Value]:
    """Parse the value of each key by itself, as YAML if it is YAML, otherwise as text.

    Raises:
        SkillError: There are no keys.
    """
    values: dict[str, Value] = {}
    plain: list[str] = []
    reader = _Reader()  # one for all keys: it counts the events
    for key, part in _parts(front):
        value = _value(reader, key, part)
        if value is None:
            plain.append(key)
            value = _plain_text(part)
        if value != "" or key not in values:
            values[key] = value
    if not values:
        raise SkillError("its front matter must be lines of `key: value`")
    notes.append(
        Text(
            "its front matter is not valid YAML, so these keys were read as plain text: {keys}",
            keys=_named(plain),
        )
        if plain
        else Text("its front matter is not valid YAML, so each key was read by itself")
    )
    return values


def _parts(front: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each key at the beginning of a line, normalized, and its lines, beginning with `key: value`."""
    part: list[str] = []
    key, count = "", 0
    for line in front:
        pair = _PAIR.fullmatch(line.rstrip())
        if pair is None:
            part.append(line)
            continue
        if key:
            yield key, part
        if (count := count + 1) > MOST_KEYS:
            return
        key = _normal(pair["key"] or pair["glued"])
        part = [f"{key}: {pair['value'] or pair['text'] or ''}"]
    if key:
        yield key, part


def _value(reader: "_Reader", key: str, part: list[str]) -> "Value | None":
    text = "\n".join(part)
    if len(text) > MOST_CHARS:
        return None
    for attempt in (text, text.expandtabs(2)) if "\t" in text else (text,):
        try:
            value = reader.read(attempt)
        except SkillError:
            continue
        if isinstance(value, dict) and value.keys() == {key}:
            return value[key]
    return None


def _plain_text(part: list[str]) -> str:
    """Return the text of a value that is not YAML, on one line."""
    first = part[0].partition(":")[2].strip()
    words = ["" if _BLOCK.fullmatch(first) else first, *part[1:]]
    text = " ".join(" ".join(words).split())
    for quote in ("'", '"'):
        if text.startswith(quote):
            inner = text[1:].removesuffix(quote)
            if (within := inner.count(quote)) == 0 or (within % 2 and text.endswith(quote)):
                return inner  # not of `"a" and "b"`
    return text


def yaml_values(text: str, most_events: int) -> Value:
    """Return the value of any YAML, read as front matter is: scalars stay text, and merges are plain keys.

    Raises:
        SkillError: The text is not YAML, has more than `most_events` values, or nests them too deeply.
    """
    return _Reader(most_events).read(text)


def _normal(key: str) -> str:
    return key.strip().casefold().replace("-", "_")


def _named(keys: list[str]) -> str:
    shown = list(dict.fromkeys(keys))
    return ", ".join(shown[:MOST_NOTED]) + (", …" if len(shown) > MOST_NOTED else "")


class _Reader:
    """Builds values from YAML events. `repeated` are the keys that are in the outermost mapping twice."""

    def __init__(self, most_events: int = MOST_EVENTS) -> None:
        self._left = most_events
        self.repeated: list[str] = []

    def read(self, text: str) -> Value:
        """Parse a text.

        Raises:
            SkillError: The text is not YAML, or too large.
        """
        import yaml

        self._open: list[tuple[list[Value] | dict[str, Value], list[Value]]] = []
        self._anchors: dict[str, Value] = {}
        self._root: Value = ""
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            for event in yaml.parse(text, Loader=loader):
                self._left -= 1
                if self._left < 0 or len(self._open) > DEEPEST:
                    raise SkillError("its front matter has too many values, or nests them too deeply")
                self._take(event)
        except yaml.YAMLError:
            raise SkillError("its front matter is not YAML") from None
        return self._root

    def _take(self, event: object) -> None:
        import yaml

        match event:
            case yaml.ScalarEvent():
                plain = event.style in (None, "")
                text = "" if plain and event.value in _NULLS else event.value
                # `!important words` is a text for its author; for YAML, it is a tag.
                tagged = plain and str(event.tag)[:1] == "!"
                self._put(f"{event.tag} {text}" if tagged else text, event.anchor)
            case yaml.AliasEvent():
                # The same with `*words`, an alias.
                self._put(self._anchors.get(event.anchor or "", f"*{event.anchor}"), None)
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                value: list[Value] | dict[str, Value] = (
                    [] if isinstance(event, yaml.SequenceStartEvent) else {}
                )
                self._put(value, event.anchor)
                self._open.append((value, []))
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                self._open.pop()
            case _:
                pass

    def _put(self, value: Value, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = value
        if not self._open:
            self._root = value
            return
        container, key = self._open[-1]
        if isinstance(container, list):
            container.append(value)
        elif not key:
            key.append(value)
        else:
            name = key.pop()
            if not isinstance(name, str):  # no field has a list or a mapping as its key
                return
            if len(self._open) == 1 and name in container:
                self.repeated.append(name)
                if value == "":
                    return
            container[name] = value
