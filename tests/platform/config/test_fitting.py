"""What people write into settings is taken where it has one meaning, and refused otherwise."""

from pathlib import Path

import pytest

from rumi.platform.config.cascade import Loaded, load_settings
from rumi.platform.config.secrets import plain
from tests.platform.config.test_config import error, load

IDS = [
    "111",
    '"111"',
    '["111"]',
    "[111]",
    '" 111 "',
    '"[111]"',
    "[\"'111'\"]",
]
MANY = [
    '"111,222"',
    '"111, 222"',
    '"111 222"',
    '[111, "222"]',
    '"[111, 222]"',
    '"111;222"',
    "\"['111', 222]\"",
]
KEYS = ["telegram.allowed_users", "telegram.admins", "telegram.work.allowed_users", "people.ana.telegram"]


def ids(loaded: Loaded, key: str) -> tuple[int, ...] | None:
    telegram = loaded.settings.telegram
    return {
        "telegram.allowed_users": telegram.allowed_users,
        "telegram.admins": telegram.admins,
        "telegram.work.allowed_users": telegram.bots["work"].allowed_users if telegram.bots else None,
        "people.ana.telegram": loaded.settings.people["ana"].telegram if loaded.settings.people else None,
    }[key]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    ("written", "expected"), [*((one, (111,)) for one in IDS), *((many, (111, 222)) for many in MANY)]
)
def test_the_numbers_of_people_may_be_written_in_any_clear_way(
    tmp_path: Path, key: str, written: str, expected: tuple[int, ...]
) -> None:
    section, _, name = key.rpartition(".")
    assert ids(load(tmp_path, f"[{section}]\n{name} = {written}\n"), key) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *(
            (value, (111,))
            for value in ("111", "[111]", '["111"]', " 111\n", '"111"', "'111'", "111\r", "111,")
        ),
        *(
            (value, (111, 222))
            for value in ("111,222", "111, 222", "111 222", "['111', 222]", '"[111, 222]"')
        ),
        ("[]", ()),
        ("", ()),
    ],
)
def test_variables_take_numbers_of_people_in_any_clear_way(
    tmp_path: Path, value: str, expected: tuple[int, ...]
) -> None:
    for name in ("ALLOWED_USERS", "ADMINS", "WORK__ALLOWED_USERS"):
        loaded = load(tmp_path, "[telegram]\nallowed_users = [9]\n", {f"RUMI_TELEGRAM__{name}": value})
        found = ids(loaded, "telegram." + name.lower().replace("__", "."))
        assert found == (None if (name, value) == ("WORK__ALLOWED_USERS", "") else expected)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ('"@ana"', "Write to the bot: it tells you your number"),
        ('"Ana"', "Write to the bot: it tells you your number"),
        ('["Ana", 111]', 'allowed_users[0] = "Ana"'),
        ('[111, "+34600111222"]', 'allowed_users[1] = "+34600111222"'),
        ('"t.me/ana"', "names may change"),
        ("-1001234567890", "a negative number is a group's"),
        ('"-5"', "a negative number is a group's"),
        ("[-5]", "allowed_users[0] = -5"),
        ("111.5", "a whole number"),
        ("[111.0]", "a whole number"),
        ("true", "a list"),
        ("[true]", "a whole number"),
        ("0", "greater than 0"),
        ("[[111]]", "a whole number"),
        ("{a = 1}", "a list"),
        ('"9999999999999999999999"', "less than"),
    ],
)
def test_what_is_not_the_number_of_a_person_is_refused_with_how_to_find_it(
    tmp_path: Path, written: str, says: str
) -> None:
    message = error(tmp_path, f"[telegram]\nallowed_users = {written}\n")
    assert "telegram.allowed_users" in message
    assert says in message
    assert "config.toml" in message


