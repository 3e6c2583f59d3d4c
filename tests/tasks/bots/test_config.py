"""A bot's `config.md`: an openbot file is read as it is, and what cannot be is refused by name."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rumi.chats.budgets.amounts import Amount
from rumi.tasks.bots.bots import SessionStart, session
from rumi.tasks.bots.config import BotError, read_config
from rumi.tasks.bots.files import IMPORTED, BotFiles

OPENBOT = """\
+++
description = "Keeps the garden's diary"
model = "gpt-5.3-codex"
max_iterations = 7
sleep_secs = 12
stop_phrase = "GARDEN DONE"
sandbox = "workspace-write"
skip_git_check = true
+++

# The diary

Write what grows.
"""


def test_an_openbot_file_is_read_as_it_is() -> None:
    config = read_config("garden", OPENBOT)
    assert (config.max_iterations, config.sleep_secs, config.stop_phrase) == (7, 12.0, "GARDEN DONE")
    assert (config.sandbox, config.skip_git_check) == ("workspace-write", True)
    assert config.description == "Keeps the garden's diary"
    assert config.instructions == "# The diary\n\nWrite what grows."
    assert config.model == ""
    assert "gpt-5.3-codex" in config.notes[0]


def test_without_keys_all_of_it_are_instructions() -> None:
    config = read_config("garden", "Only words.\n")
    assert (config.instructions, config.max_iterations, config.stop_phrase) == (
        "Only words.",
        10,
        "TASK COMPLETE",
    )


def test_an_unknown_key_is_an_error_that_names_it_and_of_an_imported_file_a_note(tmp_path: Path) -> None:
    text = OPENBOT.replace("sleep_secs", "approval = 'never'\nsleep_secs")
    with pytest.raises(BotError, match="approval"):
        read_config("garden", text)
    assert "approval" in " ".join(read_config("garden", text, imported=True).notes)
    files = BotFiles(tmp_path)
    files.create("garden")
    (files.folder / "garden" / "config.md").write_text(text)
    with pytest.raises(BotError, match="approval"):
        files.read("garden")
    (files.folder / "garden" / IMPORTED).touch()
    assert files.read("garden").max_iterations == 7


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('sandbox = "danger-full-access"', "danger-full-access is refused"),
        ('sandbox = "none"', "sandbox"),
        ("max_iterations = -1", "max_iterations"),
        ("max_iterations = 1.5", "max_iterations"),
        ("max_iterations = true", "max_iterations"),
        ('sleep_secs = "soon"', "sleep_secs"),
        ("skip_git_check = 1", "skip_git_check"),
        ('budget = "a lot"', "budget"),
        ("stop_phrase = 3", "stop_phrase"),
        ('report_to = "no chat"', "report_to"),
        ("a b = 3", "TOML"),
    ],
)
def test_what_cannot_be_is_refused_by_name(line: str, named: str) -> None:
    with pytest.raises(BotError, match=named):
        read_config("garden", f"+++\n{line}\n+++\nWork.")


def test_keys_without_an_end_are_refused() -> None:
    with pytest.raises(BotError, match="no end"):
        read_config("garden", "+++\nmodel = ''\n")


@given(st.text())
def test_no_text_makes_it_crash(text: str) -> None:
    try:
        read_config("x", text)
        read_config("x", f"+++\n{text}\n+++\n")
    except BotError:
        pass


def test_a_budget_is_money_or_tokens_and_without_a_limit_there_must_be_one() -> None:
    def config(line: str, most: int = 0) -> Amount | None:
        return read_config("b", f"+++\nmax_iterations = {most}\n{line}\n+++\nWork.").budget

    assert config('budget = "2 USD"') == Amount("usd", 2_000_000_000)
    assert config("budget = 0.5") == Amount("usd", 500_000_000)
    assert config('budget = "5000 tokens"') == Amount("tokens", 5000)
    endless = read_config("b", "+++\nmax_iterations = 0\n+++\nWork.")
    with pytest.raises(BotError, match="needs a budget"):
        session(endless, SessionStart(), "local", "", "en")
    with pytest.raises(BotError, match="needs a budget"):
        session(read_config("b", "Work."), SessionStart(iterations=0), "local", "", "en")
    assert '"most": 2000000000' in session(endless, SessionStart(budget="2 USD"), "local", "", "en").options


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "a b", "-x", "x" * 41, "año\n"])
def test_a_name_that_could_leave_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    files = BotFiles(tmp_path)
    with pytest.raises(BotError):
        files.create(name)
    assert not files.has(name)


def test_skills_are_flat_files_and_folders_and_the_bots_own_counts(tmp_path: Path) -> None:
    files = BotFiles(tmp_path)
    folder = files.create("garden", "Grow")
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "water.md").write_text("Water at six.")
    (tmp_path / "skills" / "prune.md").write_text("---\nname: prune\ndescription: Cuts\n---\nCut in March.")
    (folder / "skills" / "prune.md").write_text("---\nname: prune\ndescription: Mine\n---\nCut in April.")
    (folder / "skills" / "nested").mkdir()
    (folder / "skills" / "nested" / "SKILL.md").write_text("---\nname: deep\ndescription: D\n---\nDig.")
    (folder / "skills" / "bad.md").write_bytes(b"\xff\xfe")
    skills, problems = files.skills("garden")
    assert [(skill.name, skill.text) for skill in skills] == [
        ("deep", "Dig."),
        ("prune", "Cut in April."),
        ("water", "Water at six."),
    ]
    assert "bad.md" in problems[0]
    files.write_skill("garden", "weed", 'with "quotes"', "Pull them.")
    assert ("weed", 'with "quotes"') in [
        (skill.name, skill.description) for skill in files.skills("garden")[0]
    ]
    files.remove_skill("garden", "weed")
    with pytest.raises(BotError, match="of its own"):
        files.remove_skill("garden", "water")
    with pytest.raises(BotError):
        files.write_skill("garden", "../up", "", "x")


def test_its_workspace_leads_to_the_files_of_its_sandbox(tmp_path: Path) -> None:
    files = BotFiles(tmp_path)
    folder = files.create("garden")
    files.workspace("garden").mkdir(parents=True)
    (files.workspace("garden") / "diary.txt").write_text("peas")
    assert (folder / "workspace" / "diary.txt").read_text() == "peas"
    assert not os.path.isabs(os.readlink(folder / "workspace"))
    files.delete("garden")
    assert files.names() == []
    assert (files.workspace("garden") / "diary.txt").exists()
