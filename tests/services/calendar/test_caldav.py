"""Calendars at a real CalDAV server: found, read and written. Servers that want the password elsewhere."""

from collections.abc import Callable
from datetime import UTC, date, datetime

import pytest
import trio

from rumi.services.calendar.caldav import CalDav, Collection
from rumi.services.calendar.errors import CalendarError, EventChanged
from rumi.services.calendar.events import Event, EventDraft, TimeWindow
from rumi.services.calendar.reader import CalendarReader, WriteRefused
from tests.fakes.web_server import Asked, gives, redirects, serving
from tests.radicale import PASSWORD, USER, Radicale
from tests.services.calendar.series import WINDOWS, many

MADRID = "Europe/Madrid"
DECEMBER = TimeWindow(
    datetime(2026, 12, 1, tzinfo=UTC).timestamp(), datetime(2027, 1, 1, tzinfo=UTC).timestamp(), MADRID
)


def dav(url: str, only: str = "", password: str = PASSWORD) -> CalDav:
    return CalDav(url, USER, password, CalendarReader(), only)


async def collection(of: CalDav) -> Collection:
    return (await of.account()).collections[0]


async def events_of(of: CalDav) -> list[tuple[str, str]]:
    reading = await of.read(await collection(of), DECEMBER)
    return [(event.title, f"{event.starts(MADRID):%d %H:%M}") for event in reading.events]


@pytest.mark.parametrize("path", ["", "/", f"/{USER}/", f"/{USER}/found-one/"])
async def test_calendars_are_found_from_any_address_and_by_their_names(server: Radicale, path: str) -> None:
    server.calendar("found-one", "Familie & Freunde")
    server.calendar("found-two", "Work")
    found = {each.name for each in (await dav(server.url + path).account()).collections}
    assert found >= ({"Familie & Freunde"} if "one" in path else {"Familie & Freunde", "Work"})
    for name in ("familie & freunde", "found-one"):
        assert (await collection(dav(server.url, name))).name == "Familie & Freunde"
    with pytest.raises(CalendarError, match="no calendar of the name nope"):
        await dav(server.url, "nope").account()


async def test_a_wrong_password_is_told(server: Radicale) -> None:
    with pytest.raises(CalendarError, match="refuses the user or the password"):
        await dav(server.url, password="wrong").account()


@pytest.mark.long
async def test_500_series_of_six_zones_are_read_right_from_the_server(server: Radicale) -> None:
    series = many(500, endless=False)
    for first in range(0, 500, 100):
        url = server.calendar(f"many-{first}")
        server.store(f"many-{first}", {one.uid: one.file() for one in series[first : first + 100]})
        calendars = dav(url)
        one = await collection(calendars)
        start, end = WINDOWS[0][0], WINDOWS[1][1]  # the clock changes of Europe and of New York
        reading = await calendars.read(one, TimeWindow(start.timestamp(), end.timestamp(), "UTC"))
        expected = [each for every in series[first : first + 100] for each in every.happens(start, end)]
        assert not reading.left_out
        found = sorted((event.title, event.start, event.end) for event in reading.events)
        assert found == sorted(expected)


async def test_an_event_is_added_changed_and_deleted(server: Radicale) -> None:
    calendars = dav(server.calendar("written"))
    one, reader = await collection(calendars), calendars.reader
    draft = EventDraft("Dentist", datetime(2026, 12, 1, 9), zone=MADRID, place="Calle Mayor 3", alarm=20)
    file = await reader.made(draft, "uid-1", "e1")
    assert await calendars.add(one, "uid-1.ics", file)
    assert not await calendars.add(one, "uid-1.ics", file), "the server refuses a second event of this name"
    assert await events_of(calendars) == [("Dentist", "01 09:00")]
    stored = server.files("written")["uid-1"]
    assert "TRIGGER:-PT20M" in stored
    assert "ATTENDEE" not in stored
    (reading,) = [await calendars.read(one, DECEMBER)]
    url, etag = reading.files[0]
    assert reading.events[0].end - reading.events[0].start == 3600
    changed = await reader.changed(file, EventDraft(start=datetime(2026, 12, 2, 11), zone=MADRID), "", "e2")
    await calendars.put(url, changed, etag)
    assert await events_of(calendars) == [("Dentist", "02 11:00")]
    with pytest.raises(EventChanged):
        await calendars.put(url, file, etag)
    with pytest.raises(EventChanged):
        await calendars.delete(url, etag)
    assert await events_of(calendars) == [("Dentist", "02 11:00")], (
        "an update that was lost is told, not written over"
    )
    got = await calendars.get(url)
    assert got is not None
    assert await reader.effect_in(got[0]) == "e2"
    await calendars.delete(url, got[1])
    assert await events_of(calendars) == []
    assert await calendars.get(url) is None


