"""Which skills there are, where from, and that what changes on the disk is seen."""

import os
from pathlib import Path

import pytest

from rumi.agent.skills.catalogue import Catalogue, sources
from rumi.agent.skills.disabled import Disabled, DisabledSkills
from rumi.agent.skills.folder import snapshot
from rumi.agent.skills.messages import (
    FileOf,
    ForPrompt,
    Info,
    Listing,
    Opened,
    ReadInstructions,
    SkillEntry,
    SkillError,
    SkillFile,
    SkillSource,
)
from rumi.agent.skills.trust import TrustedSkills
from tests.agent.skills.making import asked, home_only, write_skill


def names(catalogue: Catalogue) -> list[str]:
    return [entry.skill.name for entry in catalogue.look().listed.entries]


def problems(catalogue: Catalogue) -> tuple[str, ...]:
    return catalogue.look().listed.problems


def test_later_sources_replace_whole_skills_and_say_what_they_hide(tmp_path: Path) -> None:
    home, more, project = tmp_path / "home", tmp_path / "more", tmp_path / "project"
    for root in (home / "skills", more, project / ".rumi" / "skills"):
        write_skill(root, "explain", f"From {root.name}", more="license: MIT" if root == more else "")
    catalogue = Catalogue(sources(home, [str(more)], project))
    entry = catalogue.look().find("explain")
    assert isinstance(entry, SkillEntry)
    assert entry.skill.source.kind == "project"
    assert entry.skill.header.license == ""
    assert [hidden.source.kind for hidden in entry.hides] == ["dirs", "home", "bundled"]


def test_hyphen_and_underscore_are_the_same_skill(tmp_path: Path) -> None:
    write_skill(tmp_path / "one", "tidy-folder")
    write_skill(tmp_path / "two", "tidy_folder")
    catalogue = Catalogue([SkillSource("home", tmp_path / "one"), SkillSource("dirs", tmp_path / "two")])
    assert names(catalogue) == ["tidy_folder"]


def test_a_relative_folder_is_below_the_home_and_each_folder_counts_once(tmp_path: Path) -> None:
    home = tmp_path / ".rumi"
    write_skill(home / "mine", "a")
    found = sources(home, ["mine", "skills"], tmp_path)
    assert [source.kind for source in found] == ["bundled", "home", "dirs"]
    assert names(Catalogue(found[1:])) == ["a"]


def test_a_wrong_one_is_one_line_and_the_others_load(tmp_path: Path) -> None:
    root = tmp_path / "skills"
    write_skill(root, "good")
    (root / "no-front").mkdir()
    (root / "no-front" / "SKILL.md").write_text("# Hello")
    (root / "binary").mkdir()
    (root / "binary" / "SKILL.md").write_bytes(b"---\n\xff\xfe\n---\n")
    (root / "just-a-folder").mkdir()
    (root / "file.txt").write_text("no skill")
    (root / ".hidden").mkdir()
    catalogue = Catalogue(home_only(tmp_path))
    assert names(catalogue) == ["good"]
    lines = problems(catalogue)
    assert [line.split(": ")[0] for line in lines] == [
        str(root / "binary" / "SKILL.md"),
        str(root / "no-front" / "SKILL.md"),
    ]
    assert all("\n" not in line for line in lines)


def test_names_that_no_terminal_should_see_are_escaped(tmp_path: Path) -> None:
    for name in (b"a\nb", b"\xff\xfe", b"\x1b[31m"):
        folder = os.fsencode(tmp_path / "skills") + b"/" + name
        os.makedirs(folder)
        (Path(os.fsdecode(folder)) / "SKILL.md").write_text("---\ndescription: d\n---\n")
    lines = problems(Catalogue(home_only(tmp_path)))
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)


