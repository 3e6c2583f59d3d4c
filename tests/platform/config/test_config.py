"""The cascade of the configuration, its errors, and the keys and tokens."""

import os
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rumi.errors import ConfigError
from rumi.platform.config.cascade import Loaded, load_settings
from rumi.platform.config.files import home_from
from rumi.platform.config.people import listed
from rumi.platform.config.schema import memory_bytes
from rumi.platform.config.secrets import Secret

LOCAL = '[model.custom.local]\nbase_url = "http://127.0.0.1:8080/v1"\nmodel = "llama3.2:3b"\n'


def load(home: Path, toml: str = "", environment: Mapping[str, str] | None = None, **flags: object) -> Loaded:
    (home / "config.toml").write_text(toml, "utf-8")
    return load_settings(home, environment or {}, {key.replace("__", "."): v for key, v in flags.items()})


def error(home: Path, toml: str = "", environment: Mapping[str, str] | None = None, **flags: object) -> str:
    with pytest.raises(ConfigError) as caught:
        load(home, toml, environment, **flags)
    assert caught.value.exit_code == 2
    return str(caught.value)


def rows(loaded: Loaded) -> dict[str, tuple[str, str]]:
    return {row.key: (row.value, row.origin) for row in loaded.rows()}


# What is documented for people, as they would write it into the file.
DEFAULTS = {
    "language": '"auto"',
    "model.default": '"groq:openai/gpt-oss-120b"',
    "model.fallbacks": '["groq:openai/gpt-oss-20b"]',
    "model.timeout_s": "60",
    "model.first_token_timeout_s": "",
    "model.temperature": "",
    "model.max_output_tokens": "",
    "model.reasoning_effort": "",
    "model.context_tokens": "",
    "model.max_concurrent": "",
    "agent.max_turns": "30",
    "agent.max_turns_telegram": "30",
    "agent.max_turns_terminal": "100",
    "agent.max_turns_page": "100",
    "agent.repeated_call": "2",
    "agent.consecutive_errors": "3",
    "agent.turn_timeout_s": "1800",
    "agent.turn_timeout_s_telegram": "1800",
    "agent.turn_timeout_s_terminal": "3600",
    "agent.turn_timeout_s_page": "3600",
    "agent.confirm_timeout_s": "600",
    "agent.check_before_end": "true",
    "limits.continue": "0",
    "sandbox.backend": '"auto"',
    "sandbox.image": '"rumi-runner:latest"',
    "sandbox.tools": '"work"',
    "sandbox.extra_programs": "[]",
    "sandbox.python_packages": '["pytest", "numpy", "pandas", "matplotlib", "requests", "openpyxl"]',
    "sandbox.policy": '"strict"',
    "sandbox.memory": '"512m"',
    "sandbox.cpus": "1",
    "sandbox.pids": "128",
    "sandbox.tmp_mb": "64",
    "sandbox.timeout_s": "30",
    "sandbox.max_timeout_s": "600",
    "sandbox.background_commands": "4",
    "sandbox.output_limit": "50000",
    "sandbox.workspace_mb": "512",
    "sandbox.workspace_files": "50000",
    "sandbox.reserve_mb": "",
    "sandbox.idle_ttl_s": "3600",
    "session.ttl_s": "3600",
    "session.history_messages": "",
    "session.handed_chars": "50000",
    "session.file_mb": "50",
    "session.picture_px": "1568",
    "session.picture_kb": "600",
    "session.pictures": "5",
    "session.keep_days": "0",
    "session.linger_s": "10",
    "chat.when_busy": '"queue"',
    "chat.titles": '"words"',
    "chat.max_queued": "20",
    "chat.together_s": "0.5",
    "fetch.reader": '"own"',
    "fetch.timeout_s": "10",
    "fetch.max_bytes": "1000000",
    "fetch.max_redirects": "5",
    "fetch.allow": "[]",
    "search.provider": '"auto"',
    "voice.server": "",
    "voice.model": "",
    "voice.api_key": "",
    "voice.language": "",
    "voice.timeout_s": "120",
    "voice.speech_server": "",
    "voice.speech_api": '"openai"',
    "voice.speech_model": '"tts-1"',
    "voice.speech_api_key": "",
    "voice.voice": "",
    "voice.speech_timeout_s": "120",
    "voice.speech_chars": "1500",
    "voice.answer": '"to_voice"',
    "images.server": "",
    "images.model": "",
    "images.api_key": "",
    "images.size": "",
    "images.timeout_s": "300",
    "browser.enabled": "false",
    "browser.program": '""',
    "browser.idle_s": "300",
    "browser.timeout_s": "30",
    "browser.max_mb": "1024",
    "browser.max_pages": "5",
    "tasks.max_running": "10",
    "tasks.per_owner": "5",
    "tasks.max_turns": "100",
    "tasks.timeout_s": "3600",
    "tasks.max_tokens": "2000000",
    "tasks.max_usd": "",
    "tasks.sandbox_s": "1800",
    "tasks.keep_days": "30",
    "research.model": "",
    **{
        f"budget.{scope}_{unit}_per_{period}": ""
        for scope in ("total", "owner", "chat", "task", "bot", "person")
        for unit in ("usd", "tokens")
        for period in ("day", "month")
    },
    "budget.reply_tokens": "4096",
    "bots.allowed": "[]",
    "bots.max_turns": "60",
    "bots.max_calls_per_day": "500",
    "bots.question_days": "7",
    "schedules.max_per_owner": "100",
    "schedules.quiet": '""',
    "memory.extract": "true",
    "memory.max_facts": "50",
    "undo.turns": "5",
    "undo.max_mb": "256",
    "undo.max_files": "20000",
    "store.workspaces": "",
    "store.url": '""',
    "store.lease_s": "15",
    "store.drain_s": "60",
    "store.address": '""',
    "serve.drain_s": "5",
    "record.turns": "20",
    "record.max_mb": "16",
    "record.chat_mb": "32",
    "record.total_mb": "256",
    "terminal.workspace": '"ask"',
    "terminal.apply": '"ask"',
    "terminal.keys": '"emacs"',
    "terminal.theme": '"auto"',
    "terminal.notify": '"auto"',
    "terminal.notify_s": "10",
    "serve.web": "",
    "page.url": "",
    "skills.dirs": "[]",
    "skills.disabled": "[]",
    "skills.max_in_prompt": "20",
    "telegram.allowed_users": "[]",
    "telegram.listen": "",
    "telegram.webhook": "",
    "telegram.admins": "[]",
    "log.max_mb": "10",
    "log.keep": "5",
}


