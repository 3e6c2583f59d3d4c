"""`make docs-check`: finds stale help, dead links, missing names and commands that do not work."""

import ast
import re
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, takewhile
from pathlib import Path
from urllib.parse import unquote

from docs.making import calls, commands, dialects, schemas, scripts, shown

ROOT = Path(__file__).resolve().parent.parent.parent
ARCHITECTURE = ROOT / "docs" / "architecture.md"
INDEX = ROOT / "docs" / "README.md"
LINK = re.compile(r"(?<!!)\[(?P<label>[^\]]*)\]\((?P<target>[^)\s]+)\)|!\[[^\]]*\]\((?P<image>[^)\s]+)\)")
PATH = re.compile(r"(?:actors|rumi|runner|tests|bench|docs)/[\w./-]+")


@dataclass(frozen=True, slots=True)
class Fault:
    """A wrong statement in a document."""

    document: Path
    what: str

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}: {self.what}"


def documents() -> list[Path]:
    """Return the Markdown files of the root, of `docs/` and of `actors/`."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("actors/*.md")])


def stale_help(text: str) -> Iterator[str]:
    """Yield a fault if the help in the document differs from that of the commands."""
    if text != commands.rendered():
        yield "the commands' help has changed: make docs"


def stale_calls(text: str) -> Iterator[str]:
    """Yield a fault if the control calls in the document differ from their declarations."""
    if text != calls.rendered():
        yield "the control calls have changed: make docs"


def stale_scripts(text: str) -> Iterator[str]:
    """Yield a fault if the exit codes or the forms of JSON differ from those of the code."""
    if text != scripts.rendered() or schemas.TARGET.read_text("utf-8") != schemas.rendered():
        yield "exit codes or forms of JSON have changed: make docs"


def stale_dialects(text: str) -> Iterator[str]:
    """Yield a fault if the list of dialects in the document differs from the recordings."""
    if text != dialects.rendered(text):
        yield "the recordings of dialects have changed: make docs"


OWN_IMPORT = r"^from ((?:actors|rumi)\b[\w.]*) import (.+)$"
NAMED_FILE = re.compile(r"^```\w+\n# (?!config\.toml)[\w.]+\n.*?^```", re.MULTILINE | re.DOTALL)
"""A whole file of another project, such as a plugin: its first line is its name."""


def dead_links(document: Path, text: str) -> Iterator[str]:
    """Yield links to files, headings and names in the code that do not exist."""
    for link in LINK.finditer(_prose(text)):
        target = link["target"] or link["image"]
        if re.match(r"[a-z]+:", target):
            continue
        place, _, anchor = target.partition("#")
        path = (document.parent / unquote(place)).resolve() if place else document
        if not path.exists():
            yield f"there is no {target}"
        elif anchor and anchor not in anchors(path.read_text("utf-8")):
            yield f"{place or 'it'} has no heading #{anchor}"
        elif path.suffix == ".py" and link["label"].startswith("`"):
            name = link["label"].strip("`").removesuffix("()")
            if name not in names(path):
                yield f"{place} has no {name}"


def dead_paths(text: str) -> Iterator[str]:
    """Yield paths of this project, named as code, that do not exist."""
    for span in re.findall(r"`([^`\n]+)`", _prose(text)):
        if PATH.fullmatch(span) and not (ROOT / span).exists():
            yield f"there is no {span}"


def dead_names(text: str) -> Iterator[str]:
    """Yield named tests and make targets that do not exist. Files of other projects may have tests too."""
    text = NAMED_FILE.sub("", text)
    for name in dict.fromkeys(re.findall(r"\btest_\w+", text)):
        if name not in tests():
            yield f"there is no {name}"
    for target in dict.fromkeys(
        re.findall(r"`make ([a-z-]+)(?: [^`]*)?`|^ *make ([a-z-]+)", text, re.MULTILINE)
    ):
        if (name := "".join(target)) not in targets():
            yield f"there is no make {name}"


def dead_keys(text: str) -> Iterator[str]:
    """Yield keys, as `[section] key`, that the configuration does not have."""
    for section, keys in re.findall(r"`\[(\w+)\] (\w+)[^`]*`", _prose(text)):
        if f"{section}.{keys}" not in configured():
            yield f"the configuration has no {section}.{keys}"


def wrong_index(text: str) -> Iterator[str]:
    """Yield pages of `docs/` that the index leaves out, or that do not say for whom they are as it does.

    A page for operators or engineers says so in its first line below the title; others don't.
    """
    listed: dict[str, list[str]] = {}
    for audience, part in re.findall(r"^## For (\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL):
        for page in re.findall(r"\]\(([\w-]+\.md)\)", part):
            listed.setdefault(page, []).append(audience)
    for path in sorted((ROOT / "docs").glob("*.md")):
        audiences = listed.get(path.name, [])
        begin = re.match(r"# .+\n\n(\*For [a-z ]+\.\* )?", path.read_text("utf-8"))
        marked = bool(begin and begin[1])
        if path.name == INDEX.name:
            continue
        if not audiences:
            yield f"docs/{path.name} is not in the index"
        elif marked == ("you" in audiences):
            yield f"docs/{path.name} is for {audiences[0]}, and its first line says otherwise"


def wrong_packages(text: str) -> Iterator[str]:
    """Yield packages and modules of `rumi/` that the architecture page leaves out or only it has.

    Each package has one row in the page's table, and the rows say what may import what by their order.
    """
    rows = re.findall(r"^\| `rumi/(\w+)/` \|", text, re.MULTILINE)
    found = [path for path in sorted((ROOT / "rumi").iterdir()) if not path.name.startswith("_")]
    packages = [path.name for path in found if (path / "__init__.py").is_file()]
    yield from (f"rumi/{name}/ has no row" for name in packages if name not in rows)
    yield from (f"there is no package rumi/{name}/" for name in rows if name not in packages)
    for path in found:
        if path.suffix == ".py" and path.name not in text:
            yield f"rumi/{path.name} is not named"
    for name, below in combinations(rows, 2):
        if name in packages and below in packages and name in imported_by(below):
            yield f"rumi/{below}/ imports rumi/{name}/, which stands above it"


@cache
def imported_by(package: str) -> frozenset[str]:
    """Return the packages of `rumi/` that a package imports."""
    texts = (path.read_text("utf-8") for path in (ROOT / "rumi" / package).rglob("*.py"))
    return frozenset(
        name for text in texts for name in re.findall(r"^ *(?:from|import) rumi\.(\w+)", text, re.MULTILINE)
    )


def dead_imports(text: str) -> Iterator[str]:
    """Yield names of this project that Python code in the document imports and that do not exist."""
    for code in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for module, imported in re.findall(
            r"^from ((?:actors|rumi)\b(?!_)[\w.]*) import (.+)$", code, re.MULTILINE
        ):
            path = ROOT / module.replace(".", "/")
            path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            exported = re.findall(r"\w+", path.read_text("utf-8")) if path.exists() else []
            for name in imported.split(", "):
                if name not in exported:
                    yield f"there is no {name} in {module}"


@cache
def tests() -> frozenset[str]:
    """Return the names of all tests, and of their files."""
    return frozenset(
        name
        for path in ROOT.glob("tests/**/*.py")
        for name in [path.stem, *re.findall(r"def (test_\w+)", path.read_text("utf-8"))]
    )


@cache
def targets() -> frozenset[str]:
    """Return the targets of `make`."""
    return frozenset(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def wrong_settings(text: str) -> Iterator[str]:
    """Yield pieces of config.toml that the program refuses."""
    from rumi.errors import ConfigError
    from rumi.platform.config.cascade import load_settings

    text = NAMED_FILE.sub("", text)
    for piece in re.findall(r"^( *)```toml\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        with tempfile.TemporaryDirectory() as home:
            Path(home, "config.toml").write_text(textwrap.dedent(piece[1]), "utf-8")
            try:
                load_settings(Path(home), {}, {})
            except ConfigError as error:
                yield f"config.toml: {error.message}"


@cache
def configured() -> frozenset[str]:
    """Return every dotted key of the configuration."""
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.layers import MAPS

    with tempfile.TemporaryDirectory() as home:
        return frozenset(load_settings(Path(home), {}, {}).origins) | {".".join(key) for key in MAPS}


def anchors(text: str) -> set[str]:
    """Return the anchors of a document's headings."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", _prose(text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        base = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = sum(1 for _ in takewhile(lambda n: f"{base}-{n}" in found, range(1, 100)))  # noqa: B023
        found.add(f"{base}-{number + 1}" if base in found else base)
    return found


