"""How often what may crash before the program ends: the docs say it, and the product stays small."""

import re
from pathlib import Path

import pytest

from actors import DynamicSupervisor, Supervisor
from actors.testing import crashes_until_the_end
from rumi.app.app import open_app
from rumi.channels.page import PageChannel, open_entrance
from rumi.platform.config.cascade import load_settings
from rumi.platform.home import Home
from tests.fakes.containers import FakeEngine

DOCS = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
MOST_CRASHES = 5
"""Of one actor, until the program ends and is started again as a whole."""


@pytest.fixture
async def root(tmp_path: Path) -> Supervisor:
    """The root of the tree that a terminal with a page has."""
    home = Home(tmp_path / "home").make()
    loaded = load_settings(home.root, {}, {"model.default": "offline"})
    with open_entrance("127.0.0.1:0", "en", lambda words: None, home.run / "page-sessions.json") as entrance:
        async with open_app(home, loaded, FakeEngine(), channels=(PageChannel(entrance),)) as app:
            return app.status.tree.__self__  # type: ignore[attr-defined]


async def test_the_product_of_the_restart_limits_is_small(root: Supervisor) -> None:
    crashes = crashes_until_the_end(root)
    assert crashes.pop("rumi/page/server") is None
    assert len(crashes) >= 10
    assert [path for path, most in crashes.items() if most is None or most > MOST_CRASHES] == []


async def test_the_docs_say_how_often_what_may_crash(root: Supervisor) -> None:
    said = DOCS.partition("Restart limits multiply")[2].partition("\n\n")[0]
    (page,) = (child for child in root.children() if isinstance(child, Supervisor))
    keyed = {child.max_restarts for child in root.children() if isinstance(child, DynamicSupervisor)}
    assert {
        supervisor.within for supervisor in root.children() if isinstance(supervisor, DynamicSupervisor)
    } == {root.within}
    assert re.findall(r"\d+", said) == [
        str(root.max_restarts + 1),
        f"{root.within:g}",
        str((root.max_restarts + 1) * (page.max_restarts + 1)),
        *[str(most + 1) for most in keyed],
        f"{root.within:g}",
    ]