def test_without_a_file_everything_is_the_default(tmp_path: Path) -> None:
    shown = rows(load_settings(tmp_path, {}, {}))
    assert {key: value for key, (value, origin) in shown.items() if origin == "default"} == DEFAULTS
    assert {value for key, (value, _) in shown.items() if key not in DEFAULTS} == {"not set"}


def test_the_defaults_written_into_the_file_are_allowed_there(tmp_path: Path) -> None:
    lines: list[str] = []
    for key, value in DEFAULTS.items():
        section, _, name = key.rpartition(".")
        if value and section and f"[{section}]" not in lines:
            lines.append(f"[{section}]")
        if value:
            lines.append(f"{name} = {value}")
    shown = rows(load(tmp_path, "\n".join(lines)))
    assert all(shown[key] == (value, "config.toml") for key, value in DEFAULTS.items() if value)


@pytest.mark.parametrize("key", [key for key, value in DEFAULTS.items() if value])
def test_every_default_can_be_given_in_the_environment(tmp_path: Path, key: str) -> None:
    value = DEFAULTS[key]
    name = "RUMI_" + key.upper().replace(".", "__")
    plain = value.strip('"') if value.startswith('"') else value
    assert rows(load(tmp_path, "", {name: plain}))[key] == (value, name)


def test_a_general_limit_holds_for_channels_whose_own_is_not_set(tmp_path: Path) -> None:
    toml = "[agent]\nmax_turns = 4\nmax_turns_page = 50\n"
    loaded = load(tmp_path, toml, {"RUMI_AGENT__TURN_TIMEOUT_S": "90"})
    shown = rows(loaded)
    assert shown["agent.max_turns"] == shown["agent.max_turns_telegram"] == ("4", "config.toml")
    assert shown["agent.max_turns_terminal"] == ("4", "config.toml")
    assert shown["agent.max_turns_page"] == ("50", "config.toml")
    for key in (
        "turn_timeout_s",
        "turn_timeout_s_telegram",
        "turn_timeout_s_terminal",
        "turn_timeout_s_page",
    ):
        assert shown[f"agent.{key}"] == ("90", "RUMI_AGENT__TURN_TIMEOUT_S")
    agent = loaded.settings.agent
    found = {name: agent.max_turns_of(name) for name in ("", "other", "telegram", "terminal", "page")}
    assert found == {"": 4, "other": 4, "telegram": 4, "terminal": 4, "page": 50}
    assert agent.timeout_s_of("other") == 90


def test_each_channel_has_the_limits_that_fit_its_work(tmp_path: Path) -> None:
    agent, channels = load(tmp_path).settings.agent, ("telegram", "terminal", "page", "other")
    found = {name: (agent.max_turns_of(name), agent.timeout_s_of(name)) for name in channels}
    long = (100, 3600)
    assert found == {"telegram": (30, 1800), "terminal": long, "page": long, "other": (30, 1800)}


