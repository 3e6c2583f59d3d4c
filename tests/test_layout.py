"""The layout of the code: what a newcomer meets in the folder list, and what a client of the daemon loads."""

import ast
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

MOST_SHARED_NAMES = 22
"""Class names that more than one module may have."""

MOST_OF_A_TERMINAL = 98
MOST_OF_A_TURN = 120
"""Product modules that a client of a running daemon may import."""

TERMINAL = ("rumi.channels.terminal.interactive", "rumi.channels.attach.reconnecting")
"""What an interactive terminal imports beside what a single turn does."""


def classes() -> Iterator[tuple[str, Path]]:
    for package in ("actors", "rumi", "runner"):
        for path in (ROOT / package).rglob("*.py"):
            tree = ast.parse(path.read_text("utf-8"))
            yield from ((node.name, path) for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def imported(log: str) -> set[str]:
    """The product's modules in Python's report of imports."""
    names = {line.rpartition("|")[2].strip() for line in log.splitlines() if line.startswith("import time:")}
    return {name for name in names if name.partition(".")[0] in ("actors", "rumi", "runner")}


def test_few_class_names_stand_for_more_than_one_class() -> None:
    modules: defaultdict[str, set[Path]] = defaultdict(set)
    for name, path in classes():
        modules[name].add(path)
    shared = sorted(name for name, paths in modules.items() if len(paths) > 1)
    assert len(shared) <= MOST_SHARED_NAMES, shared


def test_fourteen_packages_and_no_loose_modules() -> None:
    packages = {path.name for path in (ROOT / "rumi").iterdir() if (path / "__init__.py").exists()}
    assert packages == {
        *("cli", "api", "app", "channels", "tasks", "chats", "agent"),
        *("memory", "services", "store", "web", "models", "sandbox", "platform"),
    }
    loose = {path.name for path in (ROOT / "rumi").glob("*.py")}
    assert loose == {"__init__.py", "__main__.py", "errors.py", "texts.py"}


@pytest.mark.bubblewrap
def test_a_client_of_a_running_daemon_loads_no_server(tmp_path: Path) -> None:
    environment = {
        **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
        "RUMI_HOME": str(tmp_path / "home"),
        "HOME": str(tmp_path),
    }
    rumi = [sys.executable, "-m", "rumi"]
    turn = ["chat", "--model", "offline", "--sandbox", "bubblewrap", "-p", "hello"]
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "home" / "config.toml").write_text("[session]\nlinger_s = 60\n")
    subprocess.run([*rumi, *turn], cwd=ROOT, env=environment, check=True, capture_output=True, timeout=120)
    try:
        loud = [sys.executable, "-X", "importtime", "-m", "rumi"]
        done = subprocess.run(
            [*loud, *turn], cwd=ROOT, env=environment, check=True, capture_output=True, text=True, timeout=120
        )
    finally:
        # A client with other settings makes the daemon yield the home; this is the shortest way to its end.
        subprocess.run(
            [*rumi, "sandbox", "clean"], cwd=ROOT, env=environment, capture_output=True, timeout=120
        )
    found = imported(done.stderr)
    assert "rumi.channels.attach.client" in found
    assert len(found) <= MOST_OF_A_TURN, sorted(found)
    code = f"import {', '.join(TERMINAL)}"
    shown = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    alone = {"jsonl", "once", "piped", "plain"}  # what only a turn without a terminal needs
    terminal = {name for name in found | imported(shown.stderr) if name.rpartition(".")[2] not in alone}
    assert len(terminal) <= MOST_OF_A_TERMINAL, sorted(terminal)
    assert not [name for name in terminal if name.startswith(("actors", "rumi.app", "rumi.channels.control"))]
