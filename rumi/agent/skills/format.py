"""The parser of `SKILL.md` files: the keys of the front matter, and the allowed values of the keys.

The format is the public Agent Skills format with a few additional keys. The parser ignores unknown keys and
accepts every value that it can interpret, so that skills for other assistants need no change. Only what a
skill cannot be used without must be readable: a description, and the keys that say if and where it may run.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Final

from rumi.agent.skills import front_matter
from rumi.agent.skills.front_matter import Value
from rumi.agent.skills.messages import Header, OwnResult, SkillError
from rumi.platform import text_decoding
from rumi.texts import Text

FILE: Final = "SKILL.md"
CODE: Final = "skill.py"
MOST_BYTES: Final = 1_000_000
MOST_DESCRIPTION_CHARS: Final = 1024
MOST_NAME_CHARS: Final = 64
MOST_WORD_CHARS: Final = 200
MOST_WORDS: Final = 100
MOST_PARTS: Final = 1_000

_NAME: Final = re.compile(rf"[^\W_][\w.-]{{0,{MOST_NAME_CHARS - 1}}}")
_YES: Final = frozenset({"true", "yes", "on", "y", "1"})
_NO: Final = frozenset({"false", "no", "off", "n", "0"})
_REPLACEMENT: Final = "\ufffd"
_CONTROLS: Final = dict.fromkeys((*range(9), *range(14, 32), *range(127, 160)))
_SPELLINGS: Final = str.maketrans("_ /:", "--..")
_ALLOWED_TOOL: Final = re.compile(r"[^\s,(]+(?:\([^)]*\))?")


def is_name(name: str) -> bool:
    """Return True for a valid skill name: a word of letters, digits, hyphens, underscores and dots."""
    return _NAME.fullmatch(name) is not None


def same(name: str) -> str:
    """Return a skill name normalized, so that all spellings match: `Tidy_Folder` becomes `tidy-folder`.

    The category of a name may be written before a dot, a slash or a colon.
    """
    return unicodedata.normalize("NFKC", name.strip()).casefold().translate(_SPELLINGS)


def class_name(name: str) -> str:
    """Return the name of the class in a skill's `skill.py`: `TidyFolderSkill` for the skill tidy-folder.

    For a name that starts with a digit, the class name starts with an underscore: `_2DaysSkill` for 2-days.
    """
    camel = "".join(part[:1].upper() + part[1:] for part in re.split(r"[-_. ]+", name)) + "Skill"
    return camel if camel.isidentifier() else f"_{camel}"


def slug(title: str) -> str:
    """Return a skill name made from a title that is not one: `PDF Tools (beta)` becomes `PDF-Tools-beta`."""
    words = re.sub(r"[^\w.]+", "-", unicodedata.normalize("NFKC", title)).strip("-._")
    return words[:MOST_NAME_CHARS].rstrip("-._")


def decode(raw: bytes) -> str:
    """Return the text of a `SKILL.md`, in whatever encoding it is (`rumi.platform.text_decoding`).

    Raises:
        SkillError: The file is too large, or it is not text.
    """
    if len(raw) > MOST_BYTES:
        raise SkillError("it is larger than {most_bytes} bytes", most_bytes=MOST_BYTES)
    text = text_decoding.decode(raw)
    if text.count("\0") * 10 > len(text):
        raise SkillError("it is not text")
    return text


def parse(text: str) -> tuple[Header, str]:
    """Return the header and the body of a `SKILL.md`.

    Raises:
        SkillError: The file is invalid; the message states, without the file's name, the error and what is
            allowed.
    """
    found = front_matter.parse(text)
    notes = list(found.notes)
    if _REPLACEMENT in text:
        line = text.count("\n", 0, text.index(_REPLACEMENT)) + 1
        notes.append(Text("it has characters that cannot be read (line {line}): save it as UTF-8", line=line))
    return _header(found.values, notes), found.body


def _header(keys: Mapping[str, Value], notes: list[str]) -> Header:
    title = _text(keys, "name", notes)
    name = title if is_name(title) else ""
    if title and not name:
        notes.append(Text("its name is not a word of letters, digits, - and _, so its folder's name is used"))
    description = _text(keys, "description", notes)
    if not description:
        raise SkillError("its front matter has no description, a text that says what it is for")
    if len(description) > MOST_DESCRIPTION_CHARS:
        notes.append(
            Text("its description is cut after {most_chars} characters", most_chars=MOST_DESCRIPTION_CHARS)
        )
        description = description[: MOST_DESCRIPTION_CHARS - 1] + "…"
    return Header(
        name=name,
        description=description,
        title=title,
        version=_text(keys, "version", notes),
        tags=_tags(keys, notes),
        tools_required=_words(keys, "tools_required"),
        enabled=_flag(keys, "enabled", default=True),
        own_result=_own_result(keys),
        license=_text(keys, "license", notes),
        compatibility=_text(keys, "compatibility", notes),
        allowed_tools=_allowed_tools(keys),
        metadata=_metadata(keys),
        notes=tuple(notes),
    )


def _text(keys: Mapping[str, Value], key: str, notes: list[str]) -> str:
    """Return a text; the parts of a list or a mapping are joined."""
    value = keys.get(key, "")
    if not isinstance(value, str):
        notes.append(Text("its {key} is a list or a mapping, and its parts are joined", key=key))
        value = _joined(value)
    return " ".join(value.translate(_CONTROLS).split())


def _joined(value: Value) -> str:
    """Return the texts in a list or a mapping as one text.

    The number of parts is limited, because aliases can repeat them without end.
    """
    said: list[str] = []
    waiting: list[Value] = [value]
    for _ in range(MOST_PARTS):
        if not waiting:
            break
        part = waiting.pop()
        if isinstance(part, str):
            if part:
                said.append(part if part.endswith((".", "!", "?", ":", ",", ";", "。")) else f"{part},")
        elif isinstance(part, list):
            waiting += part[: -MOST_PARTS - 1 : -1]
        else:
            for name, item in reversed(list(part.items())[:MOST_PARTS]):
                waiting += [item, f"{name}:" if item != "" else name]
    return " ".join(said).removesuffix(",")


def _words(keys: Mapping[str, Value], key: str) -> tuple[str, ...]:
    value = keys.get(key, "")
    if isinstance(value, str):  # [a, b] or a, b or, without commas, a b
        value = list(value.split("," if "," in value else None))
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise SkillError("its {key} must be a list of words, such as [one, two]", key=key)
    words = [" ".join(str(word).split())[:MOST_WORD_CHARS] for word in value]
    return tuple(dict.fromkeys(word for word in words if word))[:MOST_WORDS]


def _tags(keys: Mapping[str, Value], notes: list[str]) -> tuple[str, ...]:
    try:
        return _words(keys, "tags")
    except SkillError as error:  # tags only help to choose a skill
        notes.append(Text("{message}; they are left out", message=error.message))
        return ()


def _flag(keys: Mapping[str, Value], key: str, *, default: bool) -> bool:
    value = keys.get(key, "")
    if value == "":
        return default
    word = value.casefold() if isinstance(value, str) else ""
    if word not in _YES | _NO:
        raise SkillError("its {key} must be true or false", key=key)
    return word in _YES


def _own_result(keys: Mapping[str, Value]) -> OwnResult:
    value = keys.get("own_result", "")
    word = value.casefold() if isinstance(value, str) else None
    if word == "parts":
        return "parts"
    if word is None or (word and word not in _YES | _NO):
        raise SkillError("its {key} must be true, false or parts", key="own_result")
    return "all" if word in _YES else ""


def _allowed_tools(keys: Mapping[str, Value]) -> tuple[str, ...]:
    """Return the `allowed-tools`. Rumi only displays this list; the list gives the skill no rights."""
    value = keys.get("allowed_tools", "")
    said = " ".join(item for item in value if isinstance(item, str)) if isinstance(value, list) else value
    found = _ALLOWED_TOOL.findall(said) if isinstance(said, str) else []
    return tuple(dict.fromkeys(tool[:MOST_WORD_CHARS] for tool in found))[:MOST_WORDS]


def _metadata(keys: Mapping[str, Value]) -> Mapping[str, str]:
    value = keys.get("metadata", "")
    if not isinstance(value, dict):
        return {}
    plain = {key: " ".join(text.split()) for key, text in value.items() if isinstance(text, str)}
    return {key[:MOST_WORD_CHARS]: plain[key][:MOST_WORD_CHARS] for key in list(plain)[:MOST_WORDS]}


def quoted(name: str) -> str:
    """Return a name that a model or a person wrote, in quotes and on one line."""
    short = name[:80]
    return f"“{short}”" if short.isprintable() else ascii(short)