@pytest.mark.parametrize(
    ("toml", "key", "expected"),
    [
        ('[model]\nfallbacks = "offline"', "model.fallbacks", '["offline"]'),
        ('[fetch]\nallow = "127.0.0.1:80"', "fetch.allow", '["127.0.0.1:80"]'),
        ('[skills]\ndisabled = "cook"', "skills.disabled", '["cook"]'),
        ('[skills]\ndirs = "/my skills"', "skills.dirs", '["/my skills"]'),
        ('[sandbox]\nextra_programs = "jq"', "sandbox.extra_programs", '["jq"]'),
        ('[sandbox]\npids = "200"', "sandbox.pids", "200"),
        ('[sandbox]\ncpus = "0.5"', "sandbox.cpus", "0.5"),
        ('[sandbox]\ncpus = " 2 "', "sandbox.cpus", "2"),
        ('[agent]\nturn_timeout_s = "1e3"', "agent.turn_timeout_s", "1000"),
        ('[memory]\nextract = "no"', "memory.extract", "false"),
        ('[memory]\nextract = "Off"', "memory.extract", "false"),
        ('[memory]\nextract = "FALSE"', "memory.extract", "false"),
        ("[memory]\nextract = 0", "memory.extract", "false"),
        ('[memory]\nextract = "1"', "memory.extract", "true"),
        ('[budget]\ntotal_usd_per_day = "2.5"', "budget.total_usd_per_day", "2.5"),
        ('[limits]\ncontinue = "3"', "limits.continue", "3"),
        ('[roles.kid]\nbots = "yes"', "roles.kid.bots", "true"),
        ('[roles.kid]\nbots = "1"', "roles.kid.bots", "1"),
        ("[roles.kid]\nbots = 1", "roles.kid.bots", "1"),
    ],
)
def test_a_value_with_one_meaning_is_taken(tmp_path: Path, toml: str, key: str, expected: str) -> None:
    assert {row.key: row.value for row in load(tmp_path, toml).rows()}[key] == expected


@pytest.mark.parametrize(
    "toml",
    [
        "[sandbox]\npids = true",
        "[sandbox]\npids = 1.0",
        '[sandbox]\npids = "1.0"',
        '[sandbox]\npids = "0x10"',
        '[sandbox]\npids = ""',
        '[sandbox]\ncpus = "0,5"',
        '[sandbox]\ncpus = "nan"',
        "[memory]\nextract = 2",
        '[memory]\nextract = "maybe"',
        '[sandbox]\npython_packages = "numpy, pandas"',
        '[skills]\ndirs = ""',
        "[skills]\ndisabled = 5",
    ],
)
def test_a_value_with_several_meanings_is_refused(tmp_path: Path, toml: str) -> None:
    assert "config.toml) is not allowed" in error(tmp_path, toml)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("RUMI_TELEGRAM_TOKEN", "TELEGRAM_TOKEN"),
        ("RUMI_GROQ_API_KEY", "GROQ_API_KEY"),
        ("RUMI_ALLOWED_USERS", "RUMI_TELEGRAM__ALLOWED_USERS"),
        ("RUMI_LANGUGE", "RUMI_LANGUAGE"),
        ("RUMI_HOM", "RUMI_HOME"),
        ("RUMI_QUIET", "RUMI_SCHEDULES__QUIET"),
    ],
)
def test_a_variable_that_is_nearly_one_is_named_and_harms_nothing(
    tmp_path: Path, name: str, meant: str
) -> None:
    assert f"Unknown variable {name}: did you mean {meant}?" in load(tmp_path, "", {name: "x"}).notes
    assert (
        load(tmp_path, "", {"RUMI_DEBUG": "1", "RUMI_HOME": "/x", "RUMI_VERSION_OF_IMAGE": "3"}).notes == ()
    )


TOKEN = "123:abcDEF_-"


@pytest.mark.parametrize(
    "written",
    [TOKEN, f" {TOKEN} ", f"{TOKEN}\n", f"{TOKEN}\r\n", f'"{TOKEN}"', f"'{TOKEN}'\r", f"\ufeff{TOKEN}"],
)
def test_a_token_is_read_as_docker_and_editors_leave_it(tmp_path: Path, written: str) -> None:
    assert plain(load(tmp_path, "", {"TELEGRAM_TOKEN": written}).secrets.telegram_token) == TOKEN


@pytest.mark.parametrize(
    "line",
    [
        "TELEGRAM_TOKEN={}",
        "export TELEGRAM_TOKEN={}",
        'TELEGRAM_TOKEN="{}"',
        "TELEGRAM_TOKEN = '{}' # mine",
        "\ufeffTELEGRAM_TOKEN={}",
        'TELEGRAM_TOKEN="{} "',
        "TELEGRAM_TOKEN={}\r",
    ],
)
def test_a_token_in_the_env_file_is_read_as_editors_leave_it(tmp_path: Path, line: str) -> None:
    (tmp_path / ".env").write_bytes(f"{line.format(TOKEN)}\nOTHER=x\n".encode())
    (tmp_path / ".env").chmod(0o600)
    assert plain(load_settings(tmp_path, {}, {}).secrets.telegram_token) == TOKEN


def test_a_quoted_variable_is_read_without_its_quotes(tmp_path: Path) -> None:
    environment = {
        "RUMI_LANGUAGE": '"es"\r',
        "RUMI_SANDBOX__PIDS": "'77'\n",
        "RUMI_MODEL__DEFAULT": " offline ",
    }
    found = load(tmp_path, "", environment).settings
    assert (found.language, found.sandbox.pids, found.model.default) == ("es", 77, "offline")
