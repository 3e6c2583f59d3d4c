"""Reads the skills in a foreign home: folders with a SKILL.md."""

from collections.abc import Iterator
from typing import Final

from rumi.agent.skills.format import CODE, FILE, MOST_BYTES, decode, is_name, parse, slug
from rumi.agent.skills.messages import SkillError
from rumi.app.moving.reading import HomeReader
from rumi.app.moving.records import MovedSkill
from rumi.platform.openat import shown
from rumi.texts import Text

MOST_SKILLS: Final = 200
MOST_FILES: Final = 200
MOST_FOLDER_BYTES: Final = 10_000_000
DEEPEST: Final = 6
_SKIPPED: Final = frozenset({"node_modules", "__pycache__", "venv"})


def add_skills(
    source: HomeReader, folder: str, depth: int = 0, bundled: frozenset[str] = frozenset()
) -> None:
    """Add the skills in a folder, and in folders of categories below it.

    `bundled` are the names of skills that came with the other program, which are left out.
    """
    for name in source.names(folder):
        if name.startswith(".") or name in _SKIPPED:
            continue
        path = f"{folder}/{name}"
        if FILE in source.names(path):
            if name in bundled:
                source.moved.leave("skills", "", Text("skills that came with the other program"))
            else:
                _add(source, path, name)
        elif depth < 2 and source.top.is_folder(path):
            add_skills(source, path, depth + 1, bundled)


def _add(source: HomeReader, path: str, name: str) -> None:
    moved = source.moved
    if len(moved.skills) >= MOST_SKILLS:
        moved.leave("skills", shown(name), Text("there are more than {most} skills", most=MOST_SKILLS))
        return
    words = source.read(f"{path}/{FILE}", "skills", MOST_BYTES)
    if words is None:
        return
    try:
        header, _ = parse(decode(words))
    except SkillError as error:
        moved.leave("skills", shown(name), Text("{why}", why=error.message))
        return
    title = header.name or (name if is_name(name) else slug(header.title or name))
    if not is_name(title):
        moved.leave("skills", shown(name), Text("its name is not a word of letters, digits, - and _"))
        return
    files, size = [(FILE, words)], len(words)
    for inner in _files(source, path):
        if inner == FILE:
            continue
        if inner == CODE:
            # Rumi would run it on this machine; another program's file of this name is not meant for that.
            moved.leave(
                "skills", f"{shown(name)}/{CODE}", Text("code that Rumi would run outside of a sandbox")
            )
            continue
        content = source.read(f"{path}/{inner}", "skills", MOST_FOLDER_BYTES)
        size += len(content or b"")
        if len(files) >= MOST_FILES or size > MOST_FOLDER_BYTES:
            moved.leave("skills", shown(name), Text("files beyond {most}, or beyond 10 MB", most=MOST_FILES))
            break
        if content is not None:
            files.append((inner, content))
    moved.skills.append(MovedSkill(title, tuple(files)))


def _files(source: HomeReader, folder: str, inside: str = "", depth: int = 0) -> Iterator[str]:
    """Yield the paths of a skill's files; hidden ones, and those in deep folders, are not part of it."""
    for name in source.names(f"{folder}/{inside}" if inside else folder):
        if name.startswith(".") or name in _SKIPPED:
            continue
        path = f"{inside}/{name}" if inside else name
        if source.top.is_folder(f"{folder}/{path}"):
            if depth < DEEPEST:
                yield from _files(source, folder, path, depth + 1)
        else:
            yield path
