"""Calendars at private addresses: what their servers do, and files that are made to keep a reader busy."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
import trio
from trio.testing import MockClock

from rumi.platform.config.schema import FetchSection
from rumi.services.calendar.errors import CalendarError
from rumi.services.calendar.events import TimeWindow
from rumi.services.calendar.files import CalendarFile
from rumi.services.calendar.http import MOST_BYTES
from rumi.services.calendar.reader import CalendarReader
from rumi.web.messages import FetchRefused
from rumi.web.tree import fetch_bytes
from tests.fakes.web_server import Asked, gives, gzip_bomb, redirects, serving, silence, streams

EVENT = "BEGIN:VEVENT\nUID:x\nSUMMARY:Dentist\nDTSTART:20261110T100000Z\nEND:VEVENT\n"
ICS = f"BEGIN:VCALENDAR\nVERSION:2.0\n{EVENT}END:VCALENDAR\n"
PACKED = {"Content-Encoding": "gzip"}
SECRET = "/private-7d1f/basic.ics"
NOVEMBER = TimeWindow(
    datetime(2026, 11, 1, tzinfo=UTC).timestamp(),
    datetime(2026, 12, 1, tzinfo=UTC).timestamp(),
    "Europe/Madrid",
)


def file_at(url: str) -> CalendarFile:
    return CalendarFile(url, CalendarReader(), lambda to: fetch_bytes(FetchSection(), to))


async def titles(file: CalendarFile) -> list[str]:
    return [event.title for event in (await file.read(NOVEMBER)).events]


async def test_a_file_is_kept_for_a_minute_and_then_asked_for_only_if_it_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def answer(stream: trio.abc.Stream, asked: Asked) -> None:
        fresh = asked.headers.get("if-none-match") == '"1"'
        await gives(b"" if fresh else ICS, 304 if fresh else 200, "text/calendar", {"ETag": '"1"'})(
            stream, asked
        )

    async with serving({SECRET: answer}) as server:
        file = file_at(server.url(SECRET))
        assert await titles(file) == await titles(file) == ["Dentist"]
        assert len(server.asked) == 1
        monkeypatch.setattr("rumi.services.calendar.files.FRESH_S", 0.0)
        assert await titles(file) == ["Dentist"]
        assert [asked.headers.get("if-none-match") for asked in server.asked] == [None, '"1"']


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (gives("no", 401), "refuses the user or the password"),
        (gives("no", 403), "does not allow this"),
        (gives("no", 404), "has no calendar at this address"),
        (gives("no", 410), "has no calendar at this address"),
        (gives("busy", 503), "answers with status 503"),
        (gives("<html><form>Sign in</form></html>"), "serves no calendar"),
        (gives(""), "serves no calendar"),
        (redirects(SECRET), "redirects in a circle"),
        (streams(lambda: iter([b"x" * 1_000_000] * 30)), "sent more than 20 MB"),
        (streams(lambda: gzip_bomb(2 * MOST_BYTES), headers=PACKED), "sent more than 20 MB"),
    ],
    ids=["401", "403", "404", "410", "503", "login page", "empty", "circle", "huge", "bomb"],
)  # fmt: skip
async def test_what_is_no_calendar_is_told_without_the_private_address(answer: object, said: str) -> None:
    async with serving({SECRET: answer}) as server:  # type: ignore[dict-item]
        with pytest.raises(CalendarError) as caught:
            await file_at(server.url(SECRET)).read(NOVEMBER)
    assert said in caught.value.message
    assert "private" not in str(caught.value).replace("private address", "")


async def test_a_server_that_never_answers_is_given_up(autojump_clock: MockClock) -> None:
    async with serving({SECRET: silence}) as server:
        with pytest.raises(CalendarError, match="did not answer within 60 s"):
            await file_at(server.url(SECRET)).read(NOVEMBER)
        await server.until(lambda one: one.open == 0)


async def test_redirects_stay_at_the_server_or_go_through_the_guard() -> None:
    async with serving({SECRET: redirects("/moved.ics"), "/moved.ics": gives(ICS)}) as server:
        assert await titles(file_at(server.url(SECRET))) == ["Dentist"]
    async with (
        serving({SECRET: gives(ICS)}) as inside,
        serving({SECRET: redirects(inside.url(SECRET))}) as server,
    ):
        with pytest.raises(FetchRefused):
            await file_at(server.url(SECRET)).read(NOVEMBER)
        assert not inside.asked, "a redirect to a private address of another server is not followed"


BOMBS: Mapping[str, str] = {
    "every second": "DTSTART:19700101T000000Z\nRRULE:FREQ=SECONDLY",
    "for ever at once": "DTSTART:20261101T000000Z\nRRULE:FREQ=MONTHLY;INTERVAL=0",
    "never": "DTSTART:20261101T000000Z\nRRULE:FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30",
}


@pytest.mark.long
async def test_files_made_to_keep_a_reader_busy_lose_only_their_own_events() -> None:
    bombs = "".join(
        f"BEGIN:VEVENT\nUID:{name}\nSUMMARY:{name}\n{lines}\nEND:VEVENT\n" for name, lines in BOMBS.items()
    )
    reading = await CalendarReader().read(NOVEMBER, [ICS.replace(EVENT, bombs + EVENT).encode()])
    assert [event.title for event in reading.events] == ["Dentist"]
    assert sorted(each.partition(": ")[0] for each in reading.left_out) == sorted(BOMBS)


@pytest.mark.long
async def test_many_events_are_read_in_bounded_time() -> None:
    events = "".join(EVENT.replace("UID:x", f"UID:{number}") for number in range(2000))
    with trio.fail_after(30):
        reading = await CalendarReader().read(NOVEMBER, [ICS.replace(EVENT, events).encode()])
    assert len(reading.events) + reading.more + len(reading.left_out) >= 1000


async def test_a_cancelled_reading_leaves_no_process() -> None:
    reader = CalendarReader()
    bomb = ICS.replace(EVENT, f"BEGIN:VEVENT\nUID:b\n{BOMBS['every second']}\nEND:VEVENT\n")
    with trio.move_on_after(0.5) as scope:
        await reader.read(NOVEMBER, [bomb.encode()])
    assert scope.cancelled_caught
    assert [event.title for event in (await reader.read(NOVEMBER, [ICS.encode()])).events] == ["Dentist"]
