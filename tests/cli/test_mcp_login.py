"""`rumi mcp login` and `rumi mcp logout`, with a running Rumi, a browser and a terminal."""

from collections.abc import Iterator

import pytest

from tests.agent.mcp.oauth_world import Tools, tools_with_login
from tests.cli.conftest import *  # noqa: F403


@pytest.fixture
def tools() -> Iterator[Tools]:
    with tools_with_login() as found:
        yield found
