"""`rumi config set`, as a person runs it."""

from pathlib import Path

import pytest

from tests.cli.program import Program


@pytest.fixture
def rumi(tmp_path: Path) -> Program:
    return Program(tmp_path / "home")


def test_keys_go_into_config_and_secrets_into_env(rumi: Program) -> None:
    said = rumi.run("config", "set", "language", "es", "GROQ_API_KEY", "-", text="gsk_0123456789\n").stdout
    assert said == f'language = "es"\nGROQ_API_KEY está puesta en {rumi.home / ".env"}.\n'
    assert (rumi.home / "config.toml").read_text() == 'language = "es"\n'
    assert (rumi.home / ".env").read_text() == "GROQ_API_KEY=gsk_0123456789\n"
    shown = rumi.run("config", "show").stdout
    assert 'language = "es"  # config.toml' in shown
    assert "GROQ_API_KEY = set  # .env" in shown


def test_a_variable_that_overrides_the_key_is_named(rumi: Program) -> None:
    rumi.env["RUMI_LOG__KEEP"] = "3"
    assert "RUMI_LOG__KEEP" in rumi.run("config", "set", "log.keep", "4").stderr


def test_wrong_usage_is_exit_2_and_stores_nothing(rumi: Program) -> None:
    assert "needs a VALUE" in rumi.run("config", "set", "language", code=2).stderr
    assert "Did you mean log.keep?" in rumi.run("config", "set", "log.kep", "4", code=2).stderr
    assert not (rumi.home / "config.toml").exists()
