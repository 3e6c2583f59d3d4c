"""`rumi debug sandbox` and `rumi doctor` from outside: what they print, and how they end."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from rumi.sandbox.docker.engine import DockerEngine
from rumi.sandbox.engine import SandboxLimits
from tests.cli.conftest import containers
from tests.cli.program import BOUND_S, Program


@contextmanager
def running_command(program: Program) -> Iterator["subprocess.Popen[str]"]:
    """A chat in the middle of a command; afterwards the command must still have been running."""
    chat = program.start("chat", "--json", "-p", "run sleep 600")
    assert chat.stdout is not None
    try:
        while json.loads(chat.stdout.readline())["event"] != "tool_call":
            pass
        yield chat
        assert chat.poll() is None, "the chat ended by itself"
        assert "running sleep" in program.run("status").stdout
    finally:
        chat.terminate()
        chat.communicate(timeout=BOUND_S)


def left_container(program: Program) -> str:
    """Leave a container as a killed Rumi without a connection to it does; return its installation."""
    program.run("sandbox", "status")
    installation = (program.home / "installation").read_text().strip()

    async def leave() -> None:
        # Without a home no first process is connected, which would end the container.
        engine = DockerEngine(installation, SandboxLimits(), image=program.env["RUMI_SANDBOX__IMAGE"])
        (program.home / "workspace/cli").mkdir()
        await engine.create("cli", program.home / "workspace/cli")
        await engine.aclose()

    trio.run(leave)
    return installation


@pytest.mark.bubblewrap
def test_without_docker_build_makes_the_root_file_system_and_status_knows_it(bubblewrap: Program) -> None:
    built = bubblewrap.run("sandbox", "build").stdout
    assert f"{bubblewrap.home}/rootfs: " in built
    assert (bubblewrap.home / "rootfs/usr/bin/bash").exists()
    status = bubblewrap.run("sandbox", "status").stdout
    assert status.split()[:2] == ["engine", "bubblewrap"]
    assert "files        512 MB and 50000 files a chat, watched while a command runs" in status
    assert "of them kept for Rumi" in status
    assert bubblewrap.run("sandbox", "clean").stdout == "There was nothing to remove.\n"


def test_looking_at_a_running_rumi_disturbs_nothing_and_cleaning_is_refused(program: Program) -> None:
    with running_command(program):
        assert (
            f"engine       {program.env['RUMI_SANDBOX__BACKEND']}" in program.run("sandbox", "status").stdout
        )
        assert f"process {program.serving()}" in program.run("doctor").stdout
        refused = program.run("sandbox", "clean", code=2)
        assert f"is held by rumi chat (process {program.serving()})" in refused.stderr
        assert refused.stdout == ""


@pytest.mark.bubblewrap
def test_a_root_file_system_in_use_is_not_replaced(bubblewrap: Program) -> None:
    with running_command(bubblewrap):
        assert f"process {bubblewrap.serving()}" in bubblewrap.run("sandbox", "build", code=2).stderr


@pytest.mark.long
@pytest.mark.docker
def test_clean_removes_what_a_kill_left_and_never_another_installations(
    docker: Program, tmp_path: Path
) -> None:
    other = Program(tmp_path / "other", docker.env)
    ours, theirs = (left_container(program) for program in (docker, other))
    try:
        left = f"rumi-runner-cli-{ours}"
        assert left in docker.run("sandbox", "status").stdout
        assert "rumi debug sandbox clean" in docker.run("doctor").stdout
        assert docker.run("sandbox", "clean").stdout == f"removed {left}\n"
        assert docker.run("sandbox", "clean").stdout == "There was nothing to remove.\n"
        status = docker.run("sandbox", "status").stdout
        assert "containers   none" in status
        assert "commands     started by each container's first process" in status
        assert containers(ours) == []
        assert containers(theirs) == [f"rumi-runner-cli-{theirs}"]
    finally:
        other.run("sandbox", "clean")
    assert containers(theirs) == []


@pytest.mark.docker
def test_an_image_that_is_missing_is_told_with_the_command_that_makes_it(docker: Program) -> None:
    docker.env = docker.env | {"RUMI_SANDBOX__IMAGE": "rumi-runner-tests:there-is-none"}
    assert "rumi debug sandbox build" in docker.run("sandbox", "status").stdout


@pytest.mark.parametrize("words", [("sandbox", "status"), ("sandbox", "clean"), ("sandbox", "build")])
def test_a_daemon_that_is_named_and_does_not_answer_is_a_clear_error(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    env = {"RUMI_SANDBOX__BACKEND": "docker", "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    done = Program(tmp_path / "home", env).run(*words, code=1)
    assert "No Docker daemon answers" in done.stderr
    assert "bubblewrap" in done.stderr, "what else to do"


@pytest.mark.bubblewrap
def test_the_doctor_exits_0_with_warnings_and_1_with_a_failure(bubblewrap: Program, tmp_path: Path) -> None:
    bubblewrap.env["DOCKER_HOST"] = f"unix://{tmp_path}/none.sock"
    found = json.loads(bubblewrap.run("doctor", "--json").stdout)
    assert {check["verdict"] for check in found} <= {"ok", "warning"}
    assert all(set(check) == {"name", "verdict", "found", "fix"} for check in found)
    bubblewrap.home.chmod(0o750)
    text = bubblewrap.run("doctor", code=1).stdout
    assert f"→ chmod 700 {bubblewrap.home}" in text
    assert "✗ home" in text
    again = json.loads(bubblewrap.run("doctor", "--json", code=1).stdout)
    assert [check["name"] for check in again if check["verdict"] == "failure"] == ["home"]
