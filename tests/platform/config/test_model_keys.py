"""Keys of model servers that are given as variables and commands, and other names of models."""

import os
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from rumi.app.settings import require_model
from rumi.errors import ConfigError
from rumi.models.settings import model_settings_of
from rumi.platform.config import commands as running
from rumi.platform.config.cascade import Loaded, load_settings
from rumi.platform.config.commands import read_keys
from rumi.platform.config.editing import set_keys
from rumi.platform.config.secrets import Secret
from rumi.platform.redact import Redactor
from tests.conftest import ROOT

KEY = "sk_abcdefghijklmnopqrstuvwxyz0123"
"""A key that looks like the name of a variable."""


def load(home: Path, toml: str, environment: dict[str, str] | None = None) -> Loaded:
    (home / "config.toml").write_text(toml)
    return load_settings(home, environment or {}, {})


@pytest.mark.parametrize("given", ["$MY_KEY", "${MY_KEY}", "MY_KEY"])
def test_a_key_is_a_variable_of_the_environment_or_of_env(tmp_path: Path, given: str) -> None:
    toml = f'[model.keys]\nopenai = "{given}"\n'
    environment = {"MY_KEY": "sesame", "OPENAI_API_KEY": "another"}
    assert load(tmp_path, toml, environment).key("openai") == Secret("sesame")
    (tmp_path / ".env").write_text("MY_KEY=from-file\n")
    assert load(tmp_path, toml).key("openai") == Secret("from-file")


def test_without_more_a_providers_own_variables_are_used(tmp_path: Path) -> None:
    environment = {
        "ANTHROPIC_API_KEY": "sesame-1",
        "XAI_BASE_URL": "http://h/v1",
        "OLLAMA_API_KEY": "sesame-2",
    }
    loaded = load(tmp_path, "", environment)
    assert loaded.key("anthropic") == Secret("sesame-1")
    assert loaded.key("openai") is None
    assert dict(loaded.secrets.base_urls) == {"xai": "http://h/v1"}
    assert sorted(loaded.secrets.values()) == ["sesame-1", "sesame-2"]
    assert {"ANTHROPIC_API_KEY", "XAI_BASE_URL"} <= loaded.marks().keys()
    assert "sesame" not in f"{loaded!r} {loaded.rows()} {loaded.marks()}"


@pytest.mark.parametrize(
    "place", ["[model.keys]\nopenai", '[model.custom.x]\nbase_url = "http://h"\nmodel = "m"\napi_key']
)
def test_a_word_that_is_no_set_variable_is_refused_and_not_shown(tmp_path: Path, place: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, f'{place} = "{KEY}"\n')
    assert "is not the name of a set variable. A key is given as" in str(caught.value)
    assert KEY not in str(caught.value)


def test_a_key_is_never_written_into_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    for key in ("model.keys.openai", "model.keys.groq"):
        with pytest.raises(ConfigError) as caught:
            set_keys(path, {key: KEY})
        assert KEY not in str(caught.value)
        with pytest.raises(ConfigError) as caught:
            set_keys(path, {key: "sk-abc-def"})
        assert "sk-abc-def" not in str(caught.value)
    assert not path.exists()
    set_keys(path, {"model.keys.openai": "!pass show openai"})
    assert path.read_text() == '[model.keys]\nopenai = "!pass show openai"\n'
    set_keys(path, {"model.keys.openai": "", "model.aliases.fast": "groq:a"})
    assert "openai" not in path.read_text()
    assert load_settings(tmp_path, {}, {}).settings.model.aliases == {"fast": "groq:a"}


def test_a_reference_to_nothing_is_told_where_the_model_is_used(tmp_path: Path) -> None:
    loaded = load(tmp_path, '[model]\ndefault = "openai:m"\n[model.keys]\nopenai = "$MY_KEY"\n')
    with pytest.raises(ConfigError, match=r"model\.keys\.openai refers to \$MY_KEY, which is not set"):
        model_settings_of(loaded, "en")
    assert model_settings_of(loaded, "en", lenient=True).secrets.faults.keys() == {"openai"}


# Commands


