"""Opening of a skill for use: reads its current instructions and lists its additional files."""

from dataclasses import replace
from typing import Final

from rumi.agent.skills.folder import further_files, opened, read_bytes, read_skill_file
from rumi.agent.skills.format import FILE, decode, parse, quoted
from rumi.agent.skills.messages import Opened, Skill, SkillError, SkillFile
from rumi.agent.skills.trust import digest_of
from rumi.platform import text_decoding
from rumi.texts import os_error

MOST_FILE_BYTES: Final = 100_000
"""A model gets at most this many bytes of a skill's additional file."""


def open_skill(skill: Skill) -> Opened:
    """Return a skill's current instructions and additional files. Blocks briefly.

    Raises:
        SkillError: The skill can no longer be read.
    """
    own_link = skill.source.kind != "project"
    try:
        with opened(skill.folder, own_link=own_link) as folder:
            raw = read_skill_file(folder)
        _, body = parse(decode(raw))
    except OSError as error:
        raise SkillError(
            "{folder} cannot be read: {reason}.", folder=skill.folder, reason=os_error(error)
        ) from None
    except SkillError as error:
        raise SkillError("{folder}: {message}.", folder=skill.folder / FILE, message=error.message) from None
    files, more = further_files(skill.folder, own_link=own_link)
    # The scan vouched for another text if SKILL.md has changed since then.
    same_words = own_link or digest_of(raw) == skill.words
    return Opened(replace(skill, vouched=skill.vouched and same_words), body, files, more)


def read_file(skill: Skill, path: str) -> SkillFile:
    """Return the text of a file in a skill's folder. Blocks briefly.

    Raises:
        SkillError: The file does not exist, is outside of the folder, or is not text.
    """
    parts = path.split("/")
    try:
        if any(part.startswith(".") and part not in (".", "..") for part in parts):
            raise SkillError("is hidden, and not read")  # data of tools such as .git, not instructions
        with opened(skill.folder, own_link=skill.source.kind != "project") as folder:
            raw, size = read_bytes(folder, path, MOST_FILE_BYTES)
    except OSError as error:
        raise SkillError(
            "{folder} cannot be read: {reason}.", folder=skill.folder, reason=os_error(error)
        ) from None
    except SkillError as error:
        raise SkillError(
            "The file {path} of the skill {name} {message}.",
            path=quoted(path),
            name=skill.name,
            message=error.message,
        ) from None
    cut = size - len(raw)
    text = text_decoding.decode(raw)
    if "\0" in text:
        raise SkillError(
            "The file {path} of the skill {name} is not text.", path=quoted(path), name=skill.name
        )
    return SkillFile(skill, path, text, max(0, cut))
