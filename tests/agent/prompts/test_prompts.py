"""The words of prompts, and the files in a home that replace them."""

from pathlib import Path

import pytest

from rumi.agent.prompts.prompts import Prompts, built_in
from rumi.app.settings import MOST_PROMPT_CHARS, prompts_of
from rumi.cli.doctor.settings import prompts as check
from rumi.errors import ConfigError
from rumi.platform.home import Home
from runner.fonts import PLACE
from runner.programs import CORE, OFFICE, WORK, Selection


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").make()


def test_the_sandbox_is_described_as_it_is() -> None:
    there = [name for name in Selection("work", ("ffmpeg",)).allowed if name not in ("rg", "tree")]
    said = Prompts(built_in()).instructions(there, 7.5)
    listed = "python3, pip, git, jq, sqlite3, make, node, perl, curl, ffmpeg"
    assert f"it has: {listed}. It lacks: rg, tree." in said
    assert "A command may take 7.5 s, or more with `timeout_s`." in said


def test_a_sandbox_with_the_core_says_what_it_lacks() -> None:
    said = Prompts(built_in()).instructions(CORE, 30)
    assert f"it has: nothing. It lacks: {', '.join(WORK)}." in said


def test_each_channel_has_a_form_and_no_other_name_has() -> None:
    prompts = Prompts(built_in())
    forms = {prompts.form(channel) for channel in ("telegram", "terminal", "page")}
    assert len(forms) == 3
    assert all(form.startswith("<channel name=") for form in forms)
    assert [prompts.form(name) for name in ("", "lines", "identity", "sandbox")] == [""] * 4


def test_a_file_in_the_home_replaces_the_words(home: Home) -> None:
    folder = home.root / "prompts"
    folder.mkdir()
    (folder / "identity.md").write_text("You are Bruma. {programs}\n")
    (folder / "sandbox.md").write_text("Files: {seconds} {unknown} { }\n")
    (folder / "page.md").write_text("")
    prompts = prompts_of(home)
    assert prompts.instructions(CORE, 30) == "You are Bruma. {programs}\n\nFiles: 30 {unknown} { }"
    assert prompts.form("page") == ""
    assert prompts.form("telegram") == Prompts(built_in()).form("telegram")
    assert "identity, page, sandbox" in check(home).found


def test_the_words_of_research_are_replaced_in_the_same_way(home: Home) -> None:
    (home.root / "prompts").mkdir()
    (home.root / "prompts/research-web.md").write_text("You search. {programs}\n")
    prompts = prompts_of(home)
    assert prompts.words["research-web"] == "You search. {programs}"
    assert "data from outside" in prompts.words["research-repo"]
    assert "research-web" in check(home).found


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("identiti.md", b"x", "replaces no prompt"),
        ("identity.txt", b"x", "replaces no prompt"),
        ("identity.md", b"\xff\xfe", "not UTF-8"),
        ("identity.md", b"x" * (MOST_PROMPT_CHARS + 1), "longer than"),
    ],
)
def test_a_file_that_cannot_replace_words_is_an_error(
    home: Home, name: str, content: bytes, told: str
) -> None:
    (home.root / "prompts").mkdir()
    (home.root / "prompts" / name).write_bytes(content)
    with pytest.raises(ConfigError, match=told):
        prompts_of(home)
    assert check(home).verdict == "failure"


def test_a_sandbox_with_the_office_packages_says_how_to_make_documents() -> None:
    prompts = Prompts(built_in())
    told = prompts.instructions((*CORE, *WORK, *OFFICE), 30)
    assert f"{PLACE}; DejaVuSans.ttf" in told
    assert all(name in told.lower() for name in OFFICE)
    for lacking in ((*CORE, *WORK), (*CORE, *WORK, *OFFICE[1:])):
        assert str(PLACE) not in prompts.instructions(lacking, 30)
    assert Prompts({**built_in(), "office": ""}).instructions((*CORE, *WORK, *OFFICE), 30)
    assert prompts.form("office") == ""
