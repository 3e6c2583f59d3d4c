"""The page's scripts without a browser: their unit tests in Node.js, and rules that all of them keep."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from rumi.platform.texts.page import page_words

ROOT = Path(__file__).parents[3]
STATIC = ROOT / "rumi" / "channels" / "page" / "static"
UNIT_TESTS = Path(__file__).parent / "scripts"
MOST_LINES = 300


@pytest.mark.node
def test_the_unit_tests_of_the_scripts_pass() -> None:
    tests = sorted(UNIT_TESTS.rglob("*.test.mjs"))
    assert tests
    ran = subprocess.run(["node", "--test", *tests], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"^# pass [1-9]", ran.stdout, re.MULTILINE), ran.stdout


def test_each_script_is_short_and_its_types_are_checked() -> None:
    project = UNIT_TESTS / "tsconfig.json"
    unchecked = {(UNIT_TESTS / path).resolve() for path in json.loads(project.read_text())["exclude"]}
    for script in STATIC.rglob("*.js"):
        lines = script.read_text().splitlines()
        assert (lines[0] == "// @ts-check") != (script in unchecked), f"{script.name}: see {project}"
        assert script in unchecked or len(lines) <= MOST_LINES, script.name


def test_each_text_that_a_script_names_is_in_the_catalogue() -> None:
    words = page_words("en")
    for script in STATIC.rglob("*.js"):
        named = set(re.findall(r"""\bsay\(\s*["'](\w+)["']""", script.read_text()))
        assert named <= words.keys(), f"{script.name}: {named - words.keys()}"


def test_one_place_of_the_scripts_takes_html_and_none_makes_code_of_text() -> None:
    scripts = {script.name: script.read_text() for script in STATIC.rglob("*.js")}
    html = [name for name, text in scripts.items() for _ in re.findall(r"innerHTML\s*=", text)]
    assert len(html) <= 1, html
    forbidden = re.compile(
        r"\beval\(|new Function|insertAdjacentHTML|document\.write|outerHTML|setHTML|srcdoc"
    )
    assert {name: found for name, text in scripts.items() if (found := forbidden.findall(text))} == {}
