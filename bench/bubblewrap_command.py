"""A command in Rumi's embedded sandbox beside the same command in a bare bubblewrap with the same flags.

    python -m bench.bubblewrap_command [ROUNDS]

Both run over the same root file system, in rounds that alternate, and are timed from the call to the exit
code. What Rumi adds: streams that are read as they come, limits, and the proof that no process is left.
What it saves: it sets up the next command's namespaces when a command has ended, so that only one that comes
at once waits for them ("back to back"); the rounds leave it that time, and none of it falls into the bare
one's. The first run of each is not counted. Times in milliseconds, with the quartiles.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import trio

from rumi.sandbox.bubblewrap.engine import BubblewrapEngine, find_bwrap
from rumi.sandbox.bubblewrap.keeper import bwrap_flags
from rumi.sandbox.engine import Command, Container, SandboxLimits, skills_folder
from rumi.sandbox.identity import sandbox_user
from rumi.sandbox.seccomp import bpf_program
from rumi.sandbox.workspace import prepare_workspace

INSTALLATION = "bench0bench0"
PAUSE_S = 0.1
COMMANDS = {"true": ("true",), "sh -c 'ls | wc -l'": ("sh", "-c", "ls | wc -l")}


def bare(home: Path, workspace: Path, argv: tuple[str, ...]) -> float:
    """Milliseconds of one run without Rumi, by a program that wants no more than output and exit code."""
    uid, gid = sandbox_user(INSTALLATION, home)
    with (
        tempfile.TemporaryFile() as filters,
        tempfile.TemporaryFile() as alive,
        tempfile.TemporaryDirectory() as tmp,
    ):
        filters.write(bpf_program())
        filters.seek(0)
        os.chmod(tmp, 0o777)
        settings = {
            "uid": str(uid),
            "gid": str(gid),
            "tmp_bytes": str(64 << 20),
            "environment": "HOME=/workspace",
            "life_fd": str(alive.fileno()),
        }
        settings["seccomp_fd"] = str(filters.fileno())
        skills = skills_folder(home)
        skills.mkdir(parents=True, exist_ok=True)
        paths = {"/tmp/rootfs": str(home / "rootfs"), "/tmp/workspace": str(workspace), "/tmp/tmp": tmp}
        paths["/tmp/skills"] = str(skills)
        flags = [paths.get(flag, flag) for flag in bwrap_flags(settings)]
        before = time.perf_counter()
        subprocess.run(
            [str(find_bwrap()[0]), *flags, "--", *argv],
            pass_fds=[filters.fileno(), alive.fileno()],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            user=uid if os.getuid() == 0 else None,
            group=gid if os.getuid() == 0 else None,
            extra_groups=[] if os.getuid() == 0 else None,
        )
        return (time.perf_counter() - before) * 1000


async def ours(box: Container, argv: tuple[str, ...]) -> float:
    """Milliseconds of one run with Rumi."""
    out = bytearray()
    before = time.perf_counter()
    assert await box.execute(Command(argv), out.extend, out.extend) == 0
    return (time.perf_counter() - before) * 1000


async def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        workspace = prepare_workspace(home, "bench", *sandbox_user(INSTALLATION, home))
        for path in (home, workspace.parent):
            path.chmod(0o711)  # the bare one runs as an ordinary user, too, and has only its own rights
        engine = BubblewrapEngine(home, INSTALLATION, SandboxLimits())
        before = time.perf_counter()
        box = await engine.create("bench", workspace)
        print(f"first box, with its root file system: {(time.perf_counter() - before) * 1000:.0f} ms")
        before = time.perf_counter()
        box = await engine.create("bench", workspace)
        took_ms = (time.perf_counter() - before) * 1000
        print(f"another box: {took_ms:.0f} ms; not bounded: {engine.degraded or 'nothing'}")
        try:
            for name, argv in COMMANDS.items():
                times: dict[str, list[float]] = {"rumi": [], "bare bwrap": []}
                for _ in range(rounds + 1):
                    times["rumi"].append(await ours(box, argv))
                    await trio.sleep(PAUSE_S)
                    times["bare bwrap"].append(bare(home, workspace, argv))
                times["back to back"] = [await ours(box, argv) for _ in range(rounds + 1)]
                for who, measured in times.items():
                    low, middle, high = statistics.quantiles(measured[1:], n=4)
                    spread = f"{low:6.2f} to {high:6.2f}   best {min(measured[1:]):6.2f}"
                    print(f"{name:20} {who:12} median {middle:6.2f}   {spread}")
        finally:
            await engine.remove("bench")


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]) if len(sys.argv) > 1 else 100)
