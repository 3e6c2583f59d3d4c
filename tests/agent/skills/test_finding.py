"""Where skills are found below a source: in categories, in repositories, and in the source itself."""

import os
from pathlib import Path

import pytest

from rumi.agent.skills import finding
from rumi.agent.skills.catalogue import Catalogue
from rumi.agent.skills.disabled import Disabled
from rumi.agent.skills.folder import snapshot
from rumi.agent.skills.messages import Listed, SkillEntry, SkillError, SkillSource
from rumi.agent.skills.mounting import Mounts
from rumi.agent.skills.trust import TrustedSkills
from rumi.sandbox.engine import skills_folder
from tests.agent.skills.making import home_only, write_skill


def listed(root: Path, kind: str = "home") -> Listed:
    return Catalogue([SkillSource(kind, root)]).look().listed  # type: ignore[arg-type]


def names(found: Listed) -> list[str]:
    return [entry.skill.name for entry in found.entries]


@pytest.mark.parametrize(
    "path",
    [
        "x",
        "writing/x",
        "writing/english/x",
        "repository/skills/x",
        "repository/skills/writing/x",
        "repository/plugins/one/skills/x",
        "repository/.claude/skills/x",
        "repository/.agents/skills/x",
        "repository/skills/.curated/x",
        "repository/cli/components/skills/writing/x",
    ],
)
def test_skills_are_found_in_categories_and_repositories(tmp_path: Path, path: str) -> None:
    write_skill((tmp_path / path).parent, "x")
    found = listed(tmp_path)
    assert (names(found), found.problems) == (["x"], ())
    assert found.entries[0].skill.folder == tmp_path / path


def test_the_source_itself_and_the_first_folder_may_be_a_skill_with_others_inside(tmp_path: Path) -> None:
    write_skill(tmp_path, "all")
    write_skill(tmp_path / "all" / "skills", "one")
    write_skill(tmp_path / "all" / "skills", "two")
    assert names(listed(tmp_path)) == names(listed(tmp_path / "all")) == ["all", "one", "two"]


def test_folders_of_a_skill_are_its_own_and_hidden_ones_are_not_searched(tmp_path: Path) -> None:
    write_skill(tmp_path / "writing", "x")
    for inner in ("writing/x/examples", "writing/x/skills", ".git", "node_modules", "a/.venv"):
        write_skill(tmp_path / inner, "inner")
    assert names(listed(tmp_path)) == ["x"]


@pytest.mark.parametrize("name", ["skill.md", "Skill.md", "SKILL.MD", "sKILL.md"])
def test_a_file_in_other_letters_is_told_wherever_it_lies(tmp_path: Path, name: str) -> None:
    folder = write_skill(tmp_path / "writing", "x")
    (folder / "SKILL.md").rename(folder / name)
    assert listed(tmp_path).problems == (f"{folder / name}: it must be called SKILL.md",)


def test_an_archive_and_an_unreadable_folder_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path, "x")
    (tmp_path / "pdf.skill").write_bytes(b"PK")
    (tmp_path / "closed").mkdir()
    real = os.scandir

    def refused(path: str) -> object:
        if path.endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", refused)
    found = listed(tmp_path)
    assert names(found) == ["x"]
    assert [line.removeprefix(f"{tmp_path}/") for line in found.problems] == [
        "pdf.skill: it is an archive: unpack it there",
        "closed: it cannot be read: Permission denied",
    ]


def test_skills_of_one_name_in_two_categories_get_names_of_their_own(tmp_path: Path) -> None:
    write_skill(tmp_path / "code", "summary", "Of code.")
    write_skill(tmp_path / "writing", "summary", "Of texts.")
    write_skill(tmp_path / "writing", "other")
    catalogue = Catalogue([SkillSource("home", tmp_path)])
    assert names(catalogue.look().listed) == ["other", "summary", "writing.summary"]
    view = catalogue.look()
    for asked, description in {
        "summary": "Of code.",
        "writing.summary": "Of texts.",
        "writing:summary": "Of texts.",
        "writing/summary": "Of texts.",
        "anything:other": "Does something.",
    }.items():
        entry = view.find(asked)
        assert isinstance(entry, SkillEntry), asked
        assert entry.skill.header.description == description
    named = {entry.skill.name: entry.skill.own_name for entry in view.listed.entries}
    assert named == {"other": "other", "summary": "summary", "writing.summary": "summary"}
    (note,) = [note for entry in view.listed.entries for note in entry.skill.header.notes]
    assert f"it is called writing.summary, because {tmp_path}/code/summary has its name" in note


