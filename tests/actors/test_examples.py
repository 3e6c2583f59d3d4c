"""Every example prints what its first lines say."""

import ast
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = sorted(
    path.stem for path in (ROOT / "actors" / "examples").glob("*.py") if path.stem != "__init__"
)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_prints_what_it_says_that_it_prints(name: str) -> None:
    source = (ROOT / "actors" / "examples" / f"{name}.py").read_text()
    words = ast.get_docstring(ast.parse(source)) or ""
    promised = dedent(words.partition("Prints:\n")[2]).strip()
    ran = subprocess.run(
        [sys.executable, "-m", f"actors.examples.{name}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.stderr == ""
    assert ran.stdout.strip() == promised != ""


def test_the_readme_names_every_example() -> None:
    readme = (ROOT / "actors" / "README.md").read_text()
    assert [name for name in EXAMPLES if f"examples/{name}.py" not in readme] == []
