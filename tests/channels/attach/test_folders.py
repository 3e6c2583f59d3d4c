"""Folders that windows hand over when they attach: whose are taken, and what a window is told."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes

import pytest

from rumi.channels.attach.client import OpenRequest, attach
from rumi.errors import RumiError
from rumi.platform.caller import PROGRAM, TERMINAL, Caller
from tests.channels.attach.daemon import DAEMON, running_daemon
from tests.fakes.folders import ToldFolders

ODD = "/srv/tg \udcff\n x"


def encoded(folder: str) -> str:
    return quote_from_bytes(folder.encode(errors="surrogateescape"))


async def test_a_terminal_hands_over_any_folder_and_is_told_where_it_works(tmp_path: Path) -> None:
    folders = ToldFolders()
    async with running_daemon(tmp_path, folders=folders) as daemon:
        for _ in range(2):  # a window attaches again to the next process
            async with daemon.attached("work", folder=encoded(ODD)) as window:
                assert (window.remote.linked, window.remote.files) == (True, r"/srv/tg \udcff\n x")
        async with daemon.attached("work") as window:
            assert window.remote.linked
        async with daemon.attached("other") as window:
            assert not window.remote.linked
            assert window.remote.files.endswith("/workspace/other")
    assert {chat: str(folder) for chat, folder in folders.links.items()} == {"work": ODD}


@pytest.mark.parametrize(
    ("caller", "more"),
    [
        (PROGRAM, {}),
        (Caller("page", "local", "all"), {}),
        (Caller("telegram", "local", "all"), {}),
        (replace(TERMINAL, rights="own"), {}),
        (TERMINAL, {"tainted": True}),
        (TERMINAL, {"folder": "srv/garden"}),
        (TERMINAL, {"folder": "/srv/%00garden"}),
        (TERMINAL, {"chat": "tg7"}),
    ],
)
async def test_nobody_else_chooses_a_folder(tmp_path: Path, caller: Caller, more: dict[str, Any]) -> None:
    folders = ToldFolders()
    fields: dict[str, Any] = {"chat": "work", "person": True, "folder": "/srv/garden", **more}
    async with running_daemon(tmp_path, folders=folders) as daemon:
        with pytest.raises(RumiError):
            async with attach(daemon.path, caller, OpenRequest(**fields), DAEMON):
                pass
    assert folders.links == {}
