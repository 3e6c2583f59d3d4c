"""What the doctor finds about what commands run in: daemons, images, containers, bubblewrap, leftovers."""

import io
import secrets
import tarfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import trio

from rumi.cli.doctor.docker import why_not
from rumi.cli.doctor.examining import examine
from rumi.cli.doctor.sandboxes import leftovers
from rumi.platform.config.cascade import load_settings
from rumi.platform.home import Home
from rumi.sandbox.docker.image import FORMAT, LABEL_FORMAT
from rumi.sandbox.engine import SandboxError, SandboxLimits
from tests.cli.doctor.doctoring import by_name, failures, real_daemon, sound_home
from tests.fakes.bot_api import TOKEN
from tests.fakes.docker_daemon import fake_daemon


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    return sound_home(tmp_path, monkeypatch)


async def test_without_the_engine_that_is_named_there_is_a_failure(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUMI_SANDBOX__BACKEND", "docker")
    checks = await examine(home)
    assert failures(checks) == ["sandbox"]
    assert by_name(checks, "sandbox").found == "docker does not work here"
    assert "no-daemon.sock" in by_name(checks, "docker").found


async def test_without_any_engine_there_is_a_failure(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async def no(_: object) -> str:
        return "the kernel makes no namespaces."

    monkeypatch.setattr("rumi.sandbox.bubblewrap.engine.BubblewrapEngine.probe", no)
    found = by_name(await examine(home), "sandbox")
    assert found.found == "neither Docker nor bubblewrap works here"


async def test_what_bounds_the_files_is_said_and_a_disk_without_room_for_them(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = await examine(home)
    assert by_name(checks, "files").verdict == "ok"
    assert "watched while a command runs (no disk quotas)" in by_name(checks, "files").found
    monkeypatch.setenv("RUMI_SANDBOX__RESERVE_MB", str(10**9))
    low = [check for check in await examine(home) if check.name == "files" and check.verdict == "failure"]
    assert low[0].found.endswith("1048576.0 GB of them kept for Rumi")
    assert "[sandbox] reserve_mb" in low[0].fix


@pytest.mark.parametrize(
    ("cause", "fix"),
    [
        (httpx.ConnectError("[Errno 2] No such file or directory"), "systemctl start docker"),
        (httpx.ConnectError("[Errno 13] Permission denied"), "usermod -aG docker"),
        (httpx.ReadTimeout(""), "systemctl restart docker"),
        (None, "as the error says"),
    ],
)
def test_why_docker_cannot_be_used_decides_what_to_do(home: Home, cause: Exception | None, fix: str) -> None:
    error = SandboxError("No.", "as the error says")
    error.__cause__ = cause
    assert fix in why_not(error, load_settings(home.root, {}, {})).fix


@pytest.mark.bubblewrap
async def test_a_bot_without_docker_is_a_failure_unless_bubblewrap_was_chosen(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TELEGRAM_TOKEN", TOKEN)
    monkeypatch.setenv("RUMI_MODEL__DEFAULT", "offline")
    checks = await examine(home)
    assert failures(checks) == ["sandbox"]
    assert 'backend = "bubblewrap"' in by_name(checks, "sandbox").fix
    monkeypatch.setenv("RUMI_SANDBOX__BACKEND", "bubblewrap")
    assert failures(await examine(home)) == []


@pytest.mark.parametrize("hangs", ["GET /_ping", "GET /info", "GET /containers", "POST /containers/create"])
async def test_a_daemon_that_takes_calls_and_never_answers_is_a_finding_in_bounded_time(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs: str
) -> None:
    monkeypatch.setattr("rumi.cli.doctor.check.CHECK_S", 0.3)
    async with fake_daemon(tmp_path) as daemon:
        monkeypatch.setenv("DOCKER_HOST", daemon.address)
        daemon.hanging.add(hangs)
        daemon.scripted["GET /info"] = [(200, {"SecurityOptions": ["name=seccomp"]})]
        labels = {LABEL_FORMAT: FORMAT, "rumi.runner.source": "host"}
        daemon.scripted["GET /images"] = [(200, {"Id": "sha256:1", "Config": {"Labels": labels}})]
        with trio.fail_after(20):
            checks = await examine(home)
    found = by_name(checks, "leftovers" if hangs == "GET /containers" else "docker")
    assert found.verdict != "ok"
    assert found.fix
    assert by_name(checks, "configuration").verdict == "ok"
    assert not list(home.run.glob("probe-*"))


@pytest.mark.docker
async def test_an_image_that_is_missing_is_told_and_is_no_failure(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_daemon(monkeypatch)
    monkeypatch.setenv("RUMI_SANDBOX__IMAGE", f"rumi-runner-tests:none-{secrets.token_hex(3)}")
    checks = await examine(home)
    image = by_name(checks, "image")
    assert (image.verdict, image.fix) == (
        "warning",
        "The first chat builds it. At once: rumi debug sandbox build",
    )
    assert "is not there" in image.found
    assert failures(checks) == []


@pytest.fixture
def broken_image(request: pytest.FixtureRequest) -> Iterator[str]:
    """An image that is empty; with the parameter `ours` it says that it is Rumi's."""
    import docker

    tag = f"broken-{secrets.token_hex(3)}"
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("nothing"))
    client = docker.from_env()
    try:
        changes = [f'LABEL {LABEL_FORMAT}="{FORMAT}"'] if request.param == "ours" else []
        client.api.import_image_from_data(archive.getvalue(), "rumi-runner-tests", tag, changes)
        yield f"rumi-runner-tests:{tag}"
        client.images.remove(f"rumi-runner-tests:{tag}", force=True)
    finally:
        client.close()


@pytest.mark.docker
@pytest.mark.parametrize(
    ("broken_image", "name"), [("ours", "container"), ("anybody's", "image")], indirect=["broken_image"]
)
async def test_an_image_in_which_nothing_runs_is_a_failure_with_the_rebuild_command(
    broken_image: str, name: str, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_daemon(monkeypatch)
    monkeypatch.setenv("RUMI_SANDBOX__IMAGE", broken_image)
    checks = await examine(home)
    assert failures(checks) == [name]
    assert "rumi debug sandbox build" in by_name(checks, name).fix
    assert (await leftovers(home))[0].verdict == "ok", "what it tried is gone"


@pytest.mark.docker
async def test_a_container_as_chats_get_it_is_looked_at_and_what_is_left_over_is_named(
    home: Home, docker_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rumi.sandbox.docker.engine import DockerEngine

    real_daemon(monkeypatch)
    monkeypatch.setenv("RUMI_SANDBOX__IMAGE", docker_image)
    engine = DockerEngine(home.installation(), SandboxLimits(), image=docker_image)
    (home.workspaces / "left").mkdir()
    try:
        await engine.create("left", home.workspaces / "left")
        checks = await examine(home)
        found = by_name(checks, "leftovers")
        assert (found.verdict, found.fix) == ("warning", "rumi debug sandbox clean")
        assert found.found == f"container rumi-runner-left-{home.installation()}"
        assert by_name(checks, "container").found.startswith(
            "no capabilities, no new privileges, system calls"
        )
        assert [box.chat_id for box in await engine.containers()] == ["left"], "and only its own was removed"
        with home.lock("a test"):
            assert by_name(await examine(home), "leftovers").verdict == "ok"
    finally:
        await engine.remove("left")
        await engine.aclose()


def test_what_a_container_says_of_itself_is_judged() -> None:
    from rumi.cli.doctor.docker import broken_promises

    limits = SandboxLimits()
    none = "".join(f"Cap{kind}:\t0000\n" for kind in ("Prm", "Eff", "Bnd"))
    bounds = f"Bound-memory: {limits.memory_bytes}\nBound-pids: {limits.pids}\n"
    sound = f"Uid:\t1000\t1000\n{none}NoNewPrivs:\t1\nSeccomp:\t2\n  lo: 0 0\n{bounds}"
    assert broken_promises(sound, limits) == []
    for old, new, says in (
        ("CapBnd:\t0000", "CapBnd:\t00a8", "capabilities"),
        ("NoNewPrivs:\t1", "NoNewPrivs:\t0", "privileges"),
        ("Seccomp:\t2", "Seccomp:\t0", "system calls"),
        ("Uid:\t1000", "Uid:\t0", "root"),
        ("  lo:", "  eth0: 0 0\n  lo:", "network"),
        ("  lo:", "Root: writable\n  lo:", "written"),
        (f"Bound-memory: {limits.memory_bytes}", "Bound-memory: max", "memory"),
        (f"Bound-pids: {limits.pids}", f"Bound-pids: {limits.pids + 1}", "processes"),
    ):
        (told,) = broken_promises(sound.replace(old, new), limits)
        assert says in told
    assert len(broken_promises("", limits)) >= 4, "what is not said is not promised"