def test_later_sources_win_and_are_told(tmp_path: Path) -> None:
    toml = 'language = "es"\n[agent]\nmax_turns = 4\nrepeated_call = 5\n[sandbox]\npids = 20\n'
    environment = {"RUMI_AGENT__MAX_TURNS": "7", "RUMI_SANDBOX__PIDS": "30", "RUMI_HOME": "/x", "RUMIX": "y"}
    loaded = load(tmp_path, toml, environment, sandbox__pids=40, agent__consecutive_errors=None)
    shown = rows(loaded)
    assert shown["language"] == ('"es"', "config.toml")
    assert shown["agent.repeated_call"] == ("5", "config.toml")
    assert shown["agent.max_turns"] == ("7", "RUMI_AGENT__MAX_TURNS")
    assert shown["sandbox.pids"] == ("40", "flag")
    assert shown["agent.consecutive_errors"] == ("3", "default")
    assert (loaded.settings.agent.max_turns, loaded.settings.sandbox.pids) == (7, 40)


def test_lists_in_the_environment_are_json_and_replace_the_list_before(tmp_path: Path) -> None:
    environment = {"RUMI_TELEGRAM__ALLOWED_USERS": "[5, 6]", "RUMI_MODEL__FALLBACKS": "[]"}
    loaded = load(tmp_path, "[telegram]\nallowed_users = [1]\nadmins = [2]\n", environment)
    assert loaded.settings.telegram.allowed_users == (5, 6)
    assert loaded.settings.telegram.admins == (2,)
    assert loaded.settings.model.fallbacks == ()


def test_each_bot_has_a_token_and_users_of_its_own(tmp_path: Path) -> None:
    toml = (
        "[telegram]\nallowed_users = [1]\nadmins = [2]\n[telegram.work]\nallowed_users = [3]\n"
        "[telegram.home]\n[people.ana]\ntelegram = [4]\n"
    )
    environment = {"TELEGRAM_TOKEN": "1:a", "TELEGRAM_TOKEN_WORK": "2:b"}
    loaded = load(tmp_path, toml, environment)
    assert {name: token and token.reveal() for name, token in loaded.bots().items()} == {
        "": "1:a",
        "work": "2:b",
        "home": None,
    }
    assert set(loaded.secrets.values()) >= {"1:a", "2:b"}
    users = {bot: sorted(listed(loaded.settings, bot)) for bot in (None, *loaded.bots())}
    assert users == {None: [1, 2, 3, 4], "": [1, 2, 4], "work": [2, 3, 4], "home": [1, 2, 4]}
    shown = rows(loaded)
    assert shown["telegram.work.allowed_users"] == ("[3]", "config.toml")
    assert shown["telegram.home.allowed_users"] == ("", "default")
    assert shown["TELEGRAM_TOKEN_WORK"] == ("set", "environment")
    assert shown["TELEGRAM_TOKEN_HOME"] == ("not set", "")
    assert set(load(tmp_path, toml, {"TELEGRAM_TOKEN_HOME": "3:c"}).bots()) == {"work", "home"}
    given = load(tmp_path, "", {"RUMI_TELEGRAM__WORK__ALLOWED_USERS": "[9]"}).settings
    assert given.telegram.bots["work"].allowed_users == (9,)
    assert load(tmp_path, "").bots() == {"": None}


def test_words_of_the_environment_become_numbers_and_truths(tmp_path: Path) -> None:
    environment = {
        "RUMI_MODEL__TEMPERATURE": "0.5",
        "RUMI_MODEL__CONTEXT_TOKENS": "",
        "RUMI_MEMORY__EXTRACT": "false",
        "RUMI_LANGUAGE": "en",
        "RUMI_SANDBOX__MEMORY": "536870912",
    }
    loaded = load(tmp_path, "[model]\ncontext_tokens = 5\n", environment).settings
    assert loaded.model.temperature == 0.5
    assert loaded.model.context_tokens is None
    assert loaded.memory.extract is False
    assert loaded.language == "en"
    assert loaded.sandbox.memory_bytes == 512 * 1024 * 1024


def test_flags_may_be_texts(tmp_path: Path) -> None:
    loaded = load(tmp_path, model__default="offline", agent__max_turns="3", telegram__admins=[1]).settings
    assert (loaded.model.default, loaded.agent.max_turns, loaded.telegram.admins) == ("offline", 3, (1,))


def test_settings_do_not_change(tmp_path: Path) -> None:
    loaded = load(tmp_path)
    with pytest.raises(ValueError, match="frozen"):
        loaded.settings.agent.max_turns = 5  # type: ignore[misc]


