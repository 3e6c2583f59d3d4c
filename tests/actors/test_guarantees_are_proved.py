"""The page of guarantees names tests; they exist, and every section names one."""

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = (HERE.parent.parent / "actors" / "README.md").read_text()
WITHOUT_TESTS = {
    "What it does not do",
    "In short",
    "Which supervisor",
    "What it costs",
}


def test_every_test_that_the_page_names_exists() -> None:
    defined = {
        name for file in HERE.glob("test_*.py") for name in re.findall(r"def (test_\w+)", file.read_text())
    }
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert named <= defined, named - defined


def test_every_guarantee_names_a_test() -> None:
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
    without = {section.splitlines()[0] for section in sections if "\n- `test_" not in section}
    assert without == WITHOUT_TESTS


def test_the_page_opens_with_what_the_runtime_does_not_do() -> None:
    assert re.findall(r"^## (.+)", PAGE, flags=re.MULTILINE)[0] == "What it does not do"
