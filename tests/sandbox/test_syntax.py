"""Syntax checks after writes and edits, with the parsers of `work` in both engines."""

import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from rumi.agent.tools.edit_file import EditFile
from rumi.agent.tools.write_file import WriteFile
from rumi.sandbox.bubblewrap.engine import BubblewrapEngine
from rumi.sandbox.docker.engine import DockerEngine
from rumi.sandbox.engine import Command, CommandResult, Engine, SandboxError, SandboxLimits
from rumi.sandbox.workspace import clear
from runner.programs import Selection
from tests.fakes.engines import cleaned_up
from tests.sandbox.desk import ENGINES, SandboxDesk, image_of, sandbox_desk

pytestmark = pytest.mark.long

SELECTION = Selection("work", ())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose root file system is made once."""
    return tmp_path_factory.mktemp("syntax")


@pytest.fixture(scope="module")
def work_image() -> Iterator[str]:
    with image_of("work", SELECTION) as name:
        yield name


@pytest.fixture(params=ENGINES)
def image(request: pytest.FixtureRequest) -> str:
    """Docker's image; empty for bubblewrap."""
    return str(request.getfixturevalue("work_image")) if request.param == "docker" else ""


class Desk(SandboxDesk):
    tainted = False

    async def write(self, path: str, content: str) -> str:
        return (await WriteFile(self).call({"path": path, "content": content})).content

    async def edit(self, path: str, old: str, new: str) -> str:
        return (await EditFile(self).call({"path": path, "old_text": old, "new_text": new})).content


@pytest.fixture
async def desk(image: str, home: Path) -> AsyncIterator[Desk]:
    installation = secrets.token_hex(6)
    engine: Engine = (
        DockerEngine(installation, SandboxLimits(), image=image, home=home)
        if image
        else BubblewrapEngine(home, installation, SandboxLimits(), selection=SELECTION)
    )
    async with cleaned_up(engine), sandbox_desk(engine, SandboxLimits(), home) as desk:
        yield Desk(desk.sandboxes, desk.workspace)
        clear(desk.workspace)


async def test_a_new_error_is_in_the_result_with_its_line(desk: Desk) -> None:
    for name, content, said in (
        ("a.py", "x = 1\ndef f(:\n    pass\n", "line 2: invalid syntax"),
        ("b.py", "return 1\n", "line 1: 'return' outside function"),
        ("a.json", '{\n "a": 1\n "b": 2}\n', "line 3: Expecting ',' delimiter"),
        ("a.toml", "a = 1\nb = \n", "line 2: Invalid value"),
        ("a.sh", "if true; then\necho x\n", "syntax error: unexpected end of file"),
        ("b.bash", "echo\nfi\n", "line 2: syntax error near unexpected token"),
        ("script", "#!/usr/bin/env python3\nx = (\n", "line 2: '(' was never closed"),
    ):
        lines = (await desk.write(name, content)).split("\n")
        assert len(lines) == 2, lines
        assert lines[1].startswith("New syntax error, line "), lines
        assert said in lines[1]
    for name, content in (
        ("ok.py", "x = 1\n"),
        ("ok.json", "[1]"),
        ("tsconfig.json", "{ // with comments\n}"),
        ("notes.txt", "def f(:\n"),
    ):
        assert "\n" not in await desk.write(name, content)


async def test_an_error_that_was_there_before_is_not_new(desk: Desk) -> None:
    await desk.write("a.py", "def f(:\n    pass\n")
    assert "error" not in await desk.edit("a.py", "def", "\n\ndef")
    assert "error" not in await desk.write("a.py", "x = 1\ndef g(:\n    pass\n")
    assert "was never closed" in await desk.edit("a.py", "x = 1\ndef g(:\n    pass", "x = (")
    assert "error" not in await desk.edit("a.py", "x = (", "x = 1")
    assert "New syntax error, line 1: " in await desk.edit("a.py", "x = 1", "x = = 1")


async def test_a_file_is_parsed_and_never_run(desk: Desk) -> None:
    await desk.write("a.py", "# coding: utf-8\nopen('/workspace/ran', 'w')\n")
    await desk.write("b.sh", "touch /workspace/ran\n$(touch /workspace/ran)\n")
    await desk.write("c.yaml", "!!python/object/apply:os.system ['touch /workspace/ran']\n")
    await desk.write("json.py", "open('/workspace/ran', 'w')\n")
    await desk.write("d.json", "{}")
    assert "ran" not in await desk.sh("ls")


async def test_content_that_breaks_a_parser_says_nothing(desk: Desk) -> None:
    for name, content in (
        ("a.json", "[" * 150_000),
        ("b.toml", "a = " + "[" * 150_000),
        ("c.py", "-" * 150_000 + "1"),
        ("d.py", "x" * 400_000 + " ="),
    ):
        assert "\n" not in await desk.write(name, content), name
    assert await desk.sh("echo works") == "works\n"


async def test_a_check_that_cannot_run_is_no_failure_of_the_write(desk: Desk) -> None:
    class Limited(Desk):
        async def run(self, command: Command) -> CommandResult:
            if "compile(" in str(command.argv):
                raise SandboxError("This task has used up its time in the sandbox.")
            return await super().run(command)

    limited = Limited(desk.sandboxes, desk.workspace)
    assert await limited.write("a.py", "x = (") == "created a.py: 1 lines, 5 bytes"