@pytest.mark.parametrize(
    ("toml", "named"),
    [
        ("sandbx = 1", ["sandbx = 1", "config.toml", "Did you mean sandbox?", "telegram"]),
        ("[sandbx]\nx = 1", ["sandbx", "Did you mean sandbox?"]),
        ('[sandbox]\nmemry = "1g"', ['sandbox.memry = "1g"', "Did you mean sandbox.memory?", "idle_ttl_s"]),
        ("[sandbox.memory]\nx = 1", ["sandbox.memory", '{"x": 1}', "a text in quotes"]),
        ('[model.custom.x]\nurl = "http://h"', ["model.custom.x.url", "base_url, api_key, model"]),
        ('[sandbox]\nmemory = "1t"', ['sandbox.memory = "1t"', "512m"]),
        ('[sandbox]\nmemory = "1k"', ['sandbox.memory = "1k"', "at least 6m"]),
        ("[sandbox]\nmemory = true", ["sandbox.memory = true"]),
        ('[sandbox]\npids = "many"', ['sandbox.pids = "many"', "whole number"]),
        ('[sandbox]\npids = "1.5"', ['sandbox.pids = "1.5"', "whole number"]),
        ("[sandbox]\npids = true", ["sandbox.pids = true", "whole number"]),
        ("[sandbox]\npids = 1.0", ["sandbox.pids = 1.0", "whole number"]),
        ("[sandbox]\ncpus = 0", ["sandbox.cpus = 0", "0.01"]),
        ("[sandbox]\ncpus = 1979-05-27", ["sandbox.cpus", "number"]),
        ('[sandbox]\nbackend = "podman"', ['sandbox.backend = "podman"', "'auto', 'docker' or 'bubblewrap'"]),
        ('[sandbox]\nimage = ""', ['sandbox.image = ""']),
        ('[sandbox]\ntools = "all"', ['sandbox.tools = "all"', "'work', 'core' or 'office'"]),
        ('[sandbox]\npolicy = "lax"', ['sandbox.policy = "lax"', "'strict' or 'open'"]),
        (
            '[sandbox]\nextra_programs = ["/bin/x"]',
            ['sandbox.extra_programs[0] = "/bin/x"', "without a folder"],
        ),
        ('[sandbox]\nextra_programs = ["a b"]', ['sandbox.extra_programs[0] = "a b"']),
        *(
            (f'[sandbox]\npython_packages = ["{refused}"]', [f'python_packages[0] = "{refused}"', "numpy>=2"])
            for refused in (
                *("", "-r", "--index-url=x", "./x", "/x", "x/y", "x y", "x@http://y", "http://y/x", "git+x"),
                *("x.whl", "X.ZIP", "x==1.tar.gz", "..", ".x", "x;y", "x[", "x==", "é"),
            )
        ),
        ("[agent]\nmax_turns = 0", ["agent.max_turns = 0", "greater than or equal to 1"]),
        ('[model]\nreasoning_effort = "much"', ["model.reasoning_effort", "'low', 'medium' or 'high'"]),
        ("[agent]\nmax_turns = -1", ["agent.max_turns = -1"]),
        ("[agent]\nturn_timeout_s = 0", ["agent.turn_timeout_s = 0", "greater than 0"]),
        ("[agent]\nturn_timeout_s = nan", ["agent.turn_timeout_s = NaN"]),
        ("[agent]\nturn_timeout_s = inf", ["agent.turn_timeout_s = Infinity"]),
        ('[agent]\nturn_timeout_s = "10 s"', ['agent.turn_timeout_s = "10 s"', "a number"]),
        ("[agent]\nmax_turns = 0x" + "f" * 9000, ["agent.max_turns"]),
        ("[agent]\nmax_turns = " + "9" * 9000, ["not valid TOML"]),
        ('[fetch]\nallow = "127.0.0.1:80, 127.0.0.1:81"', ["fetch.allow", "a list"]),
        ('[fetch]\nallow = ["127.0.0.1"]', ['fetch.allow[0] = "127.0.0.1"', "ip:port"]),
        ('[fetch]\nallow = ["1.2.3.4:1", "localhost:80"]', ['fetch.allow[1] = "localhost:80"']),
        ('[fetch]\nallow = ["::1:80"]', ["fetch.allow[0]"]),
        ('[fetch]\nallow = ["127.0.0.1:0"]', ["fetch.allow[0]"]),
        ('[fetch]\nallow = ["127.0.0.1:65536"]', ["fetch.allow[0]"]),
        ('[fetch]\nallow = ["127.0.0.0/8:80"]', ["fetch.allow[0]"]),
        ("[fetch]\nmax_redirects = -1", ["fetch.max_redirects = -1"]),
        ('[model]\ndefault = "openai/gpt"', ['model.default = "openai/gpt"', "groq:NAME"]),
        ('[model]\ndefault = "groq:"', ['model.default = "groq:"']),
        ('[model]\ndefault = "custom:x"', ['model.default = "custom:x"', "[model.custom.x]"]),
        (LOCAL + '[model]\nfallbacks = ["custom:x"]', ["model.fallbacks", "custom:x", "custom:local"]),
        (LOCAL + '[research]\nmodel = "custom:x"', ["research.model", "custom:x", "custom:local"]),
        ('[research]\nmodel = "gpt"', ['research.model = "gpt"', "groq:NAME"]),
        ('[model]\nfallbacks = ["gpt"]', ['model.fallbacks[0] = "gpt"']),
        ("[model]\ntemperature = 2.5", ["model.temperature = 2.5", "less than or equal to 2"]),
        ("model = 3", ["model = 3", "[model]"]),
        ("[[model]]\nx = 1", ["model", "[model]"]),
        ("[model]\ncustom = 3", ["model.custom = 3"]),
        ('[model.custom.x]\nmodel = "m"', ["model.custom.x.base_url is missing"]),
        ('[model.custom.x]\nmodel = "m"\nbase_url = "h:1"', ['base_url = "h:1"', "http"]),
        ('[model.custom."a b"]\nmodel = "m"\nbase_url = "http://h"', ['model.custom."a b"', "letters"]),
        ('[search]\nprovider = "bing"', ["'tavily', 'kagi' or 'ddgs'"]),
        ('[telegram]\nallowed_users = ["Ana"]', ['telegram.allowed_users[0] = "Ana"', "tells you"]),
        ("[telegram]\nallowed_users = [-5]", ["telegram.allowed_users[0] = -5"]),
        ("[telegram]\nalowed_users = [5]", ["telegram.alowed_users", "Did you mean telegram.allowed_users?"]),
        ("[telegram.work]\nadmins = [5]", ["telegram.work.admins", "allowed_users"]),
        ("[telegram.work]\nallowed_users = [0]", ["telegram.work.allowed_users[0] = 0"]),
        ("[telegram.my-bot]\n", ["telegram", "small letters and digits"]),
        ("[telegram.my-bot]\nallowed_users = [1]", ["telegram", "small letters and digits"]),
        ("[telegram.listen]\nx = 1", ["telegram.listen"]),
        ('[skills]\ndirs = [""]', ['skills.dirs[0] = ""']),
        ('[memory]\nextract = "perhaps"', ['memory.extract = "perhaps"', "true or false"]),
        ('language = "fr"', ['language = "fr"', "'auto', 'en', 'es', 'es_AR' or 'pt'"]),
        ("a = ", ["config.toml", "line 1"]),
        ('language = "es"\n\n[model\n', ["line 3"]),
        ("x = " + "[" * 5000, ["config.toml"]),
        ("log = {max_mb = 0}", ["log.max_mb = 0"]),
    ],
)
def test_an_error_names_the_key_the_value_and_what_is_allowed(
    tmp_path: Path, toml: str, named: list[str]
) -> None:
    message = error(tmp_path, toml)
    assert all(part in message for part in named), message
    assert len(message) < 600
    assert "\n" not in message


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("RUMI_FOO__BAR", "1", ["foo.bar", "RUMI_FOO__BAR"]),
        ("RUMI_SANBOX__PIDS", "1", ["sanbox.pids", "Did you mean sandbox.pids?"]),
        ("RUMI_AGENT__MAX_TURN", "1", ["agent.max_turn", "Did you mean agent.max_turns?"]),
        ("RUMI_AGENT__MAX_TURNS__X", "1", ["agent.max_turns.x"]),
        ("RUMI_AGENT__", "1", ["agent"]),
        ("RUMI___X", "1", ["RUMI___X"]),
        ("RUMI_AGENT__MAX_TURNS", "x", ['agent.max_turns = "x"', "RUMI_AGENT__MAX_TURNS", "whole number"]),
        ("RUMI_AGENT__MAX_TURNS", "", ['agent.max_turns = ""']),
        ("RUMI_AGENT__MAX_TURNS", "0", ["agent.max_turns = 0"]),
        ("RUMI_AGENT__TURN_TIMEOUT_S", "inf", ["agent.turn_timeout_s"]),
        ("RUMI_TELEGRAM__ALLOWED_USERS", "@ana", ["telegram.allowed_users", "tells you your number"]),
        ("RUMI_FETCH__ALLOW", "127.0.0.1:80,127.0.0.1:81", ["fetch.allow", "JSON"]),
        ("RUMI_TELEGRAM__ALLOWED_USERS", "[" * 9000, ["telegram.allowed_users", "JSON"]),
        ("RUMI_MODEL__CUSTOM", "{}", ["model.custom", "section"]),
        ("RUMI_MODEL__CUSTOM__X", "{}", ["model.custom.x", "section"]),
        ("RUMI_MODEL__CUSTOM__X__URL", "y", ["model.custom.x.url", "base_url"]),
        ("RUMI_SANDBOX_MEMORY", "1g", ["RUMI_SANDBOX__MEMORY", "two underscores"]),
        ("RUMI_LANGUAGE", "fr", ['language = "fr"', "RUMI_LANGUAGE"]),
        ("RUMI_LANGUAGE__X", "fr", ["language.x"]),
    ],
)
def test_a_variable_that_is_wrong_is_named(tmp_path: Path, name: str, value: str, named: list[str]) -> None:
    message = error(tmp_path, "", {name: value})
    assert all(part in message for part in named), message


