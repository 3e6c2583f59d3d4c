"""The control calls about servers of tools: what a test shows, and what an acceptance accepts."""

from pathlib import Path
from typing import Any

import pytest

from rumi.errors import UsageError
from rumi.platform.caller import TERMINAL, Caller, NotAllowed
from rumi.platform.calls import served
from tests.agent.mcp.world import fake, house


@pytest.mark.long
@pytest.mark.bubblewrap
async def test_changed_tools_are_shown_by_a_test_and_taken_by_an_acceptance(tmp_path: Path) -> None:
    settings = fake("changes")
    async with house(tmp_path, settings) as home:
        call = served(home.servers)["mcp"]

        async def made(do: str, caller: Caller = TERMINAL, **fields: str) -> Any:
            return await call(caller, {"call": "mcp", "do": do, "name": "fake", **fields})

        assert [server["name"] for server in await made("list")] == ["fake"]
        first = await made("test")
        assert all(tool["accepted"] for tool in first["tools"])
        shown = await made("test")
        [changed] = [tool for tool in shown["tools"] if not tool["accepted"]]
        assert changed["changes"][0]["path"] == "description"
        with pytest.raises(NotAllowed):
            await made("accept", Caller("telegram", "tg7", "all"))
        with pytest.raises(UsageError, match="describes its tools differently now"):
            await made("accept", digest=first["digest"])  # what was read is not what would be accepted
        assert [tool["accepted"] for tool in (await made("test"))["tools"]].count(False) == 1
        accepted = await made("accept", digest=shown["digest"])
        assert all(tool["accepted"] for tool in accepted["tools"])
        with pytest.raises(UsageError, match="Unknown server nothing"):
            await call(TERMINAL, {"do": "test", "name": "nothing"})
