"""`rumi skills`, in a process of its own."""

import os
import shlex
import subprocess
import textwrap
import time
from pathlib import Path

import pytest

from rumi.agent.skills.actor import FRESH_S
from tests.agent.skills.making import write_skill
from tests.cli.program import BOUND_S, Program

WITHOUT_PYTEST = """
import runpy, sys
sys.modules["pytest"] = None
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.fixture
def rumi(tmp_path: Path) -> Program:
    return Program(tmp_path / "home")


def inside(program: Program, folder: Path, *words: str, code: int = 0) -> str:
    """Run `rumi skills` in a folder; both streams."""
    done = program.run("skills", *words, code=code, folder=folder)
    return done.stdout + done.stderr


def test_list_shows_what_is_on_and_with_all_what_is_off(rumi: Program, tmp_path: Path) -> None:
    (tmp_path / "home" / "skills" / "wrong").mkdir(parents=True)
    (tmp_path / "home" / "skills" / "wrong" / "SKILL.md").write_text("x")
    done = rumi.run("skills", "list")
    assert [line.split()[0] for line in done.stdout.splitlines()] == [
        *("compare-files", "daily-notes", "explain", "summarize", "tidy-folder")
    ]
    assert "wrong/SKILL.md: it has no front matter" in done.stderr
    rumi.run("skills", "disable", "Explain")
    assert (tmp_path / "home" / "config.toml").stat().st_mode & 0o777 == 0o600
    off = rumi.run("skills", "list").stdout
    assert "explain  " not in off
    assert "1 is off: rumi skills list -a shows it." in off
    assert "explain        (off) Explains" in rumi.run("skills", "list", "-a").stdout
    assert rumi.run("skills", "enable", "explain").stdout == "explain is on.\n"
    assert "explain  " in rumi.run("skills", "list").stdout


def test_what_is_odd_about_a_skill_is_listed_and_told(rumi: Program, tmp_path: Path) -> None:
    folder = write_skill(tmp_path / "home" / "skills" / "writing", "mine", more="argument-hint: [a] [b|c]")
    done = rumi.run("skills", "list")
    assert "\nmine " in done.stdout
    note = "its front matter is not valid YAML, so these keys were read as plain text: argument_hint"
    assert f"mine: {note}\n" in done.stderr
    shown = rumi.run("skills", "info", "writing:mine").stdout
    assert f"folder      {folder}\n" in shown
    assert f"note        {note}\n" in shown


def test_create_makes_one_that_hides_the_bundled_one_and_info_says_so(rumi: Program) -> None:
    said = rumi.run("skills", "create", "explain", "-d", "Mine.").stdout
    assert "It now replaces the one from Rumi itself" in said
    shown = rumi.run("skills", "info", "explain").stdout
    assert shown.startswith("explain 0.1: on\n  Mine.\nfrom        RUMI_HOME/skills\n")
    assert "hides       the one from Rumi itself, " in shown
    again = rumi.run("skills", "create", "explain", code=1)
    assert "already exists" in again.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("info", "nothing"), 2, "Unknown skill “nothing”."),
        (("disable", "summarise text"), 2, "The nearest are: summarize."),
        (("enable", "nothing"), 2, "Unknown skill"),
        (("trust", "nothing"), 2, "Unknown skill"),
        (("create", "a b"), 1, "cannot be a skill's name"),
    ],
)
def test_what_is_not_there_is_one_sentence(
    rumi: Program, words: tuple[str, ...], code: int, said: str
) -> None:
    done = rumi.run("skills", *words, code=code)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_variable_over_the_file_is_told(rumi: Program) -> None:
    rumi.env["RUMI_SKILLS__DISABLED"] = '["explain"]'
    assert "off by RUMI_SKILLS__DISABLED" in rumi.run("skills", "info", "explain").stdout
    assert "overrides config.toml" in rumi.run("skills", "enable", "explain").stderr


def test_one_that_is_off_by_itself_says_which_line_to_change(rumi: Program, tmp_path: Path) -> None:
    folder = write_skill(tmp_path / "home" / "skills", "mine", more="enabled: false")
    done = rumi.run("skills", "enable", "mine", code=1)
    assert f"enabled: false. Change that line in {folder / 'SKILL.md'}" in done.stderr


@pytest.mark.parametrize("spelling", ["writing.mine", "writing/mine", "writing:mine", "Writing.Mine"])
def test_a_nested_skill_is_switched_by_any_spelling(rumi: Program, tmp_path: Path, spelling: str) -> None:
    for category in ("editing", "writing"):
        write_skill(tmp_path / "home" / "skills" / category, "mine", category)
    (tmp_path / "home" / "config.toml").write_text('[skills]\ndisabled = ["writing/mine"]\n')
    assert "writing.mine  " not in rumi.run("skills", "list").stdout
    assert rumi.run("skills", "enable", spelling).stdout == "writing.mine is on.\n"
    assert "writing.mine  " in rumi.run("skills", "list").stdout


def test_a_projects_code_is_trusted_as_it_is(rumi: Program, tmp_path: Path) -> None:
    project = tmp_path / "project"
    folder = write_skill(project / ".rumi" / "skills", "build", code="x = 1")
    assert "not trusted: rumi skills trust build" in inside(rumi, project, "info", "build")
    said = inside(rumi, project, "trust", "build")
    assert f"Trusted build, as it is now in {folder}:" in said
    assert "  skill.py (5 bytes)\n" in said
    assert "trusted as it is now" in inside(rumi, project, "info", "build")
    assert "is trusted already" in inside(rumi, project, "trust", "build")
    (folder / "skill.py").write_text("x = 2")
    assert "not trusted" in inside(rumi, project, "info", "build")
    (folder / "link").symlink_to("/etc/passwd")
    assert "cannot be trusted: link in it is not an ordinary file" in inside(
        rumi, project, "trust", "build", code=1
    )
    assert "needs no trust" in inside(rumi, project, "trust", "explain")
    assert "Unknown skill" in inside(rumi, tmp_path, "info", "build", code=2)


@pytest.mark.long
@pytest.mark.bubblewrap
def test_a_running_chat_uses_what_was_edited_and_not_what_was_switched_off(
    bubblewrap: Program, tmp_path: Path
) -> None:
    skills = tmp_path / "home" / "skills"
    bubblewrap.env["RUMI_MODEL__DEFAULT"] = "offline"
    process = bubblewrap.start("chat")
    assert process.stdin is not None
    assert process.stdout is not None

    def see(words: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        time.sleep(2 * FRESH_S)  # a look at the folders serves for a moment
        process.stdin.write("use skill mine: this\n")
        process.stdin.flush()
        while words not in (line := process.stdout.readline()):
            assert line, f"it ended without saying {words}"

    try:
        for body in ("First way.", "Another way."):
            write_skill(skills, "mine", body=body)
            see(body)
        assert bubblewrap.run("skills", "disable", "mine").stdout == "mine is off.\n"
        see("The skill mine is off.")
        bubblewrap.run("skills", "enable", "mine")
        see("Another way.")
        assert process.communicate(timeout=BOUND_S)[0].count("way.") == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.bubblewrap
def test_one_turn_uses_a_skill_in_both_languages_and_what_goes_wrong_in_its_code_is_the_answer(
    bubblewrap: Program, tmp_path: Path
) -> None:
    bubblewrap.env["RUMI_MODEL__DEFAULT"] = "offline"
    bubblewrap.run("skills", "create", "count-files", "--code")
    said = bubblewrap.run("chat", "-p", "write a.txt: x; then use skill count-files: hello").stdout
    assert "The skill count-files has run:" in said
    assert "hello\n\nFiles:\na.txt" in said
    code = tmp_path / "home" / "skills" / "count-files" / "skill.py"
    code.write_text(code.read_text().replace('"bash"', '"teleport"'))
    said = bubblewrap.run("chat", "-p", "usa skill count_files: hola").stdout
    assert "The skill count-files failed: ToolFailed: there is no tool 'teleport'" in said


def test_the_code_of_a_skill_finds_the_folder_of_a_new_chat_and_commands_see_its_files(
    program: Program, tmp_path: Path
) -> None:
    program.env["RUMI_MODEL__DEFAULT"] = "offline"
    code = """
    class KeepSkill:
        async def run(self, context):
            (context.workspace / "kept.txt").write_text("kept\\n")
            return context.made("done")
    """
    write_skill(program.home / "skills", "keep", code=textwrap.dedent(code), more="own_result: parts")
    said = program.run("chat", "--chat", "new", "-p", "use skill keep: x; then run cat kept.txt").stdout
    assert "The skill keep has run:\ndone" in said
    assert "```\nkept\n```" in said


def test_the_help_fits_eighty_columns(rumi: Program) -> None:
    for words in ((), ("list",), ("info",), ("enable",), ("disable",), ("create",), ("trust",)):
        said = rumi.run("skills", *words, "--help").stdout
        assert all(len(line) <= 80 for line in said.splitlines())
        assert "..." not in said.replace("[ARGS]...", "")
    assert os.linesep in said


@pytest.mark.long
@pytest.mark.parametrize("code", [(), ("--code",)])
def test_the_command_that_create_recommends_works_as_it_stands(rumi: Program, code: tuple[str, ...]) -> None:
    made = rumi.run("skills", "create", "my-skill", *code).stdout
    recommended = shlex.split(made.splitlines()[-1].partition("try it with: ")[2])
    without_pytest = [recommended[0], "-c", WITHOUT_PYTEST, *recommended[1:]]
    for words in (recommended, without_pytest):
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout.count(": passed")) == (0, 2), done.stderr
