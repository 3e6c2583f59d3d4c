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
        ("---\ndescription: d\nenabled: perhaps\n---\n", "enabled must be true or false"),
        ("---\ndescription: d\ntools_required: [[bash]]\n---\n", "tools_required must be a list"),
        ("---\ndescription: \x07\n---\n", "has no description"),
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


def test_what_is_no_text_or_too_large_is_told() -> None:
    with pytest.raises(SkillError, match="is not text"):
        decode(b"---\n" + b"\0" * 100)
    with pytest.raises(SkillError, match="larger than"):
        decode(b"x" * 1_000_001)


@pytest.mark.parametrize(
    ("raw", "description", "noted"),
    [
        (b"---\nname: a\ndescription: R\xe9sum\xe9\n---\nx", "Résumé", False),
        ("---\nname: a\ndescription: ñandú".encode() + b" \xff\n---\nx", "ñandú \ufffd", True),
        ("---\nname: a\ndescription: ñandú\n---\nx".encode("utf-16"), "ñandú", False),
        (b"\xef\xbb\xbf---\r\nname: a\r\ndescription: \xc3\xb1\r\n---\r\nx", "ñ", False),
        (b"---\nname: a\ndescription: a\0b\n---\nx", "ab", False),
    ],
)
def test_a_file_in_another_encoding_is_read_and_noted(raw: bytes, description: str, noted: bool) -> None:
    found, _ = parse(decode(raw))
    assert found.description == description
    assert any("cannot be read" in note for note in found.notes) is noted


FOREIGN = [
    # keys that Rumi ignores
    "argument-hint: [a] [b|c]",
    "argument-hint: [--full] <path>",
    "argument-hint: <path> [options]: more",
    'read_when:\n  - "some words" in message',
    'metadata: {"emoji": "\\ud83e\\udde0"}',
    'metadata:\n  emoji: "")\n  references:\n    - a',
    "metadata: {unclosed: [a",
    "hooks:\n\t- a tab",
    "tools: `Read`, `Write`",
    "trigger: %s",
    "author: @somebody",
    "files: *.md",
    "when: !important",
    "model: a: b: c",
    "note: 'it's quoted'",
    'note: "a" and "b"',
    "license: MIT\nlicense: Apache",
    "version: 1.0\n  - stray",
    "globs: [**/*.py]",
    "x: " + "[" * 100 + "]" * 100,
    "x: [" + "a," * 6000 + "]",
    "created: 2026-01-01\ncount: 12\nfine: yes",
]


@pytest.mark.parametrize("odd", FOREIGN)
def test_a_bad_value_of_another_key_harms_no_other_key(odd: str) -> None:
    for front in (f"name: a-b\ndescription: Does it.\n{odd}", f"{odd}\nname: a-b\ndescription: Does it."):
        found, body = parse(f"---\n{front}\n---\n# Body\n")
        assert (found.name, found.description, body) == ("a-b", "Does it.", "# Body")