def test_variables_of_others_are_left_alone(tmp_path: Path) -> None:
    load(tmp_path, "", {"RUMI_HOME": "/x", "RUMI_DEBUG": "1", "RUMI": "1", "RUMIX__Y": "1", "rumi_x__y": "1"})


def test_a_flag_that_is_wrong_is_named(tmp_path: Path) -> None:
    assert 'model.default = "gpt" (flag)' in error(tmp_path, model__default="gpt")
    assert "model.defualt" in error(tmp_path, model__defualt="x")


@pytest.mark.parametrize(
    ("size", "size_bytes"),
    [
        ("512m", 512 * 1024**2),
        ("1g", 1024**3),
        ("2G", 2 * 1024**3),
        ("300000k", 300_000 * 1024),
        ("536870912", 536_870_912),
        ("536870912b", 536_870_912),
        ("6m", 6 * 1024**2),
    ],
)
def test_memory_sizes_are_read_as_docker_reads_them(tmp_path: Path, size: str, size_bytes: int) -> None:
    assert memory_bytes(size) == size_bytes
    assert load(tmp_path, f'[sandbox]\nmemory = "{size}"').settings.sandbox.memory_bytes == size_bytes


def test_a_memory_size_may_be_a_number_of_bytes(tmp_path: Path) -> None:
    assert load(tmp_path, "[sandbox]\nmemory = 536870912").settings.sandbox.memory_bytes == 512 * 1024**2