@cache
def names(path: Path) -> frozenset[str]:
    """Return the names that a module defines, as `name`, `Class` and `Class.name`."""

    def inside(body: list[ast.stmt], prefix: str) -> Iterator[str]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield f"{prefix}{node.name}"
                if isinstance(node, ast.ClassDef):
                    yield from inside(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                yield from (f"{prefix}{target.id}" for target in targets if isinstance(target, ast.Name))

    return frozenset(inside(ast.parse(path.read_text("utf-8")).body, ""))


def _prose(text: str) -> str:
    """Return the text without code fences."""
    return re.sub(r"^( *)```.*?^\1```", "", text, flags=re.MULTILINE | re.DOTALL)


def faults() -> list[Fault]:
    """Return the faults of all documents."""
    found = []
    for document in documents():
        text = document.read_text("utf-8")
        checks: list[Callable[[], Iterator[str]]] = [
            lambda: dead_links(document, text),  # noqa: B023  # called before the next one
            lambda: dead_paths(text) if document.name != "CHANGELOG.md" else iter(()),  # noqa: B023
            lambda: dead_names(text),  # noqa: B023
            lambda: dead_keys(text),  # noqa: B023
            lambda: dead_imports(text),  # noqa: B023
            lambda: wrong_settings(text),  # noqa: B023
            lambda: shown.wrong_commands(text),  # noqa: B023
        ]
        if document == commands.TARGET:
            checks.append(lambda: stale_help(text))  # noqa: B023
        if document == calls.TARGET:
            checks.append(lambda: stale_calls(text))  # noqa: B023
        if document == scripts.TARGET:
            checks.append(lambda: stale_scripts(text))  # noqa: B023
        if document == dialects.TARGET:
            checks.append(lambda: stale_dialects(text))  # noqa: B023
        if document == ARCHITECTURE:
            checks.append(lambda: wrong_packages(text))  # noqa: B023
        if document == INDEX:
            checks.append(lambda: wrong_index(text))  # noqa: B023
        found += [Fault(document, what) for check in checks for what in check()]
    return found


def main() -> int:
    """Print the faults; return the exit code."""
    found = [str(fault) for fault in faults()]
    found += shown.failing_commands(documents())
    for line in found:
        print(line, file=sys.stderr)  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
