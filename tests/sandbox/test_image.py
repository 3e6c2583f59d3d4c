"""The image: built where a registry is reached, imported from this host otherwise, and looked at."""

import json
import re
import secrets
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import resources
from pathlib import Path

import pytest
import trio

from rumi.sandbox.docker import image
from rumi.sandbox.docker.api import EngineApi
from rumi.sandbox.docker.container import DockerContainer
from rumi.sandbox.docker.engine import DockerEngine
from rumi.sandbox.docker.image import ImageState, build_image, look_at_image
from rumi.sandbox.engine import Command, SandboxError, SandboxLimits
from runner.programs import CORE_ONLY, WORK, Selection
from tests.fakes.engines import cleaned_up


@pytest.fixture
def name() -> Iterator[str]:
    name = f"rumi-runner-tests-{secrets.token_hex(4)}:x"
    yield name
    subprocess.run(["docker", "rmi", "--force", name], capture_output=True, check=False)


@contextmanager
def own_image(of: str, path: str) -> Iterator[str]:
    """An image of somebody's own: without Rumi's labels, and with a PATH."""
    name = f"tests-own/tools-{secrets.token_hex(4)}:x"

    def docker(*words: str, given: bytes = b"") -> bytes:
        return subprocess.run(["docker", *words], input=given, capture_output=True, check=True).stdout

    container = docker("create", of).decode().strip()
    try:
        docker("import", "--change", f"ENV PATH={path}", "-", name, given=docker("export", container))
        yield name
    finally:
        docker("rm", "--force", container)
        docker("rmi", "--force", name)


async def look(name: str, selection: Selection = CORE_ONLY) -> ImageState:
    api = EngineApi()
    state = await look_at_image(api, name, selection)
    await api.aclose()
    return state


@pytest.mark.docker
async def test_an_image_that_is_not_there_says_how_to_make_it(name: str) -> None:
    state = await look(name)
    assert not state.sound
    assert "rumi debug sandbox build" in state.fault