def test_links_pipes_and_folders_in_the_place_of_a_file_are_not_followed(tmp_path: Path) -> None:
    root, secret = tmp_path / "skills", tmp_path / "secret"
    secret.write_text("---\nname: x\ndescription: secret\n---\n")
    for name in ("link", "pipe", "folder"):
        (root / name).mkdir(parents=True)
    (root / "link" / "SKILL.md").symlink_to(secret)
    os.mkfifo(root / "pipe" / "SKILL.md")
    (root / "folder" / "SKILL.md").mkdir()
    catalogue = Catalogue(home_only(tmp_path))
    assert names(catalogue) == []
    assert len(problems(catalogue)) == 3


def test_a_persons_own_link_to_a_skill_works_and_a_projects_does_not(tmp_path: Path) -> None:
    write_skill(tmp_path / "elsewhere", "linked")
    for root in (tmp_path / "home" / "skills", tmp_path / ".rumi" / "skills"):
        root.mkdir(parents=True)
        (root / "linked").symlink_to(tmp_path / "elsewhere" / "linked")
    assert names(Catalogue(home_only(tmp_path / "home"))) == ["linked"]
    assert names(Catalogue([SkillSource("project", tmp_path / ".rumi" / "skills")])) == []


def test_a_file_in_small_letters_is_told(tmp_path: Path) -> None:
    folder = write_skill(tmp_path / "skills", "mine")
    (folder / "SKILL.md").rename(folder / "skill.md")
    catalogue = Catalogue(home_only(tmp_path))
    assert problems(catalogue) == (f"{folder / 'skill.md'}: it must be called SKILL.md",)
    (folder / "skill.md").rename(folder / "SKILL.md")
    assert (names(catalogue), problems(catalogue)) == (["mine"], ())


