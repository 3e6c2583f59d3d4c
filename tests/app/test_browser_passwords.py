"""Whose browser may type which password."""

from pathlib import Path

import pytest

from actors import Supervisor
from rumi.app.parts.browser import browser_settings_of
from rumi.errors import ConfigError
from rumi.platform.config.cascade import load_settings
from rumi.web.browser.browsers import Browsers
from tests.app.test_calendars_part import part

PEOPLE = "[people.ann]\ntelegram = [11]\n[people.bob]\ntelegram = [22]\n"
CONFIG = f"""{PEOPLE}
[browser.passwords.shop]
host = "shop.example"
value = "$PASSWORD"
[browser.passwords.club]
host = "club.example"
value = "$PASSWORD"
people = ["ann", "local"]
"""


@pytest.mark.parametrize(
    ("owner", "names"),
    [("local", {"shop", "club"}), ("tg11", {"club"}), ("tg22", set()), ("tg-100", set()), ("tg33", set())],
)
def test_a_password_is_typed_for_its_people_only(tmp_path: Path, owner: str, names: set[str]) -> None:
    services = part(tmp_path, CONFIG)
    settings = browser_settings_of(services.inputs.loaded)
    browsers = Browsers(Supervisor("root"), tmp_path, settings, services.belongs_to)
    assert set(browsers.settings_of(owner).passwords) == names


def test_a_password_names_people_that_exist(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG.replace('"ann"', '"eve"'))
    with pytest.raises(ConfigError, match="eve"):
        load_settings(tmp_path, {"PASSWORD": "hunter22"}, {})
