"""`SKILL.md` as people write it, for this assistant and for others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rumi.agent.skills.format import class_name, decode, is_name, parse, same
from rumi.agent.skills.messages import Header, SkillError


def header(front: str) -> Header:
    return parse(f"---\n{front}\n---\nDo it.\n")[0]


def test_all_keys_of_ours_are_read() -> None:
    found, body = parse(
        "---\nname: tidy-folder\ndescription: Tidies a folder.\nversion: 1.10\ntags: [files, order]\n"
        "tools_required:\n  - bash\nenabled: true\nlicense: MIT\nmetadata:\n  author: somebody\n"
        "---\n\n# Tidy\n\nFirst look.\n"
    )
    assert found == Header(
        name="tidy-folder",
        description="Tidies a folder.",
        title="tidy-folder",
        version="1.10",  # not 1.1: no value is a number
        tags=("files", "order"),
        tools_required=("bash",),
        license="MIT",
        metadata={"author": "somebody"},
    )
    assert body == "# Tidy\n\nFirst look."


@pytest.mark.parametrize(
    ("front", "description"),
    [
        ("description: Plain words", "Plain words"),
        ('description: "Quoted: with a colon"', "Quoted: with a colon"),
        ("description: 'It''s quoted'", "It's quoted"),
        ("description: >\n  Folded over\n  two lines.", "Folded over two lines."),
        ("description: >-\n  Folded\n  and stripped", "Folded and stripped"),
        ("description: |\n  Kept\n  as lines\n", "Kept as lines"),
        ("description: Goes on\n  on the next line", "Goes on on the next line"),
        ("description: Use when: somebody asks for it", "Use when: somebody asks for it"),
        ("description: Words # and a comment", "Words"),
        ("description: It's here: it's there\nlicense: MIT", "It's here: it's there"),
        ("description: Ünïcödé 漢字 🎉", "Ünïcödé 漢字 🎉"),
        ("description: yes", "yes"),
        ("description: 2026-01-01", "2026-01-01"),
        ("# a comment\n\ndescription: After a comment", "After a comment"),
        ("{name: x, description: In braces}", "In braces"),
    ],
)
def test_a_description_is_taken_however_it_is_written(front: str, description: str) -> None:
    assert header(front).description == description


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff---\nname: a\ndescription: d\n---\nbody\n",
        "---\r\nname: a\r\ndescription: d\r\n---\r\nbody\r\n",
        "---\rname: a\rdescription: d\r---\rbody\r",
        "\n\n---\nname: a\ndescription: d\n---\nbody",
        "--- \nname: a\ndescription: d\n---\t\nbody",
    ],
)
def test_marks_and_line_ends_make_no_difference(text: str) -> None:
    found, body = parse(text)
    assert (found.name, found.description, body) == ("a", "d", "body")


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        ("tags: [a, b c]", ("a", "b c")),
        ("tags:\n- a\n- b", ("a", "b")),
        ("tags: a, b c", ("a", "b c")),
        ("tags: a b", ("a", "b")),
        ("tags: one", ("one",)),
        ("tags:", ()),
        ("tags: [1, 2.0, true]", ("1", "2.0", "true")),
        ("tags: [a, a]", ("a",)),
    ],
)
def test_tags_are_a_list_or_a_text(tags: str, words: tuple[str, ...]) -> None:
    assert header(f"description: d\n{tags}").tags == words


@pytest.mark.parametrize(
    "front",
    [
        "name: pdf-forms\ndescription: d\nlicense: Complete terms in LICENSE.txt",
        "name: pdf-forms\ndescription: d\nallowed-tools: Bash(git:*) Read",
        "name: pdf-forms\ndescription: d\nallowed-tools:\n  - Read\n  - Bash",
        "name: pdf-forms\ndescription: d\nmodel: some-model\ncontext: fork\nagent: Explore",
        "name: pdf-forms\ndescription: d\nargument-hint: '[file]'\ndisable-model-invocation: true",
        "name: pdf-forms\ndescription: d\nmetadata:\n  version: '1.0'\n  nested: {a: [b]}",
        "name: pdf-forms\ndescription: d\ncompatibility: Needs git, and access to the internet",
        "name: pdf-forms\ndescription: d\nhooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks: []",
        "name: pdf-forms\ndescription: d\nname_: &anchor x\nother: *anchor",
        "name: pdf-forms\ndescription: d\n? [a, b]\n: a key that is no word",
    ],
)
def test_what_was_made_for_other_assistants_loads_unchanged(front: str) -> None:
    assert header(front).name == "pdf-forms"


def test_tools_that_others_allow_are_kept_to_be_shown() -> None:
    assert header("description: d\nallowed-tools: Bash(git add:*), Read").allowed_tools == (
        "Bash(git add:*)",
        "Read",
    )


@pytest.mark.parametrize("name", ["Skill Development", "a/b", "..", "-a", "", "x" * 65, "a:b"])
def test_a_name_that_is_no_word_leaves_it_to_the_folder(name: str) -> None:
    found = header(f"name: '{name}'\ndescription: d")
    assert (found.name, found.title) == ("", name)
    assert bool(found.notes) == bool(name)


def test_hyphens_underscores_and_case_are_one_name() -> None:
    assert same("Tidy_Folder") == same("tidy-folder") == same(" TIDY-FOLDER ") == same("tidy folder")
    assert class_name("tidy-folder") == class_name("tidy_folder") == "TidyFolderSkill"
    assert is_name("añadir-notas2")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# No front matter", "first line must be ---"),
        ("", "first line must be ---"),
        ("---\nname: a\ndescription: d\n", "has no end"),
        ("---\nname: a\n---\n", "has no description"),
        ("---\ndescription: ''\n---\n", "has no description"),
        ("---\ndescription: null\n---\n", "has no description"),
        ("---\n---\n", "has no description"),
        ("---\njust words\n---\n", "`key: value`"),
        ("---\n- a\n- b\n---\n", "`key: value`"),
        ("---\ndescription: [a]\n---\n", "description is a list"),
        ("---\ndescription: d\nname: {a: b}\n---\n", "name is a list or a mapping"),
        ("---\ndescription: d\nenabled: perhaps\n---\n", "enabled must be true or false"),
        ("---\ndescription: d\ntags: {a: b}\n---\n", "tags must be a list"),
        ("---\ndescription: d\ntools_required: [[bash]]\n---\n", "tools_required must be a list"),
        ("---\ndescription: d\n  bad: [unclosed\n---\n", "is not YAML (line "),
        ("---\ndescription: \x07\n---\n", "character that YAML does not allow"),
        ("---\ndescription: d\nx: " + "[" * 100 + "]" * 100 + "\n---\n", "nests them too deeply"),
        ("---\ndescription: d\nx: [" + "a," * 6000 + "]\n---\n", "too many values"),
        ("---\ndescription: " + "d" * 70_000 + "\n---\n", "longer than"),
    ],
)
def test_wrong_front_matter_is_told_in_one_line(text: str, said: str) -> None:
    with pytest.raises(SkillError) as caught:
        parse(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bomb_of_aliases_costs_nothing() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 40)]
    found = header("\n".join([*levels, "description: d", "metadata: *a39", "self: &s [*s]"]))
    assert found.description == "d"


def test_a_description_that_is_too_long_is_cut_and_noted() -> None:
    found = header("description: " + "d" * 2000)
    assert len(found.description) == 1024
    assert any("cut" in note for note in found.notes)


def test_what_is_no_utf8_or_too_large_is_told() -> None:
    with pytest.raises(SkillError, match=r"not UTF-8 text \(line 2\)"):
        decode(b"---\nname: \xff\n---\n")
    with pytest.raises(SkillError, match="larger than"):
        decode(b"x" * 1_000_001)


@given(st.text(max_size=300))
def test_whatever_stands_there_is_a_header_or_one_line(front: str) -> None:
    try:
        said = header(front).description
    except SkillError as error:
        said = str(error)
    assert len(said.splitlines()) == 1
