"""Parser of a `SKILL.md`'s YAML front matter, between the two `---`, into texts, lists and mappings.

The parser uses YAML events instead of a loader. So every value stays text, no Python object is constructed,
and YAML aliases take no memory. The depth and the number of values are limited during parsing.
"""

import re
from typing import Final, TypeAlias

from rumi.agent.skills.messages import SkillError

Value: TypeAlias = "str | list[Value] | dict[str, Value]"

MOST_CHARS: Final = 64_000
MOST_EVENTS: Final = 5_000
DEEPEST: Final = 20

_FENCE: Final = re.compile(r"---[ \t]*")
_PLAIN_PAIR: Final = re.compile(r"(?P<key>[A-Za-z_][\w-]*):[ \t]+(?P<value>[^\s'\"|>\[{&*!].*)")
_NULLS: Final = frozenset({"null", "~", "Null", "NULL"})


def split(text: str) -> tuple[str, str]:
    """Split a text into its front matter and its body; all kinds of line ends are accepted.

    Raises:
        SkillError: The text has no front matter.
    """
    lines = text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n").lstrip("\n").split("\n")
    if not _FENCE.fullmatch(lines[0]):
        raise SkillError("it has no front matter: its first line must be ---")
    for line_number, line in enumerate(lines[1:], 1):
        if _FENCE.fullmatch(line):
            return "\n".join(lines[1:line_number]), "\n".join(lines[line_number + 1 :]).strip("\n")
    raise SkillError("its front matter has no end: a line --- must follow it")


def read(text: str) -> dict[str, Value]:
    """Return the front matter's keys and values.

    Many skills have a colon in an unquoted value. This is invalid YAML, but unambiguous: if the text cannot
    be parsed otherwise, such a value extends to the end of its line.

    Raises:
        SkillError: The front matter cannot be parsed.
    """
    if len(text) > MOST_CHARS:
        raise SkillError("its front matter is longer than {most_chars} characters", most_chars=MOST_CHARS)
    try:
        return _mapping(text)
    except SkillError:
        quoted = _with_quotes(text)
        if quoted == text:
            raise
        try:
            return _mapping(quoted)
        except SkillError:
            pass
        raise  # the first error, because the second one is about text that the author did not write


def _mapping(text: str) -> dict[str, Value]:
    value = _Reader().read(text)
    if value == "":
        return {}
    if not isinstance(value, dict):
        raise SkillError("its front matter must be lines of `key: value`")
    return value


def _with_quotes(text: str) -> str:
    """Return the text with quotes around unquoted top-level values, except multi-line values."""
    lines = text.split("\n")
    for index, line in enumerate(lines):
        follows = lines[index + 1] if index + 1 < len(lines) else ""
        pair = _PLAIN_PAIR.fullmatch(line.rstrip())
        if pair and not follows.startswith((" ", "\t")):
            lines[index] = f"{pair['key']}: '{pair['value'].replace(chr(39), chr(39) * 2)}'"
    return "\n".join(lines)


class _Reader:
    def __init__(self) -> None:
        self._open: list[tuple[list[Value] | dict[str, Value], list[Value]]] = []
        self._anchors: dict[str, Value] = {}
        self._root: Value = ""

    def read(self, text: str) -> Value:
        import yaml

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            for number, event in enumerate(yaml.parse(text, Loader=loader)):
                if number > MOST_EVENTS or len(self._open) > DEEPEST:
                    raise SkillError("its front matter has too many values, or nests them too deeply")
                self._take(event)
        except yaml.MarkedYAMLError as error:
            if error.problem_mark is None:
                raise SkillError("its front matter is not YAML: {problem}", problem=error.problem) from None
            raise SkillError(
                "its front matter is not YAML (line {line}): {problem}",
                line=error.problem_mark.line + 2,
                problem=error.problem,
            ) from None
        except yaml.YAMLError:
            raise SkillError("its front matter has a character that YAML does not allow") from None
        return self._root

    def _take(self, event: object) -> None:
        import yaml

        match event:
            case yaml.ScalarEvent():
                plain = event.style in (None, "")
                self._put("" if plain and event.value in _NULLS else event.value, event.anchor)
            case yaml.AliasEvent():
                self._put(self._anchors.get(event.anchor or "", ""), None)
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
            if isinstance(name, str):  # no field has a list or a mapping as its key
                container[name] = value
