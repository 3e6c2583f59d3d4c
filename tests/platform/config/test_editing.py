"""config.toml and .env are changed in place: comments, order and modes stay."""

from pathlib import Path

import pytest

from rumi.errors import ConfigError
from rumi.platform.config.cascade import load_settings
from rumi.platform.config.editing import set_keys, set_variables

CONFIG = """# mine
language = "en" # why

[model]
# big
default = "groq:x"
"""

ENV = """# keys
export GROQ_API_KEY=old # c
TAVILY_API_KEY="t#x"  # d

KAGI_API_KEY=1"""


def test_keys_are_set_and_comments_stay(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    path.chmod(0o640)
    found = set_keys(
        path, {"model.timeout_s": "30", "sandbox.cpus": "1.5", "telegram.allowed_users": "[1, 2]"}
    )
    assert found == {"model.timeout_s": 30.0, "sandbox.cpus": 1.5, "telegram.allowed_users": (1, 2)}
    assert path.read_text() == (
        f"{CONFIG}timeout_s = 30\n\n[sandbox]\ncpus = 1.5\n\n[telegram]\nallowed_users = [1, 2]\n"
    )
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_server_of_ones_own_is_set_in_one_step_and_in_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    server = {"model.custom.Box.base_url": "http://127.0.0.1:1/v1", "model.custom.Box.model": "m"}
    with pytest.raises(ConfigError, match="is missing"):
        set_keys(path, dict(list(server.items())[:1]))
    assert not path.exists()
    set_keys(path, {**server, "model.default": "custom:Box"})
    assert load_settings(tmp_path, {}, {}).settings.model.custom["Box"].model == "m"
    set_keys(path, {"model.custom.box.model": "other"})
    assert path.read_text().count("[model.custom.Box]\n") == 1
    assert load_settings(tmp_path, {}, {}).settings.model.custom["Box"].model == "other"
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_empty_value_takes_an_optional_key_away(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    set_keys(path, {"model.temperature": "0.5"})
    assert set_keys(path, {"model.temperature": ""}) == {"model.temperature": None}
    assert "temperature" not in path.read_text()


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("model.nope", "1", "Unknown key"),
        ("model.timeout_s", "x", "a number"),
        ("telegram.allowed_users", "Ana", "tells you your number"),
        ("model.default", "custom:none", "needs a section"),
        ("model", "x", "is a section"),
        ("GROQ_API_KEY", "gsk_secret", "environment"),
    ],
)
def test_what_is_not_allowed_changes_nothing(tmp_path: Path, key: str, value: str, says: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    with pytest.raises(ConfigError, match=says) as caught:
        set_keys(path, {key: value})
    assert "gsk_secret" not in str(caught.value)
    assert path.read_text() == CONFIG


def test_a_config_with_an_error_elsewhere_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[log]\nkeep = -1\n")
    with pytest.raises(ConfigError, match=r"log\.keep"):
        set_keys(path, {"language": "es"})
    set_keys(path, {"log.keep": "2"})
    assert path.read_text() == "[log]\nkeep = 2\n"


def test_variables_are_set_and_comments_stay(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text(ENV)
    values = {
        "GROQ_API_KEY": "gsk_1",
        "TAVILY_API_KEY": "a'b #\\c",
        "KAGI_API_KEY": "2",
        "TELEGRAM_TOKEN": "1:x",
    }
    assert set_variables(path, values)
    assert path.read_text() == (
        "# keys\nexport GROQ_API_KEY=gsk_1 # c\n"
        "TAVILY_API_KEY='a\\'b #\\\\c'  # d\n\nKAGI_API_KEY=2\nTELEGRAM_TOKEN=1:x\n"
    )
    secrets = load_settings(tmp_path, {}, {}).secrets
    assert secrets.tavily_api_key is not None
    assert secrets.tavily_api_key.reveal() == "a'b #\\c"
    assert not set_variables(path, values)


def test_a_new_env_file_is_its_owners_alone(tmp_path: Path) -> None:
    set_variables(tmp_path / ".env", {"GROQ_API_KEY": "gsk_1"})
    assert (tmp_path / ".env").stat().st_mode & 0o777 == 0o600


def test_an_env_file_that_is_not_understood_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("gsk_secret and more\n")
    with pytest.raises(ConfigError, match="line 1") as caught:
        set_variables(path, {"GROQ_API_KEY": "gsk_1"})
    assert "gsk_secret" not in str(caught.value)
    assert path.read_text() == "gsk_secret and more\n"
