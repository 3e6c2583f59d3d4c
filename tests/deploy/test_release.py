"""`make release`: what it refuses, and that its files depend only on the commit."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from deploy.release import SECTION, NotReady, check, digest, version_of
from deploy.sbom import locked
from rumi import __version__
from tests.conftest import ROOT

PARTS = ("actors", "rumi", "runner", "deploy", "CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md")
FILES = (*PARTS, "pyproject.toml", "requirements.lock", ".gitignore")


def git(folder: Path, *words: str) -> str:
    """Run git without the machine's settings; what it prints."""
    name = ("-c", "user.name=Rumi", "-c", "user.email=rumi@example.org", "-c", "commit.gpgsign=false")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", *name, *words]
    done = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def committed(folder: Path) -> Path:
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "A release")
    return folder


# What it refuses


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A repository with only what `check` looks at."""
    (tmp_path / "rumi").mkdir()
    (tmp_path / "rumi/__init__.py").write_text('__version__ = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3 (2026-11-29)\n\n## 1.2.2 (2026-11-01)\n")
    return committed(tmp_path)


def refused(folder: Path) -> str:
    with pytest.raises(NotReady) as caught:
        check(folder)
    return str(caught.value)


def test_a_clean_tree_with_a_dated_section_is_ready(small: Path) -> None:
    assert check(small) == "1.2.3"
    git(small, "tag", "v1.2.3")
    assert check(small) == "1.2.3"


def test_a_tree_with_changes_is_refused(small: Path) -> None:
    (small / "new.txt").touch()
    assert "new.txt" in refused(small)


@pytest.mark.parametrize(
    ("top", "says"),
    [
        ("## Unreleased", "begins with Unreleased"),
        ("## 1.2.3", "has no date"),
        ("## 1.2.4 (2026-11-29)", "begins with 1.2.4, and rumi/__init__.py has 1.2.3"),
    ],
)
def test_a_changelog_that_does_not_begin_with_this_version_and_a_date_is_refused(
    small: Path, top: str, says: str
) -> None:
    (small / "CHANGELOG.md").write_text(f"# Changelog\n\n{top}\n")
    git(small, "commit", "--quiet", "--all", "--message", "Change the log")
    assert says in refused(small)


def test_a_version_that_another_commit_has_is_refused(small: Path) -> None:
    git(small, "tag", "v1.2.3")
    git(small, "commit", "--quiet", "--allow-empty", "--message", "More")
    assert "v1.2.3 is another commit already" in refused(small)


def test_a_folder_that_is_no_clone_and_a_machine_without_git_get_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert "git failed: fatal: not a git repository" in refused(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "git is missing" in refused(tmp_path)


def test_the_changelog_begins_with_this_version_or_with_what_is_unreleased() -> None:
    sections = SECTION.findall((ROOT / "CHANGELOG.md").read_text("utf-8"))
    assert sections[0][0] in (__version__, "Unreleased")
    assert version_of(ROOT) == __version__
    numbers = [tuple(map(int, name.split("."))) for name, _ in sections if name != "Unreleased"]
    assert numbers == sorted(numbers, reverse=True)
    assert all(date for name, date in sections if name != "Unreleased")


# What it makes


@dataclass(frozen=True)
class Release:
    """A repository, and what was made of it."""

    folder: Path
    commit: str

    def file(self, pattern: str) -> Path:
        (found,) = (self.folder / "dist").glob(pattern)
        return found


def released(folder: Path, umask: int, zone: str) -> Release:
    environment = {"PATH": os.environ["PATH"], "TZ": zone, "HOME": str(folder.parent)}
    command = [sys.executable, "deploy/release.py"]
    subprocess.run(command, cwd=folder, env=environment, umask=umask, check=True, timeout=120)
    return Release(folder, git(folder, "rev-parse", "HEAD"))


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> tuple[Release, Release]:
    """Releases of one commit from two folders, with other times and modes of files, umasks and settings."""
    first = tmp_path_factory.mktemp("first") / "rumi"
    first.mkdir()
    for name in FILES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, first / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        else:
            shutil.copy2(ROOT / name, first / name)
    committed(first)
    second = tmp_path_factory.mktemp("second") / "a folder with another name"
    git(first, "clone", "--quiet", str(first), str(second))
    for path in second.glob("rumi/**/*.py"):
        os.utime(path, (10**9, 10**9))
        path.chmod(0o600)
    (second / "rumi/__pycache__").mkdir()
    (second / "rumi/__pycache__/left.cpython-311.pyc").write_bytes(b"what git ignores")
    (second.parent / ".gitconfig").write_text("[core]\nautocrlf = true\n[tar]\numask = 0077\n")
    return released(first, 0o022, "UTC"), released(second, 0o077, "Asia/Tokyo")


@pytest.mark.long
def test_two_builds_of_a_commit_are_equal_to_the_byte(twice: tuple[Release, Release]) -> None:
    first, second = ({path.name: digest(path) for path in one.folder.glob("dist/*")} for one in twice)
    assert first == second
    assert len(first) == 4
    sums = dict(line.split("  ")[::-1] for line in twice[0].file("SHA256SUMS").read_text().splitlines())
    assert sums == {name: value for name, value in first.items() if name != "SHA256SUMS"}


@pytest.mark.long
def test_the_wheel_has_what_the_program_needs_and_nothing_else(twice: tuple[Release, Release]) -> None:
    with zipfile.ZipFile(twice[0].file("*.whl")) as wheel:
        names = set(wheel.namelist())
        assert wheel.read("rumi/platform/COMMIT").decode().strip() == twice[0].commit
    kept = {name for name in names if ".dist-info/" not in name} - {"rumi/platform/COMMIT"}
    expected = {
        path.relative_to(ROOT).as_posix()
        for package in ("actors", "rumi", "runner")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".po")
    }
    assert kept == expected
    assert {"rumi/py.typed", "actors/py.typed", "rumi/channels/page/static/page.js"} <= kept
    assert {f"rumi/locale/{code}/LC_MESSAGES/rumi.mo" for code in ("es", "pt")} <= kept
    assert "rumi/agent/prompts/files/identity.md" in kept


@pytest.mark.long
def test_the_wheel_installs_without_a_network_and_shows_its_commit(
    twice: tuple[Release, Release], tmp_path: Path
) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    into = [
        "--python",
        str(tmp_path / "venv/bin/python"),
        "install",
        "--no-deps",
        "--no-index",
        "--no-compile",
    ]
    pip = [sys.executable, "-m", "pip", "--quiet", *into, str(twice[0].file("*.whl"))]
    subprocess.run(pip, check=True, capture_output=True, timeout=120)
    done = subprocess.run(
        [tmp_path / "venv/bin/rumi", "--version"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert done.stdout == f"rumi {__version__} (commit {twice[0].commit[:7]})\n"


@pytest.mark.long
def test_the_source_package_builds_the_wheel_that_the_clone_builds(
    twice: tuple[Release, Release], tmp_path: Path
) -> None:
    """The release's wheel was built from the source package, in a folder without git's files."""
    time = git(twice[0].folder, "show", "--no-patch", "--format=%ct", "HEAD")
    environment = {"PATH": os.environ["PATH"], "SOURCE_DATE_EPOCH": time}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=twice[0].folder, env=environment, check=True, capture_output=True)
    (built,) = tmp_path.iterdir()
    assert digest(built) == digest(twice[0].file("*.whl"))
    with tarfile.open(twice[0].file("*.tar.gz")) as source:
        tops = {name.split("/")[1] for name in source.getnames()}
    assert tops == {*FILES, "PKG-INFO"}


@pytest.mark.long
def test_the_bill_of_materials_is_valid_and_has_what_the_wheel_needs(twice: tuple[Release, Release]) -> None:
    text = twice[0].file("*.cdx.json").read_text("utf-8")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    assert bill["metadata"]["component"]["hashes"][0]["content"] == digest(twice[0].file("*.whl"))
    found = {part["name"]: part for part in bill["components"]}
    pins = locked((ROOT / "requirements.lock").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    asked = [line for line in project["dependencies"] if "python_version <" not in line]
    asked += [line for lines in project.get("optional-dependencies", {}).values() for line in lines]
    direct = {re.split(r"[\[>=<; ]", line)[0].lower() for line in asked} - {"rumi"}
    assert direct <= set(found)
    assert {"anyio", "certifi"} <= set(found)  # which others need
    assert not {"pytest", "ruff", "mypy", "hatchling"} & set(found)
    assert {name: part["version"] for name, part in found.items()} == {n: pins[n].version for n in found}
    hashes = found["trio"]["externalReferences"][0]["hashes"]
    assert {entry["content"] for entry in hashes} == set(pins["trio"].hashes)
    assert {name for name, part in found.items() if "licenses" not in part} <= {"vodozemac"}  # it names none
    refs = {part["ref"] for part in bill["dependencies"]}
    assert refs == {part["bom-ref"] for part in bill["components"]} | {
        bill["metadata"]["component"]["bom-ref"]
    }
