"""The tools of `work`, in both engines."""

import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from rumi.sandbox.bubblewrap.engine import BubblewrapEngine
from rumi.sandbox.docker.api import EngineApi
from rumi.sandbox.docker.engine import DockerEngine
from rumi.sandbox.docker.image import look_at_image
from rumi.sandbox.engine import Command, Container, SandboxLimits
from rumi.sandbox.workspace import prepare_workspace
from runner.packages import install
from runner.programs import Selection
from tests.fakes.engines import cleaned_up
from tests.fakes.wheels import greetings, index_of, wheel
from tests.sandbox.desk import ENGINES, image_of

SELECTION = Selection("work", ("sha1sum", "there-is-none"), ("greetings>=1", "there-is-no-package"))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("index")
    greetings(folder)
    with pytest.MonkeyPatch.context() as monkeypatch:
        index_of(folder, monkeypatch)
        yield


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, index: None) -> Path:
    """A home whose root file system is made once."""
    home = tmp_path_factory.mktemp("tools")
    install(home / "packages", SELECTION.packages, lambda _: None)
    return home


@pytest.fixture(scope="module")
def work_image(index: None) -> Iterator[str]:
    with image_of("work", SELECTION) as name:
        yield name


class Box:
    """A container, and its files on this machine."""

    def __init__(self, container: Container, workspace: Path) -> None:
        self._container, self.workspace = container, workspace

    async def sh(self, script: str) -> str:
        """Run a script; return its output, and fail if it does."""
        said = bytearray()
        code = await self._container.execute(Command(("sh", "-c", script)), said.extend, said.extend)
        assert code == 0, said.decode()
        return said.decode()


@pytest.fixture(params=ENGINES)
def image(request: pytest.FixtureRequest) -> str:
    """Docker's image; empty for bubblewrap."""
    return str(request.getfixturevalue("work_image")) if request.param == "docker" else ""


@pytest.fixture
async def box(image: str, home: Path) -> AsyncIterator[Box]:
    installation, chat = secrets.token_hex(6), secrets.token_hex(4)
    engine: DockerEngine | BubblewrapEngine = (
        DockerEngine(installation, SandboxLimits(), image=image, home=home)
        if image
        else BubblewrapEngine(home, installation, SandboxLimits(), selection=SELECTION)
    )
    async with cleaned_up(engine):
        workspace = prepare_workspace(home, chat, *engine.user)
        yield Box(await engine.create(chat, workspace), workspace)


@pytest.mark.long
async def test_python_has_its_standard_library(box: Box) -> None:
    modules = (
        "asyncio, bz2, ctypes, decimal, hashlib, json, lzma, sqlite3, ssl, uuid, venv, xml.etree, zipfile"
    )
    assert await box.sh(f"python3 -c 'import {modules}; print(2**100)'") == f"{2**100}\n"
    assert (
        await box.sh("python -c 'import hashlib; print(hashlib.sha256(b\"\").hexdigest()[:8])'")
        == "e3b0c442\n"
    )


async def test_python_packages_are_there_with_their_programs_and_read_only(box: Box) -> None:
    assert await box.sh("greetings; python3 -m greetings") == "hello from 1.0\nrun\n"
    look = "import greetings.say as each; print(each.__file__, each.__cached__)"
    module, compiled = (await box.sh(f"python3 -c '{look}'")).split()
    assert await box.sh(f"test -f {compiled} && head -1 $(command -v greetings)") == "#!/usr/bin/python3\n"
    assert "Read-only" in await box.sh(f"rm {module} 2>&1 || true")
    assert await box.sh("pip list 2>/dev/null | grep -c '^greetings *1.0$'") == "1\n"
    assert await box.sh("echo $MPLBACKEND; touch $MPLCONFIGDIR") == "Agg\n"


@pytest.mark.docker
async def test_an_image_knows_its_python_packages(work_image: str) -> None:
    api = EngineApi()
    state = await look_at_image(api, work_image, SELECTION)
    other = await look_at_image(api, work_image, Selection("work", SELECTION.extra, ("greetings",)))
    await api.aclose()
    assert (state.sound, state.packages) == (True, ("greetings==1.0",))
    assert SELECTION.lacking(state.packages) == ("there-is-no-package",)
    assert "other tools" in other.fault


@pytest.mark.long
async def test_git_keeps_a_history_and_has_an_identity(box: Box) -> None:
    done = await box.sh(
        "git init -q r && cd r && echo a > f && git add f && git commit -qm first && git clone -q . ../c"
        " && cd ../c && git log --format='%an %ae %s' && git status --short && git branch --show-current"
    )
    assert done == "Rumi rumi@localhost first\nmain\n"
    refused = await box.sh("git ls-remote https://example.org/x.git 2>&1 || true")
    assert "remote-https" in refused


@pytest.mark.long
async def test_pip_installs_a_wheel_of_the_workspace_and_asks_no_index(box: Box) -> None:
    (box.workspace / "greeting-1.0-py3-none-any.whl").write_bytes(
        wheel("greeting", "print('from a wheel')\n")
    )
    await box.sh("pip install -q ./greeting-1.0-py3-none-any.whl")
    assert await box.sh("python3 -m greeting") == "from a wheel\n"
    refused = await box.sh("pip install requests 2>&1 || true")
    assert "No matching distribution" in refused
    assert "Retrying" not in refused


WORKS = {
    "jq": ("echo '{\"a\": [1, 2]}' | jq -c .a", "[1,2]\n"),
    "bc": ("echo '2^64' | bc", "18446744073709551616\n"),
    "zip": ("echo x > z && zip -q z.zip z && unzip -p z.zip", "x\n"),
    "xz": ("echo x | xz | xz -d", "x\n"),
    "sqlite3": ("sqlite3 t.db 'create table t (a); insert into t values (7); select a from t'", "7\n"),
    "file": ("printf '%%PDF-1.4\\n' > p && file --brief --mime-type p", "application/pdf\n"),
    "patch": ("echo a > f; echo b > g; (diff -u f g; true) | patch -s f && cat f", "b\n"),
    "make": ("printf 'all:\\n\\t@echo made\\n' > Makefile && make", "made\n"),
    "node": ("node -e 'console.log([1, 2].map(x => x * 2).join())'", "2,4\n"),
    "rg": ("echo needle > n && rg -c needle n", "1\n"),
    "tree": ("mkdir -p t/u && tree --noreport -i t", "t\nu\n"),
}


async def test_each_tool_that_is_there_works(box: Box) -> None:
    there = (await box.sh(f"for p in {' '.join(WORKS)}; do command -v $p; done; true")).split()
    tried = {name: await box.sh(WORKS[name][0]) for name in (path.rpartition("/")[2] for path in there)}
    assert tried == {name: WORKS[name][1] for name in tried}
    assert "make" in tried


async def test_a_program_that_the_configuration_adds_is_there(box: Box) -> None:
    assert await box.sh("printf x | sha1sum") == "11f6ad8ec52a2984abaafd7c3b516503785c2072  -\n"
    assert await box.sh("command -v there-is-none || true") == ""


async def test_the_root_with_tools_is_read_only(box: Box) -> None:
    assert "denied" not in await box.sh("touch /workspace/x")
    for folder in ("/usr/bin", "/usr/lib", "/etc"):
        assert "Read-only" in await box.sh(f"touch {folder}/x 2>&1 || true")