@pytest.mark.parametrize("size", ["", "m", "1.5g", "-1m", "1 g", "1t", "1mb", "٥m", "1m\n", "5m", "0"])
def test_other_sizes_are_refused(size: str) -> None:
    with pytest.raises(ValueError, match="size"):
        memory_bytes(size)


# Files


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes(b'\xef\xbb\xbflanguage = "es"\r\n[agent]\r\nmax_turns = 4\r\n')
    loaded = load_settings(tmp_path, {}, {})
    assert (loaded.settings.language, loaded.settings.agent.max_turns) == ("es", 4)


@pytest.mark.parametrize("name", ["config.toml", ".env"])
def test_a_file_that_cannot_be_read_is_a_clear_error(tmp_path: Path, name: str) -> None:
    path = tmp_path / name

    def message() -> str:
        with pytest.raises(ConfigError) as caught:
            load_settings(tmp_path, {}, {})
        assert str(path) in str(caught.value)
        return str(caught.value)

    path.mkdir()
    assert "regular file" in message()
    path.rmdir()
    os.mkfifo(path)
    assert "regular file" in message()
    path.unlink()
    path.write_bytes(b"a=1\nb='\xff'\n")
    assert "UTF-8 text (line 2)" in message()
    path.write_bytes(b"#" * 2_000_000)
    assert "larger" in message()
    path.unlink()
    path.symlink_to(name)
    assert "cannot be read" in message()
    if os.geteuid() != 0:
        path.unlink()
        path.touch(mode=0)
        assert "Permission denied" in message()


def test_the_home_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    home = home_from({"RUMI_HOME": str(tmp_path / "a" / "b")})
    assert home == tmp_path / "a" / "b"
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert home_from({"HOME": str(tmp_path)}) == tmp_path / ".rumi"
    assert home_from({"HOME": str(tmp_path), "RUMI_HOME": ""}) == tmp_path / ".rumi"
    assert home_from({"HOME": str(tmp_path), "RUMI_HOME": "~/x"}) == tmp_path / "x"


def test_a_relative_home_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert home_from({"RUMI_HOME": "here"}) == tmp_path / "here"


def test_a_home_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for wrong in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ConfigError, match="RUMI_HOME"):
            home_from({"RUMI_HOME": str(wrong)})


# Secrets

KEY = "gsk_abcdefghijklmnopqrstuvwxyz"


