"""`/stop` of a turn that waits for researchers with delegates, with pages and clones in flight."""

import os
import secrets
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trio

from rumi.app.app import open_app
from rumi.app.engine import ready_engine
from rumi.chats.hub import reply_to
from rumi.platform.config.cascade import load_settings
from rumi.platform.home import Home
from rumi.sandbox.processes import descendants
from tests.cli.conftest import containers
from tests.fakes.groq_server import KEY, serve_groq
from tests.fakes.stalling import CLONES, stalling

BOUND_S = 3.0
"""Far above what the benchmark shows: tests run beside others."""


@pytest.fixture(
    params=[
        pytest.param("docker", marks=pytest.mark.docker),
        pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
    ]
)
def flags(request: pytest.FixtureRequest) -> Iterator[dict[str, object]]:
    """The settings for an engine. Its image has more programs than that of other tests, so it is another."""
    given: dict[str, object] = {"sandbox.backend": request.param, "sandbox.python_packages": []}
    if request.param == "bubblewrap":
        yield given
        return
    image = f"rumi-runner-tests-{secrets.token_hex(4)}:research"
    yield {**given, "sandbox.image": image}
    subprocess.run(["docker", "rmi", "--force", image], capture_output=True, check=True)


@pytest.mark.long
async def test_a_stop_reaches_delegates_of_researchers_and_leaves_nothing(
    flags: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker = "sandbox.image" in flags
    async with stalling(tmp_path / "served") as world, serve_groq(world.think) as groq:
        monkeypatch.setenv("SSL_CERT_FILE", str(world.trusted))
        flags["fetch.allow"] = [world.pages.endpoint, world.repositories.endpoint]
        home = Home(tmp_path / "home").make()
        loaded = load_settings(home.root, {"GROQ_API_KEY": KEY, "GROQ_BASE_URL": groq.base_url}, flags)
        with home.lock("a test"):
            engine = await ready_engine(home, loaded, lambda step: None)
            async with open_app(home, loaded, engine) as app:
                with app.services.hub.listening("cli") as events:
                    for _ in range(2):  # what the first leaves would be in the second one's way
                        with trio.fail_after(90):
                            await app.inbox.accept("cli", "three")
                            while not world.in_flight:  # noqa: ASYNC110  # of three servers
                                await trio.sleep(0.02)
                        assert len(sandboxes(home, docker=docker)) >= CLONES + 1
                        began = trio.current_time()
                        with trio.fail_after(BOUND_S):
                            replied = await reply_to(events, await app.inbox.accept("cli", "/stop"))
                        assert trio.current_time() - began < BOUND_S
                        assert replied.text == "⏹ Stopped."
                        with trio.fail_after(2):
                            while not world.idle:  # noqa: ASYNC110  # the servers see it a moment later
                                await trio.sleep(0.01)
                with trio.fail_after(20):
                    while left(home, docker=docker):  # noqa: ASYNC110  # it looks into folders
                        await trio.sleep(0.05)
        with closing(sqlite3.connect(home.state_db)) as db:
            states = db.execute("SELECT kind, state, attached FROM tasks").fetchall()
            ended = [("repo", "stopped", 1), ("repo", "stopped", 1), ("web", "stopped", 1)]
            assert sorted(states) == sorted(2 * ended)
            assert db.execute("SELECT count(*) FROM outbox").fetchone() == (2,)
        assert not left(home, docker=docker)


def sandboxes(home: Home, *, docker: bool) -> list[str]:
    """What there is of tasks' sandboxes: containers, or the processes that hold them."""
    if docker:
        return [name for name in containers(home.installation()) if "task" in name]
    found = []
    for pid in descendants(os.getpid()):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if f"{home.workspaces}/task." in words:
            found.append(words)
    return found


def left(home: Home, *, docker: bool) -> list[str]:
    """What tasks have left: files and containers."""
    found = [str(path) for path in home.workspaces.glob("task.*")]
    cache = home.root / "cache" / "repositories"
    found += sandboxes(home, docker=docker)
    found += [str(path) for path in cache.rglob("*") if path.is_file() and path.name != "lock"]
    return found