async def test_a_command_prints_a_key_once_and_it_is_hidden_everywhere(tmp_path: Path) -> None:
    count = tmp_path / "count"
    for number in (1, 2):
        (tmp_path / f"{number}").write_text(f"pass-word-{number}\n")
    command = f"!echo x >> {count}; cat {tmp_path}/1; cat {tmp_path}/2 >&2"
    toml = f'[model]\ndefault = "openai:m"\n[model.keys]\nopenai = "{command}"\ngroq = "!cat {tmp_path}/2"\n'
    loaded = load(tmp_path, toml, {"OPENAI_API_KEY": "not-this-one"})
    assert not count.exists(), "reading the configuration runs nothing"
    assert set(loaded.secrets.unread) == {"openai", "groq"}
    require_model(loaded)
    before = loaded.marks()
    read = await read_keys(loaded)
    read = await read_keys(read)
    assert count.read_text() == "x\n"
    assert read.key("openai") == Secret("pass-word-1")
    assert read.secrets.groq_api_key == Secret("pass-word-2")
    assert not read.secrets.unread
    settings = model_settings_of(read, "en")
    assert (settings.key_of("openai"), settings.key_of("groq")) == ("pass-word-1", "pass-word-2")
    assert read.marks() == before, "a window, which runs no command, has the same settings"
    assert "pass-word" not in f"{read!r} {read.rows()} {settings!r}"
    assert Redactor(read.secrets.values()).text("it is pass-word-1!") == "it is [hidden]!"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("exit 3", "ended with exit code 3."),
        ("true", "printed nothing."),
        ("no-such-program-here", "ended with exit code 127."),
        ("yes secretsecret", "printed more than 16384 bytes."),
    ],
)
async def test_a_command_that_gives_no_key_is_a_fault_of_its_models_alone(
    tmp_path: Path, command: str, says: str
) -> None:
    loaded = await read_keys(
        load(tmp_path, f'[model.keys]\nopenai = "!{command}"\n', {"GROQ_API_KEY": "gsk"})
    )
    with pytest.raises(ConfigError) as caught:
        loaded.key("openai")
    assert caught.value.message == f"The command of model.keys.openai {says}"
    assert command not in str(caught.value)
    assert model_settings_of(loaded, "en").key_of("groq") == "gsk"


async def test_a_command_that_hangs_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "COMMAND_S", 0.3)
    pid = tmp_path / "pid"
    loaded = load(tmp_path, f'[model.keys]\nopenai = "!sleep 600 & echo $! > {pid}; wait"\n')
    with trio.fail_after(20):
        loaded = await read_keys(loaded)
    assert "took longer than 0.3 s" in loaded.secrets.faults["openai"].message
    for _ in range(100):
        try:
            os.kill(int(pid.read_text()), 0)
        except ProcessLookupError:
            return
        await trio.sleep(0.05)
    pytest.fail("its child goes on")


async def test_a_cancelled_command_leaves_no_process(tmp_path: Path) -> None:
    loaded = load(tmp_path, '[model.keys]\nopenai = "!sleep 601"\n')
    with trio.move_on_after(0.2):
        await read_keys(loaded)
    for _ in range(100):
        if not _runs(b"sleep\x00601"):
            return
        await trio.sleep(0.05)
    pytest.fail("the command goes on")


def _runs(command: bytes) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if command in path.read_bytes():
                return True
    return False


# Names of models


def test_an_alias_may_stand_wherever_a_model_is_named(tmp_path: Path) -> None:
    toml = (
        '[model]\ndefault = "fast"\nfallbacks = ["big"]\n'
        'aliases = {fast = "groq:a", big = "anthropic:b"}\n[research]\nmodel = "big"\n'
    )
    loaded = load(tmp_path, toml, {"GROQ_API_KEY": "gsk", "RUMI_MODEL__ALIASES__SMALL": "ollama:c"})
    settings = model_settings_of(loaded, "en")
    assert (settings.default, settings.fallbacks) == ("groq:a", ("anthropic:b",))
    assert settings.true_name("small") == "ollama:c"
    assert load_settings(tmp_path, {}, {"model.default": "big"}).settings.model.default == "big"


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ('[model]\ndefault = "fats"\naliases = {fast = "groq:a"}', 'model.default = "fats" (config.toml)'),
        ('[model]\nfallbacks = ["x:y"]', "Allowed: groq:NAME, openai:NAME, anthropic:NAME"),
        ('[model.aliases]\nfast = "slow"\nslow = "groq:a"', 'model.aliases.fast = "slow"'),
        ('[model.aliases]\n"a b" = "groq:a"', "a name of at most 64 letters"),
        ('[model.aliases]\noffline = "groq:a"', "other than offline"),
        ('[model.aliases]\nfast = "custom:none"', "It needs a section [model.custom.none]"),
        ('[model.keys]\nbard = "$X"', "groq, openai, anthropic"),
        ("[prices.fast]\ninput = 1.0\noutput = 1.0", "Allowed: groq:NAME"),
    ],
)
def test_a_name_that_is_no_model_is_refused_with_what_is_allowed(
    tmp_path: Path, toml: str, says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, toml)
    assert says in str(caught.value)


def test_every_provider_and_key_is_in_the_document_about_models() -> None:
    from rumi.platform.config.providers import PROVIDERS

    text = (ROOT / "docs" / "models.md").read_text()
    for scheme, row in PROVIDERS.items():
        assert f"`{scheme}:NAME`" in text
        assert f"`{row.key_variable}`" in text