def test_secrets_come_from_the_environment_and_then_from_the_homes_env_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(
        f"# keys\nexport GROQ_API_KEY='{KEY}'\nTELEGRAM_TOKEN=1:fromfile\n"
        'TAVILY_API_KEY="$HOME ${X}"\nX=1\n'
    )
    environment = {"TELEGRAM_TOKEN": "1:fromenv", "GROQ_API_KEY": "", "GROQ_BASE_URL": "http://h "}
    before = dict(os.environ)
    loaded = load_settings(tmp_path, environment, {})
    secrets = loaded.secrets
    assert secrets.groq_api_key == Secret(KEY)
    assert secrets.telegram_token is not None
    assert secrets.telegram_token.reveal() == "1:fromenv"
    assert secrets.tavily_api_key == Secret("$HOME ${X}")
    assert secrets.groq_base_url == "http://h"
    assert secrets.kagi_api_key is None
    assert sorted(secrets.values()) == ["$HOME ${X}", "1:fromenv", KEY]
    assert dict(os.environ) == before
    shown = rows(loaded)
    assert shown["GROQ_API_KEY"] == ("set", ".env")
    assert shown["TELEGRAM_TOKEN"] == ("set", "environment")
    assert shown["KAGI_API_KEY"] == ("not set", "")


def test_an_env_file_in_the_working_folder_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "project"
    elsewhere.mkdir()
    (elsewhere / ".env").write_text(f"GROQ_API_KEY={KEY}\nGROQ_BASE_URL=http://evil\n")
    monkeypatch.chdir(elsewhere)
    home = tmp_path / "home"
    home.mkdir()
    secrets = load_settings(home, {}, {}).secrets
    assert (secrets.groq_api_key, secrets.groq_base_url) == (None, None)


def test_settings_in_the_env_file_do_not_count(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("RUMI_AGENT__MAX_TURNS=3\n")
    assert load_settings(tmp_path, {}, {}).settings.agent.max_turns == 30


def test_a_secret_is_in_no_repr(tmp_path: Path) -> None:
    loaded = load(tmp_path, LOCAL + 'api_key = "$MY_KEY"\n', {"GROQ_API_KEY": KEY, "MY_KEY": "sesame-open"})
    shown = f"{loaded!r} {loaded.secrets!r} {loaded.secrets.groq_api_key} {loaded.rows()}"
    assert KEY not in shown
    assert "sesame-open" not in shown
    assert "%s" % loaded.secrets.groq_api_key == "Secret(hidden)"  # noqa: UP031 - as logging does it


def test_an_env_file_with_a_broken_line_is_an_error_that_does_not_show_it(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"A=1\nGROQ_API_KEY='{KEY}\n")
    with pytest.raises(ConfigError, match="line 2") as caught:
        load_settings(tmp_path, {}, {})
    assert KEY not in str(caught.value)


def test_an_env_file_that_others_can_read_is_noted(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1\n")
    (tmp_path / ".env").chmod(0o644)
    [note] = load_settings(tmp_path, {}, {}).notes
    assert "chmod 600" in note
    (tmp_path / ".env").chmod(0o600)
    assert load_settings(tmp_path, {}, {}).notes == ()


# Custom servers


def test_a_custom_server_refers_to_its_key(tmp_path: Path) -> None:
    toml = LOCAL + 'api_key = "$MY_KEY"\n[model]\ndefault = "custom:local"\n'
    loaded = load(tmp_path, toml, {"MY_KEY": "sesame"})
    assert loaded.settings.model.custom["local"].base_url == "http://127.0.0.1:8080/v1"
    assert loaded.key("custom:local") == Secret("sesame")
    (tmp_path / ".env").write_text("MY_KEY=from-file\n")
    assert load(tmp_path, toml.replace("$MY_KEY", "${MY_KEY}")).key("custom:local") == Secret("from-file")


def test_a_custom_server_needs_no_key(tmp_path: Path) -> None:
    assert load(tmp_path, LOCAL).key("custom:local") is None


def test_a_reference_to_nothing_is_an_error_where_the_key_is_used(tmp_path: Path) -> None:
    loaded = load(tmp_path, LOCAL + 'api_key = "$MY_KEY"\n')
    with pytest.raises(ConfigError, match=r"\$MY_KEY, which is not set"):
        loaded.key("custom:local")


@pytest.mark.parametrize("literal", ["sk-abcdefgh", "sesame", "", "$", "$1", "${A", "$A-B", "x$A"])
def test_a_literal_key_is_refused_and_not_shown(tmp_path: Path, literal: str) -> None:
    message = error(tmp_path, LOCAL + f'api_key = "{literal}"\n')
    assert "model.custom.local.api_key" in message
    assert "$MY_KEY" in message
    assert not literal.strip("$") or f'"{literal}"' not in message


def test_keys_in_the_wrong_place_are_not_shown(tmp_path: Path) -> None:
    places = [
        (f'[model]\ngroq_api_key = "{KEY}"', {}),
        (f'GROQ_API_KEY = "{KEY}"', {}),
        (f'[model]\ndefault = "{KEY}"', {}),
        (f'[model]\nfallbacks = ["{KEY}"]', {}),
        (f'foo = {{a = "{KEY}"}}', {}),
        ("", {"RUMI_MODEL__API_KEY": KEY}),
        ("", {"RUMI_MODEL__TIMEOUT_S": KEY}),
        ('[model.custom.x]\nmodel = "m"\nbase_url = "http://me:sesame@h/"', {}),
    ]
    for toml, environment in places:
        message = error(tmp_path, toml, environment)
        assert KEY not in message
        assert "sesame" not in message
    assert "GROQ_API_KEY belongs in" in error(tmp_path, f'[model]\ngroq_api_key = "{KEY}"')


def test_a_custom_server_can_be_defined_or_changed_in_the_environment(tmp_path: Path) -> None:
    environment = {
        "RUMI_MODEL__CUSTOM__LOCAL__BASE_URL": "http://127.0.0.1:1/v1",
        "RUMI_MODEL__CUSTOM__LOCAL__MODEL": "m",
        "RUMI_MODEL__DEFAULT": "custom:local",
    }
    loaded = load(tmp_path, "", environment)
    assert loaded.settings.model.custom["local"].model == "m"
    assert rows(loaded)["model.custom.local.model"] == ('"m"', "RUMI_MODEL__CUSTOM__LOCAL__MODEL")
    cased = LOCAL.replace("local", "Local")
    loaded = load(tmp_path, cased, {"RUMI_MODEL__CUSTOM__LOCAL__MODEL": "other"})
    assert loaded.settings.model.custom["Local"].model == "other"
    assert list(loaded.settings.model.custom) == ["Local"]


# Whatever comes

LEAVES = st.integers() | st.floats() | st.booleans() | st.text(max_size=8) | st.dates()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=2), max_leaves=4)


