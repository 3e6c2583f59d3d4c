"""The check of the browser: whether it starts, and what is missing."""

from pathlib import Path

import pytest

from rumi.cli.doctor.settings import browser
from rumi.platform.config.cascade import load_settings

PASSWORD = '[browser.passwords.shop]\nhost = "shop.example"\nvalue = "$NO_SUCH_VARIABLE"\n'


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.bubblewrap
async def test_a_browser_that_starts_is_named(tmp_path: Path) -> None:
    (check,) = await browser(load_settings(tmp_path, {}, {}))
    assert check.verdict == "ok"
    assert check.found.startswith("Chrome/")


async def test_what_is_missing_is_a_failure_with_what_to_do(tmp_path: Path) -> None:
    (check,) = await browser(load_settings(tmp_path, {}, {"browser.program": "no-such-browser"}))
    assert (check.verdict, check.fix) == ("failure", "Correct browser.program.")
    (tmp_path / "config.toml").write_text(PASSWORD)
    (check,) = await browser(load_settings(tmp_path, {}, {}))
    assert check.found == "browser.passwords.shop.value refers to $NO_SUCH_VARIABLE, which is not set."
