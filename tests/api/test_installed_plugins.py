"""A real distribution: built as a wheel, installed beside Rumi, listed, enabled, used, broken, disabled."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed package, for PYTHONPATH."""
    folder = tmp_path_factory.mktemp("plugin")
    source = ROOT / "tests/api/v1_0"
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=source, check=True, capture_output=True, timeout=60)
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site")
    return folder / "site"


class Program:
    """The command line, with the package installed, in a home of its own."""

    def __init__(self, home: Path, site: Path) -> None:
        self.config = home / "config.toml"
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.environment = {**kept, "RUMI_HOME": str(home), "HOME": str(home.parent), "PYTHONPATH": str(site)}

    def run(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "rumi", *words],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout + done.stderr

    def row(self) -> dict[str, object]:
        (row,) = json.loads(self.run("plugins", "--json"))
        assert isinstance(row, dict)
        return row


@pytest.fixture
def program(tmp_path: Path, site: Path) -> Program:
    (tmp_path / "home").mkdir(mode=0o700)
    return Program(tmp_path / "home", site)


def test_it_is_found_and_not_loaded_until_it_is_enabled(program: Program) -> None:
    row = program.row()
    assert (row["name"], row["version"], row["enabled"]) == ("rumi-greetings", "1.0", False)
    kinds = ("channels", "models", "readers", "tasks", "tools")
    assert sorted(row["adds"]) == [f"rumi.{kind}: greetings" for kind in kinds]  # type: ignore[call-overload]
    said = program.run("models", "test", "plugin:greetings:small", code=4)
    assert "No enabled plugin" in said
    assert "rumi-missing" in program.run("plugins", "enable", "rumi-missing", code=2)
    assert "is on" in program.run("plugins", "enable", "rumi-greetings")
    assert "rumi-greetings  1.0  on" in (shown := program.run("plugins"))
    assert "✗" not in shown
    assert "is off" in program.run("plugins", "disable", "rumi-greetings")


def test_its_model_answers_in_a_chat(program: Program) -> None:
    program.run("plugins", "enable", "rumi-greetings")
    model = ("--model", "plugin:greetings:small", "--sandbox", "bubblewrap")
    said = program.run("chat", *model, "-p", "Good morning")
    assert "small: " in said
    assert "Good morning" in said
    program.run("sandbox", "clean")  # ends the daemon


def test_wrong_settings_and_a_missing_package_are_named_and_nothing_else_breaks(program: Program) -> None:
    program.config.write_text(
        "[plugins.rumi-greetings]\nenabled = true\n[plugins.rumi-greetings.settings]\ntimes = 'often'\n"
        "[plugins.rumi-gone]\nenabled = true\n"
    )
    rows = {row["name"]: row for row in json.loads(program.run("plugins", "--json"))}
    assert "settings.times is not allowed" in rows["rumi-greetings"]["problems"][0]
    assert rows["rumi-gone"]["problems"] == ["It is not installed in this environment."]
    program.config.write_text(
        "[plugins.rumi-greetings]\nenabled = true\n[plugins.rumi-greetings.settings]\ntimes = [1]\n"
        "day = 2026-11-29\ntable = {a = [1]}\n"
    )
    (row,) = json.loads(program.run("plugins", "--json"))
    assert "Unknown key plugins.rumi-greetings.settings.day" in row["problems"][0]
    program.config.write_text(
        "[plugins.rumi-greetings]\nenabled = true\n[plugins.rumi-greetings.settings]\nloud = true\n"
    )
    (row,) = json.loads(program.run("plugins", "--json"))
    assert "Unknown key plugins.rumi-greetings.settings.loud" in row["problems"][0]
    report = program.run("doctor", "--json", code=1)
    assert "rumi-greetings" in report


def test_names_and_values_that_are_not_allowed_are_refused(program: Program) -> None:
    program.config.write_text("[plugins.Rumi_Greetings]\nenabled = true\n")
    assert "in lower case" in program.run("plugins", code=2)
    program.config.write_text("[plugins.rumi-greetings]\nrole = 'boss'\n")
    assert "is not a role" in program.run("plugins", code=2)
    program.config.write_text("[plugins.rumi-greetings.secrets]\ntoken = 'a secret itself'\n")
    said = program.run("plugins", code=2)
    assert "a secret itself" not in said


def test_what_is_neither_installed_nor_configured_cannot_be_switched_off(program: Program) -> None:
    assert "rumi-missing" in program.run("plugins", "disable", "rumi-missing", code=2)
    assert not program.config.exists()
    program.config.write_text("[plugins.rumi-missing]\nenabled = true\n")
    assert "is off" in program.run("plugins", "disable", "rumi-missing")
