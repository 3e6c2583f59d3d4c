"""The tools of `work`, in both engines."""

import base64
import hashlib
import io
import secrets
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from rumi.sandbox.bubblewrap.engine import BubblewrapEngine
from rumi.sandbox.docker.engine import DockerEngine
from rumi.sandbox.engine import Command, Container, SandboxLimits
from rumi.sandbox.workspace import prepare_workspace
from runner.programs import Selection
from tests.fakes.engines import cleaned_up
from tests.sandbox.desk import ENGINES, image_of

SELECTION = Selection("work", ("sha1sum", "there-is-none"))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose root file system is made once."""
    return tmp_path_factory.mktemp("tools")


@pytest.fixture(scope="module")
def work_image() -> Iterator[str]:
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


def wheel(name: str, main: str) -> bytes:
    """A wheel with a package that prints something when it is run."""
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}/__init__.py": "",
        f"{name}/__main__.py": main,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = [f"{path},{_hash(text)},{len(text)}" for path, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""])
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return whole.getvalue()


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256={base64.urlsafe_b64encode(digest).decode().rstrip('=')}"
