"""Commands that ask a process which ends just then."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import trio

from actors import ChildSpec, Supervisor
from rumi.channels.attach.connection import WentAway
from rumi.channels.control.server import ControlServer
from rumi.cli.asking import when_free
from rumi.platform.caller import Caller
from rumi.platform.home import Home, socket_path


async def here(home: Home, request: Mapping[str, object]) -> object:
    await trio.lowlevel.checkpoint()
    return "done here"


@pytest.mark.parametrize(("do", "again"), [("list", True), ("create", False)])
async def test_what_changes_nothing_is_asked_again_when_the_process_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, do: str, again: bool
) -> None:
    monkeypatch.setenv("RUMI_HOME", str(tmp_path / "home"))
    home = Home(tmp_path / "home").make()
    asked = trio.Event()

    async def hangs(caller: Caller, fields: Mapping[str, object]) -> object:
        asked.set()
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        with home.lock("a test"), trio.CancelScope() as life:
            path = socket_path(home.run, home.installation())
            root = Supervisor("root")
            root.add(ChildSpec("control", lambda: ControlServer(path, {"bots": hangs})))
            results: list[object] = []

            async def ask() -> None:
                try:
                    results.append(await when_free(home, "bots", here, {"do": do}))
                except WentAway as error:
                    results.append(error)

            async with root.running():
                nursery.start_soon(ask)
                await asked.wait()
                life.cancel()
    (result,) = results
    assert result == "done here" if again else isinstance(result, WentAway)
