"""The page of the real program: beside the bot, and gone with it."""

import contextlib
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from wsproto.utilities import ProtocolError

from docs.making.page import CONFIG, Installation
from tests.channels.page.windows import Window

pytestmark = pytest.mark.bubblewrap


@pytest.mark.long
def test_the_program_ends_with_a_window_open_and_says_when_its_port_is_taken(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(CONFIG)
    house = Installation(home)
    with house.telegram(), contextlib.ExitStack() as stack:
        with house.running() as link:
            url = link.partition("/login?code=")[0]
            client = stack.enter_context(httpx.Client(base_url=url, headers={"Origin": url}))
            assert client.get(link).status_code == 303
            window = stack.enter_context(Window(client))
            window.until("begin")
            began = time.monotonic()
        assert time.monotonic() - began < 30
        with contextlib.suppress(OSError, ProtocolError):
            assert {"type": "over"} not in list(window)  # it is cut, not finished: a browser comes back
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [sys.executable, "-m", "rumi", "telegram", "--web", where]
        ended = subprocess.run(command, env=house.env, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert f"Something else listens at {where} already." in ended.stderr
    assert "Traceback" not in ended.stderr