async def test_one_date_of_a_series_or_all_of_them_are_changed(server: Radicale) -> None:
    calendars = dav(server.calendar("series"))
    one, reader = await collection(calendars), calendars.reader
    draft = EventDraft("Gym", datetime(2026, 12, 1, 9), zone=MADRID, rule="FREQ=WEEKLY;COUNT=4")
    await calendars.add(one, "gym.ics", await reader.made(draft, "gym", "e1"))

    async def change(make: Callable[[bytes, Event], "trio.lowlevel.Task | object"], index: int) -> None:
        reading = await calendars.read(one, DECEMBER)
        url, etag = reading.files[0]
        got = await calendars.get(url)
        assert got is not None
        await calendars.put(url, await make(got[0], reading.events[index]), etag)  # type: ignore[misc]

    later = EventDraft(start=datetime(2026, 12, 8, 18), zone=MADRID)
    await change(lambda file, event: reader.changed(file, later, event.occurrence, "e2"), 1)
    await change(lambda file, event: reader.without(file, event.occurrence, "e3"), 2)
    gym = [("Gym", "01 09:00"), ("Gym", "08 18:00"), ("Gym", "22 09:00")]
    assert await events_of(calendars) == gym
    earlier = EventDraft(title="Swim", start=datetime(2026, 12, 1, 8), zone=MADRID)
    await change(lambda file, event: reader.changed(file, earlier, "", "e4"), 0)
    assert await events_of(calendars) == [("Swim", "01 08:00"), ("Gym", "08 18:00"), ("Swim", "22 08:00")]


@pytest.mark.long
@pytest.mark.parametrize(
    ("draft", "said"),
    [
        (EventDraft(start=datetime(2026, 12, 2, 9), zone=MADRID), "names its days"),
        (EventDraft(start=date(2026, 12, 1)), "cannot become all-day"),
        (EventDraft(rule="FREQ=HOURLY"), "`repeat` is an RRULE"),
    ],
)
async def test_a_change_that_contradicts_a_series_is_refused(draft: EventDraft, said: str) -> None:
    reader = CalendarReader()
    rule = "FREQ=WEEKLY;BYDAY=TU"
    file = await reader.made(EventDraft("Gym", datetime(2026, 12, 1, 9), zone=MADRID, rule=rule), "gym", "e1")
    file = await reader.without(file, "2026-12-08T08:00:00+00:00", "e2")
    with pytest.raises(WriteRefused, match=said):
        await reader.changed(file, draft, "", "e3")


async def test_an_event_with_attendees_is_not_changed() -> None:
    reader = CalendarReader()
    file = await reader.made(EventDraft("Party", date(2026, 12, 1)), "p", "e1")
    file = file.replace(b"SUMMARY", b"ATTENDEE:mailto:bob@example.org\r\nSUMMARY")
    for change in (
        reader.changed(file, EventDraft(title="x"), "", "e2"),
        reader.without(file, "2026-12-01", "e2"),
    ):
        with pytest.raises(WriteRefused, match="attendees"):
            await change


PROPFIND = (
    '<d:multistatus xmlns:d="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav"><d:response><d:href>/</d:href>'
    "<d:propstat><d:prop>{props}</d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>"
    "</d:multistatus>"
)


@pytest.mark.parametrize("how", ["redirect", "principal", "home"])
async def test_the_password_never_goes_to_another_server(how: str) -> None:
    async with serving({"/": gives("x", 207)}) as other:
        props = {
            "principal": "<d:current-user-principal><d:href>{}</d:href></d:current-user-principal>",
            "home": "<c:calendar-home-set><d:href>{}</d:href></c:calendar-home-set>",
        }
        answer = (
            redirects(other.url("/"), 307)
            if how == "redirect"
            else gives(PROPFIND.format(props=props[how].format(other.url("/"))), 207, "application/xml")
        )
        async with serving({"/": answer}) as server:
            with pytest.raises(CalendarError, match=r"redirects to|names another server"):
                await dav(server.url("/")).account()
            assert server.asked[0].headers["authorization"].startswith("Basic ")
        assert not other.asked


async def test_a_server_that_wants_a_digest_gets_one() -> None:
    collection_of = PROPFIND.format(props="<d:resourcetype><d:collection/><c:calendar/></d:resourcetype>")

    async def answer(stream: trio.abc.Stream, asked: Asked) -> None:
        if asked.headers.get("authorization", "").startswith("Digest "):
            await gives(collection_of, 207, "application/xml")(stream, asked)
        else:
            challenge = 'Digest realm="r", nonce="n", qop="auth", algorithm=MD5'
            await gives("", 401, headers={"WWW-Authenticate": challenge})(stream, asked)

    async with serving({"/": answer}) as server:
        assert len((await dav(server.url("/")).account()).collections) == 1


@pytest.mark.parametrize(
    "answer", [gives("<html>hello</html>"), gives("<a/>", 207), gives("{", 207), gives("", 404)], ids=range(4)
)
async def test_a_server_without_calendars_is_told(answer: object) -> None:
    async with serving({"/": answer, "/.well-known/caldav": answer}) as server:  # type: ignore[dict-item]
        with pytest.raises(CalendarError, match=r"no calendars|no calendar at|does not speak CalDAV"):
            await dav(server.url("/")).account()
