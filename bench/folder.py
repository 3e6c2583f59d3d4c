"""A chat in a git project of 5,000 files, compared with a chat of its own: the way to the first command.

`python -m bench.folder [docker|bubblewrap]`. `link` is what comes before the first prompt. `first command`
has the view or the workspace, the container and `ls`. `copy` is the way where no overlay is possible.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import trio

from rumi.platform.home import Home
from rumi.sandbox.bubblewrap.engine import BubblewrapEngine
from rumi.sandbox.docker.engine import DockerEngine
from rumi.sandbox.engine import Command, Engine, SandboxLimits
from rumi.sandbox.folders.linked import LinkedFolders
from rumi.sandbox.folders.views import Views
from rumi.sandbox.project.tree import ProjectLimits
from rumi.sandbox.workspace import prepare_workspace

ROUNDS, FILES, FOLDERS = 7, 5000, 100
LS = Command(("ls",))


def project(path: Path) -> Path:
    """Make a git project."""
    for number in range(FILES):
        file = path / f"d{number % FOLDERS}" / f"file{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"print({number})\n" * 20)
    subprocess.run(["git", "init", "--quiet", path], check=True)
    subprocess.run(["git", "-C", path, "add", "--all"], check=True)
    return path


async def first_command(engine: Engine, ready: Callable[[str], Path], chat: str) -> float:
    """Return the time to the end of a chat's first command, in milliseconds."""
    began = time.perf_counter()
    container = await engine.create(chat, ready(chat))
    await container.execute(LS, lambda piece: None, lambda piece: None)
    took = time.perf_counter() - began
    await engine.remove(chat)
    return took * 1000


async def main() -> None:
    """Measure, and print a line for each way."""
    kind = sys.argv[1] if len(sys.argv) > 1 else "bubblewrap"
    with tempfile.TemporaryDirectory(prefix="rumi-bench-") as place:
        home, work = Home(Path(place) / "home").make(), project(Path(place) / "project")
        limits, bounds = SandboxLimits(), ProjectLimits(1 << 30, 50_000)
        engine: Engine
        if kind == "docker":
            engine = DockerEngine("benchfolder0", limits, home=home.root)
        else:
            engine = BubblewrapEngine(home.root, "benchfolder0", limits)
        shared = kind == "docker"
        views = None if shared and os.getuid() else Views(engine.user, shared=shared)
        ways = {"overlay": views, "copy": None}
        own = lambda chat: prepare_workspace(home.root, chat, *engine.user)  # noqa: E731
        await first_command(engine, own, "warm")
        figures: dict[str, list[float]] = {}
        for round_ in range(ROUNDS):
            took = await first_command(engine, own, f"own{round_}")
            figures.setdefault("own: first command", []).append(took)
            for name, view in ways.items():
                if name == "copy" and round_ > 1:  # some seconds each
                    continue
                folders = LinkedFolders(home.root, home.folders, home.workspaces, engine.user, bounds, view)
                chat, began = f"{name}{round_}", time.perf_counter()
                folders.link(chat, work)
                figures.setdefault(f"{name}: link", []).append((time.perf_counter() - began) * 1000)
                took = await first_command(engine, folders.ready, chat)
                figures.setdefault(f"{name}: first command", []).append(took)
                folders.forget(chat)
        await engine.aclose()
    for name, values in figures.items():
        print(f"{kind} {name}: median {statistics.median(values):.0f} ms, worst {max(values):.0f} ms")


if __name__ == "__main__":
    trio.run(main)
