"""The documents: every test that they name exists; and what `make docs-check` looks for, it finds."""

import re
from pathlib import Path

import pytest

from docs.making import checking, commands, shown

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
TESTS = {
    name
    for path in ROOT.glob("tests/**/*.py")
    for name in [path.stem, *re.findall(r"def (test_\w+)", path.read_text("utf-8"))]
}


def test_there_are_documents() -> None:
    assert {path.name for path in DOCUMENTS} >= {"README.md", "architecture.md", "actors.md", "security.md"}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_tests_that_are_named_exist(path: Path) -> None:
    named = set(re.findall(r"\btest_\w+", path.read_text("utf-8")))
    assert named <= TESTS


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_make_targets_that_are_named_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)`", path.read_text("utf-8"))) <= targets


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("[x](nowhere.md)", "there is no nowhere.md"),
        ("[x](security.md#the-moon)", "has no heading #the-moon"),
        ("[`Inbox.gone`](../rumi/chats/inbox.py)", "has no Inbox.gone"),
        ("![a picture](pictures/none.svg)", "there is no pictures/none.svg"),
        ("`rumi/chats/gone.py`", "there is no rumi/chats/gone.py"),
    ],
)
def test_what_leads_nowhere_is_found(line: str, says: str) -> None:
    document = ROOT / "docs/planted.md"
    (found,) = [*checking.dead_links(document, line), *checking.dead_paths(line)]
    assert says in found


def test_what_leads_somewhere_is_none() -> None:
    document = ROOT / "docs/planted.md"
    text = (
        "[a](security.md#the-web) [b](https://example.org/x) `rumi/chats/inbox.py`"
        " [`Inbox.accept`](../rumi/chats/inbox.py)\n# Here\n```\n[d](in-a-fence)\n```\n"
    )
    assert list(checking.dead_links(document, text)) == []
    assert list(checking.dead_paths(text)) == []
    assert checking.anchors("# A `b` c, d\n## x\n## x\n") == {"a-b-c-d", "x", "x-1"}


@pytest.mark.parametrize(
    "line", ["`rumi stop`", "`rumi chat -p …`", "`rumi skills list\\|info`", "`rumi`", "`rumi.cli`"]
)
def test_commands_that_work_pass(line: str) -> None:
    assert list(shown.wrong_commands(line)) == []


@pytest.mark.parametrize(
    "text", ["`rumi dance`", "`rumi chat --slowly`", "```\nx | rumi fetch --chek\n```", "```\nrumi stop\n```"]
)
def test_commands_that_do_not_work_are_found(text: str) -> None:
    assert len(list(shown.wrong_commands(text))) == 1


def test_stale_help_is_found() -> None:
    text = commands.rendered()
    assert list(checking.stale_help(text)) == []
    assert list(checking.stale_help(text.replace("Options:", "Choices:", 1))) != []
