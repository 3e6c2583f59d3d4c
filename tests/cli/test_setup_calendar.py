"""A calendar in `rumi setup` and `rumi doctor`, against a real CalDAV server, as a new user answers."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.cli.test_setup import answers
from tests.radicale import PASSWORD, USER, Radicale, radicale


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Radicale]:
    with radicale(tmp_path_factory.mktemp("radicale")) as running:
        running.calendar("home", "Family")
        soon = f"{datetime.now(UTC) + timedelta(days=2):%Y%m%d}"
        event = ["UID:a", "DTSTAMP:20260101T000000Z", "SUMMARY:Dentist", f"DTSTART;VALUE=DATE:{soon}"]
        lines = ["BEGIN:VEVENT", *event, "END:VEVENT"]
        file = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:x", *lines, "END:VCALENDAR", ""]
        running.store("home", {"a": "\r\n".join(file)})
        yield running


@pytest.fixture
def rumi(tmp_path: Path) -> Program:
    return Program(tmp_path / "home", {"RUMI_SANDBOX__BACKEND": "bubblewrap"})


def test_a_calendar_is_tried_and_its_password_is_stored_in_env(rumi: Program, server: Radicale) -> None:
    wrong = ("y", server.url, "home", USER, "wrong", "n")
    right = (server.url, "home", USER, PASSWORD)
    said = rumi.run("setup", text=answers("", "offline", "", "n", *wrong, *right)).stdout
    assert "refuses the user or the password" in said
    assert "✓ home: 1 events in the next 30 days" in said
    assert " Dentist" in said
    config = (rumi.home / "config.toml").read_text()
    assert (
        f'[calendars.home]\nurl = "{server.url}"\nuser = "ana"\npassword = "$CALENDAR_HOME_PASSWORD"'
        in config
    )
    assert (rumi.home / ".env").read_text() == f"CALENDAR_HOME_PASSWORD='{PASSWORD}'\n"
    assert PASSWORD not in said + config


@pytest.mark.long
def test_the_doctor_reads_each_calendar_and_says_whether_it_can_be_written(
    rumi: Program, server: Radicale
) -> None:
    rumi.home.mkdir(mode=0o700)
    section = '[calendars.{}]\nurl = "{}"\nuser = "ana"\npassword = "${}"\n'
    (rumi.home / "config.toml").write_text(
        section.format("home", server.url, "RIGHT")
        + section.format("work", server.url, "WRONG")
        + '[calendars.gone]\nurl = "$ADDRESS"\n'
    )
    rumi.env |= {"RIGHT": PASSWORD, "WRONG": "wrong", "ADDRESS": f"{server.url}/private-7d1f.ics"}
    said = rumi.run("doctor", "--online", code=None).stdout
    assert "1 events in the next 30 days; events can be written" in said
    assert "refuses the user or the password" in said
    assert "calendar gone" in said
    assert "private-7d1f" not in said
    assert PASSWORD not in said