@given(
    st.dictionaries(
        st.sampled_from(
            ["RUMI_MODEL__DEFAULT", "RUMI_MODEL__CUSTOM__A__MODEL", "RUMI_AGENT", "RUMI_FETCH__ALLOW"]
        )
        | st.text("ABCX_", max_size=8).map("RUMI_".__add__),
        st.text(max_size=12),
        max_size=3,
    ),
    st.dictionaries(st.sampled_from(sorted(DEFAULTS)) | st.text(max_size=6), VALUES, max_size=3),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_whatever_comes_is_settings_or_a_clear_error(
    tmp_path: Path, environment: dict[str, str], flags: dict[str, object]
) -> None:
    try:
        load_settings(tmp_path, environment, flags)
    except ConfigError:
        return


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_whatever_is_in_the_files_is_settings_or_a_clear_error(tmp_path: Path, raw: bytes) -> None:
    for name in ("config.toml", ".env"):
        (tmp_path / "config.toml").write_bytes(b"")
        (tmp_path / name).write_bytes(raw)
        try:
            load_settings(tmp_path, {}, {})
        except ConfigError:
            continue


def test_finding_the_home_does_not_import_pydantic() -> None:
    code = """import sys, rumi.platform.config.files
print("pydantic" in sys.modules)
import rumi.platform.config.cascade
print("pydantic" in sys.modules)"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True"]


def test_the_folder_of_the_chats_files_is_an_absolute_path(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[store]\nworkspaces = "/mnt/files"\n')
    assert load_settings(tmp_path, {}, {}).settings.store.workspaces == "/mnt/files"
    for wrong in ("files", "/", ""):
        (tmp_path / "config.toml").write_text(f'[store]\nworkspaces = "{wrong}"\n')
        with pytest.raises(ConfigError):
            load_settings(tmp_path, {}, {})


def test_a_private_address_in_the_configuration_is_not_shown_and_counts_as_a_secret(tmp_path: Path) -> None:
    address = "https://calendar.example.org/ical/private-0a1b2c3d4e5f/basic.ics"
    (tmp_path / "config.toml").write_text(
        f'[calendars.home]\nurl = "{address}"\n[calendars.dav]\nurl = "https://dav.example.org/"\n'
        'user = "ana"\npassword = "$DAV_PASSWORD"\n'
    )
    loaded = load_settings(tmp_path, {"DAV_PASSWORD": "pass-7 word"}, {})
    assert rows(loaded)["calendars.home.url"] == ('"[hidden]"', "config.toml")
    assert rows(loaded)["calendars.dav.url"] == ('"https://dav.example.org/"', "config.toml")
    assert address in loaded.secrets.values()