def test_a_skill_that_was_off_stays_off_under_its_longer_name(tmp_path: Path) -> None:
    for category in ("code", "writing"):
        write_skill(tmp_path / category, "summary", f"Of {category}.")
    catalogue = Catalogue([SkillSource("home", tmp_path)], lambda: Disabled(frozenset({"summary"})))
    assert [entry.off for entry in catalogue.look().listed.entries] == ["config", "config"]
    catalogue = Catalogue([SkillSource("home", tmp_path)], lambda: Disabled(frozenset({"writing.summary"})))
    assert [entry.off for entry in catalogue.look().listed.entries] == [None, "config"]


def test_copies_of_a_skill_for_several_programs_are_one(tmp_path: Path) -> None:
    for folder in ("skills", ".claude/skills", "codex/skills"):
        write_skill(tmp_path / "repository" / folder, "x")
    found = listed(tmp_path)
    assert (names(found), found.problems) == (["x"], ())
    assert found.entries[0].skill.folder == tmp_path / "repository" / "skills" / "x"


def test_links_are_followed_below_own_folders_and_end(tmp_path: Path) -> None:
    write_skill(tmp_path / "elsewhere", "linked")
    root = tmp_path / "skills"
    write_skill(root / "writing", "x")
    (root / "writing" / "linked").symlink_to(tmp_path / "elsewhere" / "linked")
    (root / "writing" / "up").symlink_to(root)
    (root / "top").symlink_to(tmp_path)
    (root / "writing" / "circle").symlink_to("circle")
    found = listed(root)
    assert (names(found), found.problems) == (["linked", "x"], ())
    assert names(listed(root, "project")) == ["x"]
    assert (
        f"{root}/top: it is a link, and no link in a project is followed" in listed(root, "project").problems
    )


def test_depth_and_number_of_folders_are_limited_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path / "/".join("abcdefghijklm"), "deep")
    write_skill(tmp_path, "x")
    found = listed(tmp_path)
    assert names(found) == ["x"]
    assert ["lie too deep" in line for line in found.problems] == [True]
    monkeypatch.setattr(finding, "MOST_FOLDERS", 5)
    assert "more than 5 folders" in listed(tmp_path).problems[0]
    monkeypatch.setattr(finding, "MOST_IN_A_SOURCE", 2)
    for name in ("y", "z"):
        write_skill(tmp_path, name)
    assert (names(listed(tmp_path)), len(listed(tmp_path).problems)) == (["x", "y"], 1)


def test_new_and_removed_skills_in_categories_are_seen(tmp_path: Path) -> None:
    write_skill(tmp_path / "writing", "x")
    catalogue = Catalogue([SkillSource("home", tmp_path)])
    view = catalogue.look()
    for path in (tmp_path, tmp_path / "writing", tmp_path / "writing" / "x" / "SKILL.md"):
        os.utime(path, (1, 1))
    assert names(view.listed) == ["x"]
    folder = write_skill(tmp_path / "writing", "y")
    assert names(catalogue.look().listed) == ["x", "y"]
    (folder / "SKILL.md").unlink()
    folder.rmdir()
    assert names(catalogue.look().listed) == ["x"]


def test_a_title_that_is_no_name_names_a_skill_whose_folder_cannot(tmp_path: Path) -> None:
    for folder, title, name in (
        ("PDF Tools (2)", "PDF Tools", "PDF-Tools"),
        ("wörter & so", "", "wörter-so"),
        ("ok", "Not A Name!", "ok"),
        ("a+b", "++", "a-b"),
    ):
        path = write_skill(tmp_path, folder)
        (path / "SKILL.md").write_text(f"---\nname: {title}\ndescription: {folder}\n---\n")
        assert name in names(listed(tmp_path)), folder


def test_a_nested_skill_of_a_project_is_trusted_and_copied_like_others(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    (home / "run").mkdir(parents=True, mode=0o700)
    folders = [write_skill(project / category, "x", f"Of {category}.") for category in ("code", "writing")]
    trusted = TrustedSkills(home / "trusted.json")
    mounts = Mounts(skills_folder(home), trusted)
    catalogue = Catalogue([SkillSource("project", project)], trusted=trusted)
    mounts.sync(catalogue.look().enabled())
    assert not list(skills_folder(home).glob("x*"))
    trusted.trust(folders[1], snapshot(folders[1]))
    enabled = {skill.name: skill for skill in catalogue.look().enabled()}
    assert {name: skill.vouched for name, skill in enabled.items()} == {"x": False, "writing.x": True}
    mounts.sync(enabled.values())
    assert "Of writing." in (skills_folder(home) / "writing.x" / "SKILL.md").read_text()
    assert not (skills_folder(home) / "x").exists()
    write_skill(project / "writing", "x", "Obey.")
    assert not catalogue.look().usable("writing.x").vouched  # type: ignore[union-attr]


def test_what_is_not_a_skill_is_an_error_that_names_near_ones(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills" / "writing", "summary", "Sums up.")
    lost = Catalogue(home_only(tmp_path)).look().find("writing:nothing", "sums")
    assert isinstance(lost, SkillError)
    assert "summary" in str(lost)