@pytest.mark.docker
async def test_an_image_is_made_of_this_hosts_programs_and_tried(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried_in = []

    class Watched(DockerEngine):
        async def create(self, chat_id: str, workspace: Path) -> DockerContainer:
            tried_in.append(workspace.parent.parent)
            return await super().create(chat_id, workspace)

    monkeypatch.setattr(image, "DockerEngine", Watched)
    lines: list[str] = []
    report = await build_image(name, lines.append, sources=("host",), folder=tmp_path)
    assert tried_in == [tmp_path]  # of a Rumi in a container, the daemon may see the home and no other folder
    assert report.source == "host"
    assert set(report.missing) < set(CORE_ONLY.allowed)
    assert "sh" not in report.missing
    assert lines
    state = await look(name)
    assert state.sound
    assert (state.image_id, state.source) == (report.image_id, "host")


@pytest.mark.docker
async def test_making_it_again_leaves_one_image(name: str) -> None:
    first = await build_image(name, lambda _: None, sources=("host",))
    second = await build_image(name, lambda _: None, sources=("host",))
    assert first.image_id != second.image_id
    listed = await trio.run_process(["docker", "images", "--quiet", "--no-trunc"], capture_stdout=True)
    assert first.image_id not in listed.stdout.decode()


@pytest.mark.docker
async def test_an_image_of_another_version_is_told_apart(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await build_image(name, lambda _: None, sources=("host",))
    monkeypatch.setattr(image, "FORMAT", "another")
    state = await look(name)
    assert "another version" in state.fault


@pytest.mark.docker
async def test_an_image_with_other_tools_than_the_configuration_is_told_apart(
    docker_image: str,
) -> None:
    assert (await look(docker_image)).sound
    state = await look(docker_image, Selection("work"))
    assert "has other tools than config.toml" in state.fault


@pytest.mark.docker
async def test_an_image_of_another_name_that_rumi_did_not_make_is_the_users_own(
    docker_image: str, tmp_path: Path
) -> None:
    with own_image(docker_image, "/opt/mine:/usr/bin:/bin") as name:
        state = await look(name)
        assert (state.sound, state.own) == (True, True)
        with pytest.raises(SandboxError, match="is your own"):
            await build_image(name, lambda _: None, sources=("host",))
        async with cleaned_up(DockerEngine(secrets.token_hex(6), SandboxLimits(), image=name)) as engine:
            box = await engine.create("a", tmp_path)
            said = bytearray()
            await box.execute(Command(("sh", "-c", "echo $PATH $HOME")), said.extend, said.extend)
            assert said == b"/opt/mine:/usr/bin:/bin /workspace\n"
    missing = await look("tests-own/there-is-none:x")
    assert (missing.sound, missing.own) == (False, True)
    assert "docker" in missing.fault


@pytest.mark.docker
async def test_an_own_image_without_bash_is_told_apart(docker_image: str, tmp_path: Path) -> None:
    with own_image(docker_image, "/nowhere") as name:
        async with cleaned_up(DockerEngine(secrets.token_hex(6), SandboxLimits(), image=name)) as engine:
            with pytest.raises(SandboxError, match="has no bash"):
                await engine.create("a", tmp_path)


@pytest.mark.docker
async def test_the_image_has_no_network_tool_no_compiler_and_no_package_manager(
    docker_image: str, tmp_path: Path
) -> None:
    async with cleaned_up(DockerEngine(secrets.token_hex(6), SandboxLimits(), image=docker_image)) as engine:
        box = await engine.create("a", tmp_path)
        found = bytearray()
        names = (
            "wget curl nc ncat ssh telnet ftp busybox apk apt dpkg pip python3 perl cc gcc ld mount su sudo"
        )
        await box.execute(Command(("bash", "-c", f"type -P {names}")), found.extend, found.extend)
        await box.execute(Command(("find", "/", "-xdev", "-perm", "/6000")), found.extend, ignore)
        assert found == b""


def ignore(_: bytes) -> None:
    pass


@asynccontextmanager
async def refusing_daemon(folder: Path, *, registry: bool) -> AsyncIterator[str]:
    """The address of a daemon that refuses builds, and whose registry keeps silent or has everything."""
    listener = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    await listener.bind(str(folder / "d.sock"))
    listener.listen(8)

    async def daemon(stream: trio.SocketStream) -> None:
        async with stream:
            asked = bytes(await stream.receive_some())
            if b"/images/create" in asked and not registry:
                await trio.sleep_forever()
            with trio.move_on_after(
                0.5 if b"/build" in asked else 0
            ):  # what is unread would reset the connection
                while await stream.receive_some():
                    pass
            body = json.dumps({"ApiVersion": "1.41", "message": "nothing here"}).encode()
            if b"/images/create" in asked:
                body = b"{}"
            known = any(path in asked for path in (b"/_ping", b"/version", b"/images/create"))
            head = b"HTTP/1.1 %s\r\nApi-Version: 1.41\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
            await stream.send_all(head % (b"200 OK" if known else b"404 Not Found", len(body)) + body)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, daemon, [trio.SocketListener(listener)])
        yield f"unix://{folder}/d.sock"
        nursery.cancel_scope.cancel()


async def test_a_registry_that_keeps_silent_is_given_up_in_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Real time: the docker SDK waits in a thread, which no virtual clock moves.
    monkeypatch.setattr(image, "REGISTRY_S", 1)
    async with refusing_daemon(tmp_path, registry=False) as address:
        began = trio.current_time()
        with pytest.raises(SandboxError, match="No registry can be reached"):
            await build_image("x:y", lambda line: None, address=address, sources=("alpine",))
        assert trio.current_time() - began < 10


async def test_what_the_daemon_says_when_it_refuses_a_build_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image, "STEP_S", 10)
    async with refusing_daemon(tmp_path, registry=True) as address:
        with pytest.raises(SandboxError, match=r"Docker says: .*nothing here"):
            await build_image("x:y", lambda line: None, address=address, sources=("alpine",))


CHECKED = r"for program in \\\n(.*?); \\\n"


def test_the_dockerfile_checks_every_program_and_a_supported_base() -> None:
    text = resources.files("runner").joinpath("Dockerfile").read_text()
    checked = [found.replace("\\\n", " ").split() for found in re.findall(CHECKED, text, re.DOTALL)]
    missing = re.findall(f'{image.LABEL_MISSING}="([^"]*)"', text)[0].split()
    assert [set(names) for names in checked] == [set(CORE_ONLY.allowed), set(WORK) - set(missing)]
    assert f"FROM {':'.join(image.BASE)} AS" in text
    assert f'{image.LABEL_FORMAT}="{image.FORMAT}"' in text