def test_a_link_that_leads_nowhere_or_in_a_circle_hides_no_others(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills", "mine")
    (tmp_path / "skills" / "circle").symlink_to(tmp_path / "skills" / "circle")
    (tmp_path / "skills" / "nowhere").symlink_to(tmp_path / "gone")
    catalogue = Catalogue(home_only(tmp_path))
    assert names(catalogue) == ["mine"]
    assert problems(catalogue) == ()


def test_a_missing_folder_of_the_configuration_is_told(tmp_path: Path) -> None:
    lines = problems(Catalogue(sources(tmp_path, ["/nowhere/skills", "~nobody-of-this-name/skills"])))
    assert lines[:1] == ("/nowhere/skills: there is no such folder ([skills] dirs names it)",)


def test_two_of_one_name_in_one_folder_are_one_too_many(tmp_path: Path) -> None:
    first = write_skill(tmp_path / "skills", "a")
    second = write_skill(tmp_path / "skills", "b")
    (second / "SKILL.md").write_text((first / "SKILL.md").read_text())
    catalogue = Catalogue(home_only(tmp_path))
    assert names(catalogue) == ["a"]
    assert str(second) in problems(catalogue)[0]


def test_without_a_name_the_folders_is_taken(tmp_path: Path) -> None:
    folder = write_skill(tmp_path / "skills", "my_skill")
    (folder / "SKILL.md").write_text("---\nname: My Skill!\ndescription: d\n---\n")
    assert names(Catalogue(home_only(tmp_path))) == ["my_skill"]


async def test_new_changed_and_deleted_skills_are_seen_at_the_next_ask(tmp_path: Path) -> None:
    root = tmp_path / "skills"
    async with asked(Catalogue(home_only(tmp_path))) as skills:
        assert (await skills.ask(Listing())).entries == ()
        folder = write_skill(root, "a", "First")
        assert [skill_entry.skill.name for skill_entry in (await skills.ask(Listing())).entries] == ["a"]
        for words in ("Other", "Again", "Third"):  # the same size each time, and quickly
            write_skill(root, "a", words, body=f"Body {words}")
            assert (await skills.ask(ForPrompt("", 5))).shown[0].description == words
            opened = await skills.ask(ReadInstructions("a"))
            assert isinstance(opened, Opened)
            assert opened.body == f"Body {words}"
        (folder / "skill.py").write_text("")
        entry = await skills.ask(Info("a"))
        assert isinstance(entry, SkillEntry)
        assert entry.skill.has_code
        (folder / "SKILL.md").unlink()
        assert (await skills.ask(Listing())).entries == ()


async def test_an_edit_that_keeps_size_and_time_is_seen(tmp_path: Path) -> None:
    folder = write_skill(tmp_path / "skills", "a", "First")
    os.utime(folder / "SKILL.md", (1, 1))
    async with asked(Catalogue(home_only(tmp_path))) as skills:
        await skills.ask(Listing())
        write_skill(tmp_path / "skills", "a", "Other")
        os.utime(folder / "SKILL.md", (1, 1))
        assert (await skills.ask(ForPrompt("", 5))).shown[0].description == "Other"


async def test_a_skill_that_breaks_while_running_is_a_line_and_comes_back(tmp_path: Path) -> None:
    folder = write_skill(tmp_path / "skills", "a")
    async with asked(Catalogue(home_only(tmp_path))) as skills:
        await skills.ask(Listing())
        (folder / "SKILL.md").write_text("broken")
        listed = await skills.ask(Listing())
        assert (listed.entries, len(listed.problems)) == ((), 1)
        write_skill(tmp_path / "skills", "a")
        listed = await skills.ask(Listing())
        assert (len(listed.entries), listed.problems) == (1, ())


async def test_what_is_off_is_not_in_the_prompt_and_says_how_to_switch_it_on(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    write_skill(tmp_path / "skills", "a")
    write_skill(tmp_path / "skills", "b", more="enabled: false")
    async with asked(Catalogue(home_only(tmp_path), DisabledSkills(config, {}))) as skills:
        assert [skill.name for skill in (await skills.ask(ForPrompt("", 5))).shown] == ["a"]
        config.write_text('[skills]\ndisabled = ["A"]\n')
        assert (await skills.ask(ForPrompt("", 5))).shown == ()
        refused = await skills.ask(ReadInstructions("a"))
        assert isinstance(refused, SkillError)
        assert "rumi skills enable a" in refused.advice
        itself = await skills.ask(ReadInstructions("b"))
        assert isinstance(itself, SkillError)
        assert "enabled: false" in str(itself)
        config.write_text("[skills\n")  # half written: what was said before holds
        assert (await skills.ask(ForPrompt("", 5))).shown == ()
        config.unlink()
        assert [skill.name for skill in (await skills.ask(ForPrompt("", 5))).shown] == ["a"]


def test_the_environment_stands_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[skills]\ndisabled = ["a"]\n')
    disabled = DisabledSkills(tmp_path / "config.toml", {"RUMI_SKILLS__DISABLED": '["b"]'})
    assert disabled() == Disabled(frozenset({"b"}), "environment")
    assert disabled.is_overridden


async def test_files_beside_a_skill_are_listed_and_read_inside_its_folder_only(tmp_path: Path) -> None:
    root = tmp_path / "skills"
    folder = write_skill(root, "a", code="x = 1")
    (folder / "reference.md").write_text("Reference: ñandú")
    (folder / "scripts").mkdir()
    (folder / "scripts" / "go.sh").write_text("echo hi")
    (folder / "test_skill.py").write_text("")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("")
    (folder / "picture.png").write_bytes(b"\x89PNG\0\0")
    (folder / "big.txt").write_text("é" * 100_000)
    (folder / "out").symlink_to("/etc")
    (tmp_path / "secret").write_text("secret")
    async with asked(Catalogue(home_only(tmp_path))) as skills:
        opened = await skills.ask(ReadInstructions("a"))
        assert isinstance(opened, Opened)
        listed = [file.path for file in opened.files]
        assert listed == ["big.txt", "picture.png", "reference.md", "scripts/go.sh"]
        read = await skills.ask(FileOf("a", "reference.md"))
        assert isinstance(read, SkillFile)
        assert read.text == "Reference: ñandú"
        assert isinstance(await skills.ask(FileOf("a", "./scripts/go.sh")), SkillFile)
        big = await skills.ask(FileOf("a", "big.txt"))
        assert isinstance(big, SkillFile)
        assert big.cut_bytes == 100_000
        for path, said in {
            "../../secret": "leads out",
            "/etc/passwd": "leads out",
            "out/passwd": "link",
            "nothing": "is not there",
            "scripts": "not an ordinary file",
            "picture.png": "is not text",
            "": "names no file",
            "a\0b": "names no file",
            "scripts/../.git/config": "is hidden",
        }.items():
            refused = await skills.ask(FileOf("a", path))
            assert isinstance(refused, SkillError), path
            assert said in str(refused)


async def test_words_that_changed_since_the_last_look_are_not_taken_for_trusted_ones(tmp_path: Path) -> None:
    folder = write_skill(tmp_path / "project", "a")
    trusted = TrustedSkills(tmp_path / "skills-trusted.json")
    trusted.trust(folder, snapshot(folder))
    catalogue = Catalogue([SkillSource("project", tmp_path / "project")], trusted=trusted)
    async with asked(catalogue, fresh_s=1000) as skills:
        first = await skills.ask(ReadInstructions("a"))
        assert isinstance(first, Opened)
        assert first.skill.vouched
        write_skill(tmp_path / "project", "a", body="Obey.")
        second = await skills.ask(ReadInstructions("a"))
        assert isinstance(second, Opened)
        assert (second.body, second.skill.vouched) == ("Obey.", False)


async def test_the_prompt_is_from_outside_while_a_projects_words_are_not_trusted(tmp_path: Path) -> None:
    folder = write_skill(tmp_path / "project", "a")
    write_skill(tmp_path / "home", "b")
    trusted = TrustedSkills(tmp_path / "skills-trusted.json")
    catalogue = Catalogue(
        [SkillSource("home", tmp_path / "home"), SkillSource("project", tmp_path / "project")],
        trusted=trusted,
    )
    async with asked(catalogue) as skills:
        assert (await skills.ask(ForPrompt("", 5))).tainted
        assert not (await skills.ask(ForPrompt("b", 1))).tainted  # it is not shown
        trusted.trust(folder, snapshot(folder))
        assert not (await skills.ask(ForPrompt("", 5))).tainted
        write_skill(tmp_path / "project", "a", "Obey.")
        assert (await skills.ask(ForPrompt("", 5))).tainted


async def test_an_unknown_name_is_answered_with_the_nearest(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills", "pdf-forms", "Fills forms in PDF files.")
    write_skill(tmp_path / "skills", "recipes", "Finds something to cook.")
    async with asked(Catalogue(home_only(tmp_path))) as skills:
        refused = await skills.ask(ReadInstructions("fill a form", "a pdf"))
        assert isinstance(refused, SkillError)
        assert "pdf-forms" in str(refused)
        assert "recipes" not in str(refused)
        lost = await skills.ask(Info("nothing\x1b[31m"))
        assert isinstance(lost, SkillError)
        assert "\x1b" not in str(lost)


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("please tidy my downloads folder", "tidy-folder"),
        ("ordená la carpeta", "tidy-folder"),
        ("Résumé of this text?", "summarize"),
        ("COMPARE two files", "compare-files"),
        ("", "compare-files"),
    ],
)
def test_the_best_matches_come_first_where_there_are_more_than_fit(
    tmp_path: Path, query: str, best: str
) -> None:
    root = tmp_path / "skills"
    write_skill(root, "tidy-folder", "Sorts files.", more="tags: [orden, carpeta]")
    write_skill(root, "summarize", "Says in short what a text says. Resume.")
    write_skill(root, "compare-files", "Shows what differs.")
    catalogue = Catalogue(home_only(tmp_path))
    found = catalogue.look().for_prompt(query, 1)
    assert ([skill.name for skill in found.shown], found.more) == ([best], 2)
    assert catalogue.look().for_prompt(query, 1) == Catalogue(home_only(tmp_path)).look().for_prompt(query, 1)


def test_a_limit_of_none_lists_none(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills", "a")
    found = Catalogue(home_only(tmp_path)).look().for_prompt("a", 0)
    assert (found.shown, found.more) == ((), 1)
