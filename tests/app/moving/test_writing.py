"""What is stored: once, complete, and without rights that nobody gave."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from rumi.agent.skills.catalogue import Catalogue, sources
from rumi.agent.skills.disabled import DisabledSkills
from rumi.app.moving.report import ImportReport
from tests.app.moving.building import BREAD, export, home_of, move_in, stored_in
from tests.conftest import ROOT


def why(report: ImportReport, part: str) -> list[str]:
    return [str(one.why) for one in report.left_out if one.part == part]


async def test_all_parts_of_a_home_are_stored_and_nothing_of_it_acts(tmp_path: Path) -> None:
    home = tmp_path / "home"
    report = await move_in(home, "openclaw", home_of("openclaw", tmp_path))
    figures = {part: (one.new, one.here) for part, one in report.parts.items()}
    assert figures == {
        "sessions": (3, 0), "memory": (8, 0), "skills": (2, 0), "schedules": (3, 0), "config": (1, 0),
        "people": (0, 0),
    }  # fmt: skip
    stored = stored_in(home)
    assert stored["open"] == (0,)
    assert {state for _, _, state in stored["schedules"]} == {"paused"}
    assert all(tainted for _, _, tainted, _ in stored["history"])
    assert all(tainted and turn.startswith("import openclaw: ") for _, _, tainted, turn in stored["facts"])
    disabled = DisabledSkills(home / "config.toml", {})
    entries = Catalogue(sources(home), disabled).look().listed.entries
    assert {one.skill.name: one.off for one in entries if one.skill.name in ("tidy-notes", "weather")} == {
        "tidy-notes": "config",
        "weather": "config",
    }
    assert "people" not in tomllib.loads(stored["config"])
    assert report.file is not None
    assert report.file.stat().st_mode & 0o777 == 0o600
    saved = json.loads(report.file.read_text())
    assert saved["parts"]["sessions"]["turns"] == 4
    assert saved["chats"] == report.chats
    assert "sk-live" not in report.file.read_text()
    assert [Path(kept).name for kept in report.kept] == ["SOUL.md", "AGENTS.md"]


async def test_a_preview_stores_nothing_and_a_second_import_adds_nothing(tmp_path: Path) -> None:
    home, foreign = tmp_path / "home", home_of("nanobot", tmp_path)
    preview = await move_in(home, "nanobot", foreign, dry=True)
    assert stored_in(home)["messages"] == stored_in(home)["facts"] == stored_in(home)["schedules"] == []
    assert not (home / "imports").exists()
    done = await move_in(home, "nanobot", foreign)
    assert {p: one.new for p, one in preview.parts.items() if p != "people"} == {
        p: one.new for p, one in done.parts.items() if p != "people"
    }
    first = stored_in(home)
    again = await move_in(home, "nanobot", foreign)
    assert stored_in(home) == first
    assert again.is_empty(people=False)
    assert again.parts["sessions"].here == 2


async def test_only_what_is_new_is_added_later(tmp_path: Path) -> None:
    home, foreign = tmp_path / "home", home_of("nanobot", tmp_path)
    await move_in(home, "nanobot", foreign)
    (session,) = foreign.rglob("Y2xpOmRpcmVjdA.jsonl")
    with session.open("a") as file:
        for role, text in (("user", "and later"), ("assistant", "yes")):
            line = {"role": role, "content": text, "timestamp": "2027-01-01T10:00:00"}
            file.write(f"{json.dumps(line)}\n")
    with (foreign / "workspace/memory/MEMORY.md").open("a") as notes:
        notes.write("- A new note\n")
    report = await move_in(home, "nanobot", foreign)
    assert (report.parts["sessions"].new, report.parts["sessions"].within) == (1, 1)
    assert (report.parts["memory"].new, report.parts["memory"].here) == (1, 4)


async def test_people_get_rights_only_if_somebody_says_so_and_never_all(tmp_path: Path) -> None:
    home, foreign = tmp_path / "home", home_of("nanobot", tmp_path)
    asked = await move_in(home, "nanobot", foreign, dry=True)
    assert asked.people == ["user22222222 (22222222)", "ana (33333333)"]
    told = await move_in(home, "nanobot", foreign)
    assert len(why(told, "people")) == 2
    await move_in(home, "nanobot", foreign, people=True)
    people = tomllib.loads((home / "config.toml").read_text())["people"]
    assert people == {
        "user22222222": {"telegram": [22222222], "role": "guest"},
        "ana": {"telegram": [33333333], "role": "guest"},
    }
    assert (await move_in(home, "nanobot", foreign, people=True)).parts["people"].here == 2


async def test_only_the_parts_that_were_named_are_stored(tmp_path: Path) -> None:
    home = tmp_path / "home"
    report = await move_in(home, "hermes", home_of("hermes", tmp_path), parts=("memory",))
    stored = stored_in(home)
    assert (len(stored["facts"]), stored["messages"], stored["skills"]) == (3, [], [])
    assert {one.part for one in report.left_out} <= {"memory"}


async def test_skills_never_replace_others_and_are_never_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, foreign = tmp_path / "home", home_of("openclaw", tmp_path)
    own = home / "skills/tidy-notes/SKILL.md"
    own.parent.mkdir(parents=True)
    home.chmod(0o700)
    own.write_text("---\nname: tidy-notes\ndescription: mine\n---\nmine\n")
    bundled = foreign / "skills/summarize"
    bundled.mkdir()
    (bundled / "SKILL.md").write_text("---\nname: summarize\ndescription: theirs\n---\ntheirs\n")
    monkeypatch.setenv("RUMI_SKILLS__DISABLED", "[]")
    report = await move_in(home, "openclaw", foreign)
    assert sorted(why(report, "skills")) == [
        "RUMI_SKILLS__DISABLED would leave it on",
        "another skill has its name",
        "another skill has its name",
    ]
    assert "mine" in own.read_text()
    assert [path.name for path in (home / "skills").iterdir()] == ["tidy-notes"]


async def test_settings_that_a_person_chose_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign, home = home_of("openclaw", tmp_path), tmp_path / "home"
    report = await move_in(home, "openclaw", foreign)
    assert "Rumi has no key of this provider: rumi setup asks for it" in why(report, "config")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789abcdef")
    await move_in(home, "openclaw", foreign)
    assert tomllib.loads((home / "config.toml").read_text())["model"] == {
        "default": "anthropic:claude-opus-4-6"
    }
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    (other / "config.toml").write_text('# mine\n[model]\ndefault = "groq:openai/gpt-oss-20b"\n')
    report = await move_in(other, "openclaw", foreign)
    assert "you have chosen another value" in why(report, "config")
    assert (other / "config.toml").read_text().startswith('# mine\n[model]\ndefault = "groq:')
    (foreign / "openclaw.json").write_text("{agents: {defaults: {userTimezone: 'Asia/Tokyo'}}}")
    assert "you have chosen another time zone" in why(await move_in(other, "openclaw", foreign), "config")


async def test_sessions_that_rumi_would_delete_are_not_taken(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text("[session]\nkeep_days = 30\n")
    report = await move_in(home, "chatgpt", export(tmp_path / "e.zip", BREAD))
    assert report.parts["sessions"].new == 0
    assert why(report, "sessions")[-1] == "older than session.keep_days, so Rumi would delete them"


def _killed(tmp_path: Path, points: list[str]) -> None:
    foreign = home_of("openclaw", tmp_path)
    words = [
        sys.executable,
        "-m",
        "tests.app.moving.killed_imports",
        "openclaw",
        str(foreign),
        str(tmp_path),
        *points,
    ]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == [f"{point} True" for point in points]


async def test_an_import_that_was_killed_is_completed_by_the_next(tmp_path: Path) -> None:
    points = ["3", "10.5", "17.5"]
    _killed(tmp_path, points)
    await _completes(tmp_path, points)


@pytest.mark.more
@pytest.mark.long
async def test_an_import_killed_at_any_point_is_completed_by_the_next(tmp_path: Path) -> None:
    points = [str(half / 2) for half in range(2, 48, 2)]
    _killed(tmp_path, points)
    await _completes(tmp_path, points)


async def _completes(tmp_path: Path, points: list[str]) -> None:
    foreign = tmp_path / ".openclaw"
    await move_in(tmp_path / "whole", "openclaw", foreign)
    whole = stored_in(tmp_path / "whole")
    for point in points:
        await move_in(tmp_path / point, "openclaw", foreign)
        assert stored_in(tmp_path / point) == whole, point
        assert not [name for name in os.listdir(tmp_path / point / "skills") if name.startswith(".")]
