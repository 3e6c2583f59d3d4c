"""What another program's bots are taken over from."""

import json
import os
import socket
from pathlib import Path

import pytest

from rumi.tasks.bots.config import BotError
from rumi.tasks.bots.files import BotFiles
from rumi.tasks.bots.foreign import MOST_SKILL_BYTES, ForeignFolder
from rumi.tasks.bots.importing import foreign_bots, take_over_skills

CONFIG = '+++\nmodel = "groq:some"\nweb = true\n+++\nKeep the garden.'


def foreign(home: Path, memory: object) -> Path:
    bot = home / "bots" / "garden"
    bot.mkdir(parents=True)
    (bot / "config.md").write_text(CONFIG)
    (bot / "memory.json").write_text(memory if isinstance(memory, str) else json.dumps(memory))
    return home


@pytest.mark.parametrize(
    ("memory", "facts", "history"),
    [
        ({}, (), ()),
        ([], (), ()),
        ({"entries": {"soil": "clay", "beds": 3}}, (("soil", "clay"), ("beds", "3")), ()),
        (
            {
                "entries": [{"key": "soil", "value": "clay"}, {"value": "no key"}, 7],
                "history": [
                    {"iteration": 1, "response_summary": "Dug."},
                    "Sown.",
                    {"summary": " "},
                    {"summary": "Watered.", "timestamp": "2026-01-01T00:00:00Z"},
                    None,
                ],
            },
            (("soil", "clay"),),
            ("Dug.", "Sown.", "Watered."),
        ),
        ({"entries": {"soil": {"value": "clay", "created_at": "x"}}}, (("soil", "clay"),), ()),
    ],
)
def test_facts_and_history_are_read_in_each_form(
    memory: object, facts: object, history: object, tmp_path: Path
) -> None:
    (found,) = foreign_bots(foreign(tmp_path, memory))
    assert (found.name, found.facts, found.history) == ("garden", facts, history)


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BotError, match="has no bots"):
        foreign_bots(tmp_path)
    for number, text in enumerate(("{", "[" * 100_000)):
        with pytest.raises(BotError, match=r"memory\.json cannot be read"):
            foreign_bots(foreign(tmp_path / str(number), text))


def hostile(home: Path) -> Path:
    """Return a folder with a good bot, and with entries of every kind that must not be read."""
    foreign(home, {"entries": {"soil": "clay"}})
    skills = home / "bots" / "garden" / "skills"
    skills.mkdir()
    (skills / "dig.md").write_text("Dig deep.")
    (skills / "shadow.md").symlink_to("/etc/shadow")
    (skills / "deep").symlink_to("/etc")
    os.mkfifo(skills / "pipe.md")
    (skills / "large.md").write_bytes(b"x" * (MOST_SKILL_BYTES + 1))
    with open(skills / "sparse.md", "wb") as file:
        file.truncate(1 << 40)
    (skills / "line\nbreak.md").write_text("Words.")
    (skills / "folder").mkdir()
    (skills / "folder" / "SKILL.md").symlink_to("/etc/passwd")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(skills / "s.md"))
    (home / "skills").mkdir()
    (home / "skills" / "water.md").write_text("Water.")
    (home / "skills" / "passwd.md").symlink_to("/etc/passwd")
    os.mkfifo(home / "skills" / "pipe.md")
    for name in ("linked", "piped"):
        (home / "bots" / name).mkdir()
    (home / "bots" / "linked" / "config.md").symlink_to("/etc/passwd")
    os.mkfifo(home / "bots" / "piped" / "config.md")
    (home / "bots" / "outside").symlink_to(home / "bots" / "garden")
    return home


def test_no_link_is_followed_and_no_pipe_is_waited_for(tmp_path: Path) -> None:
    found = {bot.name: bot for bot in foreign_bots(hostile(tmp_path))}
    assert [path for path, _ in found["garden"].skills] == ["dig.md"]
    assert len(found["garden"].problems) == 8
    assert all(found[name].fault for name in ("linked", "piped", "outside"))
    assert "root:" not in str(found)


def test_skills_of_a_hostile_folder_are_read_as_far_as_they_are_files(tmp_path: Path) -> None:
    home = hostile(tmp_path)
    files = BotFiles(tmp_path / "home")
    found, problems = files.skills_in(home / "bots" / "garden" / "skills")
    assert [bot.name for bot in found] == ["dig"]
    assert len(problems) == 8
    with pytest.raises(BotError, match="cannot be read"):
        files.skills_in(home / "skills" / "pipe.md")
    (tmp_path / "home").mkdir()
    came, there, left = take_over_skills(files, home)
    assert (came, there, len(left)) == (["water"], [], 2)


def test_a_link_in_place_of_the_memory_is_an_error(tmp_path: Path) -> None:
    home = foreign(tmp_path, {})
    (home / "bots" / "garden" / "memory.json").unlink()
    (home / "bots" / "garden" / "memory.json").symlink_to("/etc/passwd")
    with pytest.raises(BotError, match=r"memory\.json cannot be read"):
        foreign_bots(home)


def test_a_reader_that_follows_links_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: files are opened as Path.read_bytes does."""

    def followed(self: ForeignFolder, path: str, most: int) -> bytes:
        whole = tmp_path / path
        if not whole.is_file():  # the pipe and the socket would hang this test
            raise FileNotFoundError(path)
        with open(whole, "rb") as file:
            return file.read(most)

    monkeypatch.setattr(ForeignFolder, "read", followed)
    found = {bot.name: bot for bot in foreign_bots(hostile(tmp_path))}
    assert "root:" in str(found)
