"""Links, short codes and sessions, with clocks that tests set."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from rumi.channels.page.browser_name import browser_name
from rumi.channels.page.login import LETTERS, LINK_S, TRIES, TRY_S, Door, LoginLink, TooManyTries
from rumi.channels.page.sessions import BACK_S, FORMER_SESSION_S, SESSION_S, STORE_S, digest_of

DAY_S = 86400.0


class House:
    """A door, and its clocks: `now` is the one that only goes on, `date` the one that people set."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "sessions.json"
        self.now, self.date = 0.0, 1e9
        self.announced: list[LoginLink] = []
        self.door = self.another()

    def another(self) -> Door:
        """The door of a later process."""
        return Door(self.announced.append, lambda: self.now, self.file, lambda: self.date)

    def entered(self, browser: str = "", language: str = "") -> str:
        secret = self.door.enter(self.door.renew().code, browser, language)
        assert secret is not None
        return secret

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.date += seconds


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_use_extends_a_session_and_a_month_without_ends_it(house: House) -> None:
    secret = house.entered()
    for _ in range(10):
        house.wait(SESSION_S - 1)
        assert house.door.sessions.use(secret) is not None
    house.wait(SESSION_S - 1)
    assert house.door.knows(secret)  # looking extends nothing
    house.wait(2)
    assert not house.door.knows(secret)
    assert house.door.sessions.use(secret) is None
    assert house.door.sessions.list() == []


def test_uses_are_stored_once_an_hour_and_outlive_the_process(house: House) -> None:
    secret = house.entered()
    first = house.file.read_bytes()
    house.wait(STORE_S - 1)
    house.door.sessions.use(secret)
    assert house.file.read_bytes() == first
    house.wait(1)
    house.door.sessions.use(secret)
    assert house.file.read_bytes() != first
    house.wait(SESSION_S - 1)
    assert house.another().knows(secret)


def test_a_clock_that_is_set_back_extends_no_session(house: House) -> None:
    secret = house.entered()
    house.wait(20 * DAY_S)
    assert house.door.sessions.use(secret) is not None
    house.date -= BACK_S  # clocks are adjusted
    assert house.door.sessions.use(secret) is not None
    house.date -= 15 * DAY_S
    for door in (house.door, house.another()):
        assert door.sessions.use(secret) is None
    house.date += 15 * DAY_S
    assert house.door.knows(secret)
    house.date += SESSION_S + BACK_S
    assert not house.door.knows(secret)


def test_sessions_are_listed_and_revoked_by_ids_that_open_nothing(house: House) -> None:
    phone = house.entered("Safari · iPhone", "es")
    house.wait(5)
    desk = house.entered("Firefox · Linux", "en")
    shown = [(one.name, one.language, one.seen - one.created) for one in house.door.sessions.list()]
    assert shown == [("Firefox · Linux", "en", 0.0), ("Safari · iPhone", "es", 0.0)]
    house.door.sessions.use(phone)
    last, first = house.door.sessions.list()
    assert (last.name, last.seen - last.created) == ("Safari · iPhone", 5.0)
    assert not any(house.door.knows(id) for id in (last.id, first.id, digest_of(phone).hex()))
    assert house.door.sessions.revoke("nobody") == 0
    assert house.door.sessions.revoke(last.id) == 1
    assert (house.door.knows(phone), house.door.knows(desk)) == (False, True)
    assert house.another().sessions.revoke("all") == 1
    assert not house.another().knows(desk)


def test_the_file_of_an_earlier_version_opens_until_its_sessions_would_have_ended(house: House) -> None:
    end = house.date + 3600
    house.file.write_text(json.dumps({digest_of("old").hex(): end, digest_of("gone").hex(): house.date - 1}))
    door = house.another()
    assert not door.knows("gone")
    assert [(one.name, one.created) for one in door.sessions.list()] == [("", end - FORMER_SESSION_S)]
    house.wait(3599)
    assert door.sessions.use("old") is not None  # from now on it is like the others
    house.wait(SESSION_S - 1)
    assert house.another().knows("old")
    house.file.write_text(json.dumps({digest_of("old").hex(): house.date + 1}))
    house.wait(1)
    assert not house.another().knows("old")


GOOD: dict[str, Any] = {"id": "a", "name": "", "language": "", "created": 1e9, "seen": 1e9, "until": 1e9 + 9}


@pytest.mark.parametrize(
    "odd",
    [
        {**GOOD, "until": 1e9 + 2 * SESSION_S},
        {**GOOD, "until": math.inf, "seen": math.inf},
        {**GOOD, "until": math.nan},
        {**GOOD, "seen": 1e9 + 999, "until": 1e9 + SESSION_S},
        {**GOOD, "seen": "1e9"},
        {**GOOD, "id": None},
        {**GOOD, "name": "x" * 1000},
        {"until": 1e9 + 9},
        math.inf,
        True,
        None,
        "2e9",
        [1e9 + 9],
    ],
)
def test_an_odd_session_in_the_file_opens_nothing_and_harms_no_other(house: House, odd: object) -> None:
    house.file.write_text(json.dumps({digest_of("odd").hex(): odd, digest_of("good").hex(): GOOD}))
    door = house.another()
    assert (door.knows("odd"), door.knows("good")) == (False, True)
    assert door.sessions.use("good") is not None
    assert [one.id for one in door.sessions.list()] == ["a"]


def test_a_short_code_opens_once_however_it_is_typed_and_ends_with_its_link(house: House) -> None:
    link = house.door.renew()
    assert len(link.letters) == 8
    assert set(link.letters) <= set(LETTERS)
    secret = house.door.enter_typed(f" {link.shown.lower()} ")
    assert secret is not None
    assert house.door.knows(secret)
    assert house.door.enter_typed(link.letters) is None
    assert house.door.enter(link.code) is None
    used = house.door.renew()
    assert house.door.enter(used.code) is not None
    house.wait(TRY_S)
    assert house.door.enter_typed(used.letters) is None
    former, late = house.door.renew(), house.door.renew()
    assert house.door.enter_typed(former.letters) is None
    house.wait(LINK_S)
    assert house.door.enter_typed(late.letters) is None


def test_guesses_are_few_for_all_clients_together(house: House) -> None:
    link, guesses = house.door.renew(), 0
    for _ in range(int(LINK_S)):
        for _ in range(20):
            try:
                assert house.door.enter_typed("BBBBBBBB") is None
                guesses += 1
            except TooManyTries:
                pass
        house.now += 1
    assert guesses <= TRIES + LINK_S / TRY_S
    link = house.door.renew()
    with pytest.raises(TooManyTries):
        for _ in range(TRIES + 1):
            house.door.enter_typed("")
    with pytest.raises(TooManyTries):
        house.door.enter_typed(link.letters)  # not looked at
    assert house.door.fits(link.code)
    house.now += TRY_S
    assert house.door.enter_typed(link.letters) is not None


AGENTS = {
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0": "Firefox · Linux",
    "Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile "
    "Safari/537.36": "Chrome · Android",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    "Version/18.0 Mobile/15E148 Safari/604.1": "Safari · iPhone",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 "
    "Safari/537.36 Edg/140.0": "Edge · Windows",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18 "
    "Safari/605.1.15": "Safari · macOS",
    "curl/8.5": "",
    "\x1b[31m<script>": "",
}


@pytest.mark.parametrize("agent", AGENTS)
def test_browsers_are_named_in_plain_words(agent: str) -> None:
    assert browser_name(agent) == AGENTS[agent]
