"""What people decide about skills: on, off, trusted, created; and what `/skills` says."""

import subprocess
import sys
from pathlib import Path

import pytest

from rumi.agent.skills.catalogue import Catalogue, sources
from rumi.agent.skills.command import skills_command
from rumi.agent.skills.creating import create_skill
from rumi.agent.skills.disabled import DisabledSkills, set_disabled
from rumi.agent.skills.folder import snapshot
from rumi.agent.skills.messages import SkillError
from rumi.agent.skills.trust import TrustedSkills
from rumi.agent.skills.trying import Trial
from rumi.errors import ConfigError
from tests.agent.skills.making import asked, home_only, write_skill

CONFIG = """\
# My settings
language = "es"  # Spanish

[skills]
# what I do not want
disabled = [
    "one",  # the first
]
max_in_prompt = 5

[log]
keep = 3
"""


def test_the_list_changes_and_everything_else_stays(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(CONFIG)
    config.chmod(0o640)
    assert set_disabled(config, "two", off=True)
    assert not set_disabled(config, "Two", off=True)
    assert DisabledSkills(config, {})().names == {"one", "two"}
    for kept in ("# My settings", "# Spanish", "# what I do not want", "# the first", "keep = 3"):
        assert kept in config.read_text()
    assert set_disabled(config, "TWO", off=False)
    assert not set_disabled(config, "two", off=False)
    assert DisabledSkills(config, {})().names == {"one"}
    assert config.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


@pytest.mark.parametrize(
    "text", [None, "", 'language = "es"', "[skills]\nmax_in_prompt = 3\n", "[log]\nkeep = 3\n"]
)
def test_a_list_that_is_missing_is_made(tmp_path: Path, text: str | None) -> None:
    config = tmp_path / "config.toml"
    if text is not None:
        config.write_text(text)
    assert not set_disabled(config, "a", off=False)
    assert set_disabled(config, "a", off=True)
    assert DisabledSkills(config, {})().names == {"a"}
    assert (text or "").strip() in config.read_text()
    if text is None:
        assert config.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["[skills\n", "skills = 3\n", '[skills]\ndisabled = "a"\n'])
def test_a_broken_file_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    config = tmp_path / "config.toml"
    config.write_text(text)
    with pytest.raises(ConfigError, match="not valid TOML"):
        set_disabled(config, "a", off=True)
    assert config.read_text() == text


def test_a_config_that_is_a_link_goes_on_being_one(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles" / "config.toml").write_text(CONFIG)
    (tmp_path / "config.toml").symlink_to("dotfiles/config.toml")
    assert set_disabled(tmp_path / "config.toml", "two", off=True)
    assert (tmp_path / "config.toml").is_symlink()
    assert "two" in (tmp_path / "dotfiles" / "config.toml").read_text()


def test_trust_is_kept_for_each_folder_by_itself(tmp_path: Path) -> None:
    trusted = TrustedSkills(tmp_path / "skills-trusted.json")
    one, two = (write_skill(tmp_path / name, "same") for name in ("one", "two"))
    trusted.trust(one, snapshot(one))
    assert trusted.is_trusted(one, snapshot(one))
    assert not trusted.is_trusted(two, snapshot(two))
    trusted.trust(two, snapshot(two))
    assert len(trusted.pins()) == 2


def test_a_damaged_file_of_trusted_skills_trusts_none_and_is_not_overwritten(tmp_path: Path) -> None:
    file, folder = tmp_path / "skills-trusted.json", write_skill(tmp_path, "one")
    file.write_text("{")
    trusted = TrustedSkills(file)
    assert not trusted.is_trusted(folder, snapshot(folder))
    with pytest.raises(SkillError, match="cannot be read"):
        trusted.trust(folder, snapshot(folder))
    assert file.read_text() == "{"


@pytest.mark.long
def test_new_skills_work_and_so_do_their_tests_all_at_once(tmp_path: Path) -> None:
    description = 'Does: "things" & \\ #more {braces}'
    skills = tmp_path / "skills"
    for name, code in (("my-skill", False), ("my_skill.2", True), ("2_días", True)):
        trial = Trial(create_skill(skills, name, description=description, code=code))
        assert (trial.skill.name, trial.skill.header.description) == (name, description)
        assert trial.skill.has_code == code
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", skills, skills],
        cwd=skills,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "6 passed" in done.stdout
    assert Catalogue(home_only(tmp_path)).look().listed.problems == ()


@pytest.mark.parametrize("name", ["", "a b", "../x", "-a", "a/b", "x" * 65, ".hidden", "a\n"])
def test_a_name_that_cannot_be_one_makes_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(SkillError, match="cannot be a skill's name"):
        create_skill(tmp_path / "skills", name)
    assert not (tmp_path / "skills").exists()


def test_what_is_there_is_not_written_over(tmp_path: Path) -> None:
    create_skill(tmp_path, "a")
    with pytest.raises(SkillError, match="already exists"):
        create_skill(tmp_path, "a")
    with pytest.raises(SkillError, match="at most 1024"):
        create_skill(tmp_path, "b", description="x" * 2000)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_trial_says_what_is_wrong_with_a_skill(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, "a")
    (folder / "SKILL.md").write_text("broken")
    with pytest.raises(SkillError, match="first line must be ---"):
        Trial(folder)
    with pytest.raises(SkillError, match=r"has no SKILL\.md"):
        Trial(tmp_path)


async def test_the_chat_command_lists_and_shows_in_both_languages(tmp_path: Path) -> None:
    home = tmp_path
    write_skill(home / "skills", "report", "Writes [a report](https://evil.test) `now` *please* " + "x" * 500)
    write_skill(home / "skills", "old", more="enabled: false")
    (home / "skills" / "wrong").mkdir()
    (home / "skills" / "wrong" / "SKILL.md").write_text("")
    async with asked(Catalogue(sources(home))) as skills:
        listed = await skills_command(skills.ask, "en", "")
        assert listed.startswith("I can use these 6 skills:\n\n- `compare-files`: Compares")
        assert "Switched off: `old`." in listed
        assert "1 skill cannot be loaded" in listed
        assert "\\[a report\\](https" in listed
        assert all(len(line) < 220 for line in listed.splitlines())
        assert "Sé usar estas 6 habilidades:" in await skills_command(skills.ask, "es", "")
        one = await skills_command(skills.ask, "es", " TIDY_folder ")
        assert one.startswith("`tidy-folder` 1.0 (activa, con código; viene con Rumi)\n\nSorts")
        assert "off" in await skills_command(skills.ask, "en", "old")
        assert "`no ne`" in await skills_command(skills.ask, "en", "no`ne")


async def test_the_chat_command_has_a_word_for_none_and_an_end_for_many(tmp_path: Path) -> None:
    async with asked(Catalogue(home_only(tmp_path))) as skills:
        assert await skills_command(skills.ask, "en", "") == "No skill is on."
        for number in range(60):
            write_skill(tmp_path / "skills", f"s{number:02}")
        listed = await skills_command(skills.ask, "es", "")
        assert "(y 10 más)" in listed
        assert len(listed.splitlines()) < 60
