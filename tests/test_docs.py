"""The documents: every test that they name exists, and every file that they link to."""

import re
from pathlib import Path

import pytest

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
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text("utf-8")):
        assert target.startswith("https://") or (path.parent / target).exists(), target


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_make_targets_that_are_named_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)`", path.read_text("utf-8"))) <= targets