@pytest.mark.parametrize(
    ("front", "description"),
    [
        ("description: Sorts files\n  Use when: somebody asks", "Sorts files Use when: somebody asks"),
        ("description:\n  Sorts: all files,\n  Triggers on: 'sort'", "Sorts: all files, Triggers on: sort"),
        ("description: It's for Ann's files: all", "It's for Ann's files: all"),
        ("description: **Bold** words", "**Bold** words"),
        ("description: *starred", "*starred"),
        ("description: @someone's way", "@someone's way"),
        ("description: %-encoding of words", "%-encoding of words"),
        ("description: !important words", "!important words"),
        ("description: `code` first", "`code` first"),
        ("description: & more", "& more"),
        ("description: - a dash", "- a dash"),
        ("description: #1 of all tools", "#1 of all tools"),
        ("description: [beta] Sorts", "[beta] Sorts"),
        ("description: {one} Sorts", "{one} Sorts"),
        ('description: "unclosed words', "unclosed words"),
        ("description: 'it's here'", "it's here"),
        ('description: "a" and "b"', '"a" and "b"'),
        ("description: [Reads, writes]", "Reads, writes"),
        ("description:\n  - Reads files.\n  - Writes files.", "Reads files. Writes files."),
        ("description:\n- Reads\n- Writes", "Reads, Writes"),
        ("description: {en: Reads, es: Lee}", "en: Reads, es: Lee"),
        ("description: |\n\tWith a tab\n\tand another", "With a tab and another"),
        ("description:\tAfter a tab", "After a tab"),
        ("description:glued", "glued"),
        ("description：Reads files", "Reads files"),
        ("Description: Capital", "Capital"),
        ("'description': In quotes", "In quotes"),
        ("description: Old\ndescription: New", "New"),
        ("description: Kept\ndescription:", "Kept"),
        ("description: d\n  bad: [unclosed", "d bad: [unclosed"),
        ("description: Goes on\nat the margin\nlicense: [a] b", "Goes on at the margin"),
        ("description: 12", "12"),
        ("description: true", "true"),
        ("description: 2026-01-01", "2026-01-01"),
        ("  description: Indented\n  license: MIT", "Indented"),
        ("description: a\x07b", "ab"),
    ],
)
def test_a_description_that_is_not_yaml_is_the_text_it_looks_like(front: str, description: str) -> None:
    found, body = parse(
        f"---\nname: a\n{front}\n---\nbody\n" if front[0] != " " else f"---\n{front}\n---\nbody"
    )
    assert (found.description, body) == (description, "body")


@pytest.mark.parametrize(
    ("text", "body", "noted"),
    [
        ("---\nname: a\ndescription: d\n---# Title\nwords", "# Title\nwords", False),
        ("---\nname: a\ndescription: d\n---**Bold**\n\n---\nmore", "**Bold**\n\n---\nmore", False),
        ("---\nname: a\ndescription: d\n----\nwords", "words", False),
        ("---\nname: a\ndescription: d\n...\nwords", "words", False),
        ("---\nname: a\ndescription: d\n---\xa0\nwords", "words", False),
        ("---\nname: a\ndescription: d\n\n# Title\n\nwords", "# Title\n\nwords", True),
        (
            "---\nname: a\ndescription: d\n\nwords: of\nmine, and\n\nmore words\n---\nend",
            "more words\n---\nend",
            True,
        ),
        ("```markdown\n---\nname: a\ndescription: d\n---\nwords\n```\n", "words", True),
        ("name: a\ndescription: d\n---\nwords", "words", True),
        ("<!-- licensed -->\n---\nname: a\ndescription: d\n---\nwords", "words", False),
        ("---\n  name: a\n  description: d\n  ---\n  words", "words", False),
    ],
)
def test_the_lines_around_front_matter_may_differ(text: str, body: str, noted: bool) -> None:
    found, said = parse(text)
    assert (found.name, said) == ("a", body)
    assert found.description.startswith("d")
    assert bool(found.notes) is noted


def test_what_was_odd_is_noted() -> None:
    noted = {
        "description: d\nx: [a] b": "not valid YAML, so these keys were read as plain text: x",
        "description: d\ndescription: e": "its key description is there twice",
        "description: [d]": "its description is a list or a mapping",
        "description: d\nname: {a: b}": "its name is a list or a mapping",
        "description: d\ntags: {a: b}": "they are left out",
    }
    for front, said in noted.items():
        assert said in " ".join(header(front).notes), front
    assert header("name: a\ndescription: d").notes == ()


def test_front_matter_of_any_length_is_read_within_its_limits() -> None:
    assert len(header("description: " + "d" * 70_000).description) == 1024
    assert header("description: d\n" + "k: [v\n" * 50_000).description == "d"
    levels = ["a0: &a0 []"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 40)]
    found = header("\n".join([*levels, "description: [d, *a39]", "self: &s [*s]", "license: *s"]))
    assert found.description == "d"


@given(st.text(max_size=300))
def test_whatever_stands_there_is_a_header_or_one_line(front: str) -> None:
    try:
        said = header(front).description
    except SkillError as error:
        said = str(error)
    assert len(said.splitlines()) == 1
