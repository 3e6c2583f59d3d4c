"""Homes for whole programs, on both engines."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import Program


@pytest.fixture
def bubblewrap(tmp_path: Path) -> Iterator[Program]:
    program = Program(tmp_path / "home", {"RUMI_SANDBOX__BACKEND": "bubblewrap"})
    yield program
    program.end()


@pytest.fixture
def docker(tmp_path: Path, docker_image: str) -> Iterator[Program]:
    program = Program(
        tmp_path / "home", {"RUMI_SANDBOX__BACKEND": "docker", "RUMI_SANDBOX__IMAGE": docker_image}
    )
    yield program
    program.end()
    program.run("sandbox", "clean", code=None)


@pytest.fixture(params=[pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
                        pytest.param("docker", marks=pytest.mark.docker)])  # fmt: skip
def program(request: pytest.FixtureRequest) -> Program:
    found: Program = request.getfixturevalue(request.param)
    return found


def containers(installation: str) -> list[str]:
    """Names of an installation's containers, whatever their state."""
    import docker

    client = docker.from_env()
    try:
        found = client.api.containers(all=True, filters={"label": f"rumi.installation={installation}"})
        return [container["Names"][0].lstrip("/") for container in found]
    finally:
        client.close()
