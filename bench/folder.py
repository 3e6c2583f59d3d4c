"""A chat in a git project of 5,000 files, compared with a chat of its own: the way to the first command.

`python -m bench.folder [docker|bubblewrap]`. `link` is what comes before the first prompt. `first command`
has the view or the workspace, the container and `ls`. `copy` is the way where no overlay is possible.

The whole program, `--here` against `--own`, in turns, each in a new chat: from the start to the prompt, and
to the end of `-p 'run true'`; `cold` starts the process that serves windows as well, `warm` finds it.
"""

import os
import pty
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
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
RUMI = str(Path(sys.executable).with_name("rumi"))
PROMPT, WAIT_S = "\u203a ".encode(), 60.0


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


@dataclass
class Windows:
    """Windows of one home, each started in the project."""

    home: Path
    work: Path
    started: int = 0

    @property
    def env(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "DOCKER_HOST") if name in os.environ}
        return {
            **kept,
            "RUMI_HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TERM": "xterm",
            "RUMI_MODEL": "offline",
        }

    def end_server(self) -> None:
        """End the process that serves the windows, and wait for its end."""
        with suppress(OSError, IndexError, ValueError):
            number = int((self.home / "run" / "lock").read_text().split("process ")[1].rstrip(")\n"))
            os.kill(number, signal.SIGTERM)
            while Path(f"/proc/{number}").exists():
                time.sleep(0.02)

    def words(self, flag: str) -> list[str]:
        """Return the words of a start in a chat that is new, so that its folder is linked first."""
        self.started += 1
        return [RUMI, flag, "--chat", f"bench{self.started}"]

    def answer(self, flag: str) -> float:
        """Return the time from the start to the end of a turn with one command, in milliseconds."""
        began = time.perf_counter()
        words = [*self.words(flag), "-p", "run true"]
        subprocess.run(words, cwd=self.work, env=self.env, check=True, capture_output=True)
        return (time.perf_counter() - began) * 1000

    def prompt(self, flag: str) -> float:
        """Return the time from the start to the prompt of a terminal, in milliseconds."""
        ours, theirs = pty.openpty()
        began = time.perf_counter()
        process = subprocess.Popen(
            self.words(flag), cwd=self.work, env=self.env, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        seen = b""
        while PROMPT not in seen:
            if not select.select([ours], [], [], WAIT_S)[0]:
                raise TimeoutError(seen.decode(errors="replace"))
            seen += os.read(ours, 65536)
            if b"\x1b[6n" in seen:  # where is the cursor?
                seen = seen.replace(b"\x1b[6n", b"")
                os.write(ours, b"\x1b[1;1R")
        took = (time.perf_counter() - began) * 1000
        process.kill()
        process.wait()
        os.close(ours)
        return took


def starts(kind: str, windows: Windows) -> Iterator[tuple[str, float]]:
    """Yield the name and the milliseconds of each start of the program."""
    (windows.home / "config.toml").write_text(f'[sandbox]\nbackend = "{kind}"\n')
    for flag in ("--own", "--here"):
        windows.answer(flag)
    for round_ in range(ROUNDS):
        flags = ("--own", "--here") if round_ % 2 else ("--here", "--own")
        for flag in flags:
            yield f"{flag}: warm, to the answer", windows.answer(flag)
        for flag in flags:
            yield f"{flag}: warm, to the prompt", windows.prompt(flag)
        for flag in flags:
            windows.end_server()
            yield f"{flag}: cold, to the prompt", windows.prompt(flag)
        for flag in flags:
            windows.end_server()
            yield f"{flag}: cold, to the answer", windows.answer(flag)
    windows.end_server()


async def main() -> None:
    """Measure, and print a line for each way."""
    kind = sys.argv[1] if len(sys.argv) > 1 else "bubblewrap"
    figures: dict[str, list[float]] = {}
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
        for name, took in starts(kind, Windows(Home(Path(place) / "windows").make().root, work)):
            figures.setdefault(name, []).append(took)
    for name, values in sorted(figures.items()):
        print(
            f"{kind} {name}: median {statistics.median(values):.0f} ms,"
            f" from {min(values):.0f} to {max(values):.0f} ms"
        )


if __name__ == "__main__":
    trio.run(main)
