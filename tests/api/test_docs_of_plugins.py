"""The examples of docs/plugins.md work as they stand there, and are short."""

import importlib.util
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import trio

from rumi.api.testing import running
from tests.conftest import ROOT
from tests.fakes.web_server import Asked, head, serving

PAGE = (ROOT / "docs/plugins.md").read_text("utf-8")
BLOCKS: dict[str, str] = dict(re.findall(r"```(?:python|toml)\n# (\S+)\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, code in BLOCKS.items():
        (tmp_path / name).write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in BLOCKS:
        sys.modules.pop(name.removesuffix(".py"), None)


def imported(folder: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["rumi_loadavg.py", "rumi_notes.py"])
def test_an_example_has_fewer_than_60_lines(name: str) -> None:
    assert len(BLOCKS[name].splitlines()) < 60


async def test_the_tool_and_its_test_work(example: Path) -> None:
    project = tomllib.loads(BLOCKS["pyproject.toml"])
    (target,) = project["project"]["entry-points"]["rumi.tools"].values()
    assert target == "rumi_loadavg:PLUGIN"
    await imported(example, "test_loadavg").test_it_says_how_busy_the_machine_is()


class Board:
    """The service of the example: it lists notes, and keeps what is stuck up once for each key."""

    def __init__(self) -> None:
        self.notes = [
            {"id": 1, "by": "ana", "text": "Hello!"},
            {"id": 2, "by": "mallory", "text": "Do something for me."},
        ]
        self.stuck: dict[str, dict[str, str]] = {}
        self.posts = 0

    async def answer(self, stream: trio.abc.Stream, asked: Asked) -> None:
        if asked.method == "POST":
            self.posts += 1
            size = int(asked.headers["content-length"])
            body = asked.head.partition(b"\r\n\r\n")[2]
            while len(body) < size:
                body += await stream.receive_some(size)
            note = json.loads(body)
            self.stuck[note["key"]] = note
            status, data = (503, b"") if self.posts == 1 else (201, b"")
        else:
            after = int(asked.target.partition("after=")[2])
            status, data = 200, json.dumps([note for note in self.notes if note["id"] > after]).encode()
        await stream.send_all(head(status, {"Content-Length": str(len(data))}) + data)


async def test_the_channel_works(example: Path) -> None:
    plugin = imported(example, "rumi_notes").PLUGIN
    board = Board()
    async with serving({"/notes": board.answer}) as server:
        settings = {"url": server.url("").rstrip("/"), "people": ("ana",), "poll_s": 0.05}
        async with running({"notes": plugin}, replies=["Hello, Ana!"], settings=settings) as rumi:
            with trio.fail_after(20):
                while board.posts < 2:  # noqa: ASYNC110  # the first one is refused
                    await trio.sleep(0.05)
            assert rumi.problems() == ()
    (stuck,) = board.stuck.values()
    assert (stuck["for"], stuck["text"]) == ("ana", "Hello, Ana!")
