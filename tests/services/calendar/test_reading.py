"""Calendar files as programs write them: recurrences and zones, and what is odd in files of the wild."""

from datetime import UTC, datetime

import pytest

from rumi.services.calendar.events import Event, TimeWindow
from rumi.services.calendar.reading import FoundEvents, read
from tests.services.calendar.series import WINDOWS, many

MADRID = "Europe/Madrid"


def found_in(
    text: str,
    start: str = "2026-11-01",
    end: str = "2026-12-31",
    zone: str = MADRID,
    addresses: tuple[str, ...] = (),
) -> FoundEvents:
    first, last = (datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() for day in (start, end))
    return read([text], TimeWindow(first, last, zone, addresses))


def calendar(*events: str, head: str = "") -> str:
    parts = "".join(f"BEGIN:VEVENT\n{event}\nEND:VEVENT\n" for event in events)
    return f"BEGIN:VCALENDAR\nVERSION:2.0\n{head}{parts}END:VCALENDAR\n"


def starts(found: FoundEvents) -> list[str]:
    """The local starts in Madrid; of all-day events the dates."""
    return [event.first_day or f"{event.starts(MADRID):%Y-%m-%d %H:%M}" for event in found.events]


@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: f"{window[0]:%Y-%m-%d}")
def test_series_of_six_zones_are_read_right_around_clock_changes(window: tuple[datetime, datetime]) -> None:
    series = many(60)
    start, end = window
    read_ones = read([one.file() for one in series], TimeWindow(start.timestamp(), end.timestamp(), "UTC"))
    expected = sorted(date for one in series for date in one.happens(start, end))
    assert not read_ones.left_out
    assert sorted((event.title, event.start, event.end) for event in read_ones.events) == expected


BASE = "UID:x\nSUMMARY:s\n"
TEN, ELEVEN = ["2026-11-10 10:00"], ["2026-11-10 11:00"]
ODD = {
    "no end": ("DTSTART:20261110T100000Z", ELEVEN),
    "no end of a day": ("DTSTART;VALUE=DATE:20261110", ["2026-11-10"]),
    "the same day as its end": ("DTSTART;VALUE=DATE:20261110\nDTEND;VALUE=DATE:20261110", ["2026-11-10"]),
    "a date of 8 digits without VALUE": ("DTSTART:20261110\nDTEND:20261112", ["2026-11-10"]),
    "VALUE=DATE with a time": ("DTSTART;VALUE=DATE:20261110T000000", ["2026-11-10"]),
    "date and time mixed": ("DTSTART;VALUE=DATE:20261110\nDTEND:20261111T100000Z", ["2026-11-10"]),
    "UNTIL a date, start a time": (
        "DTSTART;TZID=Asia/Tokyo:20261110T190000\nRRULE:FREQ=DAILY;UNTIL=20261112",
        ["2026-11-10 11:00", "2026-11-11 11:00"],
    ),
    "UNTIL without a zone": (
        f"DTSTART;TZID={MADRID}:20261110T100000\nRRULE:FREQ=DAILY;UNTIL=20261111T100000",
        ["2026-11-10 10:00", "2026-11-11 10:00"],
    ),
    "UNTIL with a time, start a date": (
        "DTSTART;VALUE=DATE:20261110\nRRULE:FREQ=DAILY;UNTIL=20261111T090000Z",
        ["2026-11-10", "2026-11-11"],
    ),
    "a semicolon at the end of a rule": (
        "DTSTART:20261110T100000Z\nRRULE:FREQ=WEEKLY;COUNT=2;",
        ["2026-11-10 11:00", "2026-11-17 11:00"],
    ),
    "an empty rule": ("DTSTART:20261110T100000Z\nRRULE:", ELEVEN),
    "TZID together with Z": (f"DTSTART;TZID={MADRID}:20261110T100000Z", TEN),
    "a name of Windows": ("DTSTART;TZID=W. Europe Standard Time:20261110T100000", TEN),
    "a quoted zone": ('DTSTART;TZID="America/New_York":20261110T040000', TEN),
    "a global zone": ("DTSTART;TZID=/freeassociation.sourceforge.net/Europe/Berlin:20261110T100000", TEN),
    "an unknown zone": ("DTSTART;TZID=Nowhere/Land:20261110T100000", TEN),
    "no description of a zone": ("DTSTART;TZID=(no TZ description):20261110T100000", TEN),
    "a negative duration": ("DTSTART:20261110T100000Z\nDURATION:-PT1H", ELEVEN),
    "an end before the start": ("DTSTART:20261110T100000Z\nDTEND:20261110T090000Z", ELEVEN),
    "a broken end": ("DTSTART:20261110T100000Z\nDTEND:never", ELEVEN),
    "DURATION beside DTEND": ("DTSTART:20261110T100000Z\nDTEND:20261110T110000Z\nDURATION:PT5H", ELEVEN),
    "a property twice": ("DTSTART:20261110T100000Z\nDTSTART:20261111T100000Z", ELEVEN),
    "RDATE of periods": (
        "DTSTART:20261110T100000Z\nRDATE;VALUE=PERIOD:20261112T100000Z/PT2H",
        ["2026-11-10 11:00", "2026-11-12 11:00"],
    ),
    "EXDATE of a date": (
        f"DTSTART;TZID={MADRID}:20261110T100000\nRRULE:FREQ=WEEKLY;COUNT=3\nEXDATE;VALUE=DATE:20261117",
        ["2026-11-10 10:00", "2026-11-24 10:00"],
    ),
    "the year 1600": ("DTSTART;VALUE=DATE:16001110\nRRULE:FREQ=YEARLY", ["2026-11-10"]),
    "an alarm in the middle": (
        "BEGIN:VALARM\nTRIGGER;VALUE=DATE-TIME:19760401T005545Z\nSUMMARY:alarm\nEND:VALARM\nDTSTART:20261110T100000Z",
        ["2026-11-10 11:00"],
    ),
    "a time that clocks skip": ("DTSTART;TZID=Europe/Madrid:20270328T023000", []),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_an_odd_event_is_read_as_it_was_meant(name: str) -> None:
    lines, expected = ODD[name]
    found = found_in(calendar(BASE + lines))
    assert (starts(found), found.left_out) == (expected, [])
    assert all(event.end >= event.start for event in found.events)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ("DTSTART:2026-11-10 10:00", "Wrong datetime format"),
        ("SUMMARY:nothing else", "no DTSTART"),
        ("DTSTART:20261110T100000Z\nRRULE:FREQ=WEEKLY;UNTIL=", "UNTIL"),
        ("DTSTART:20261110T100000Z\nRRULE:FREQ=SOMETIMES", ""),
    ],
)
def test_a_broken_event_is_named_and_hides_no_other(broken: str, why: str) -> None:
    found = found_in(calendar(f"UID:b\nSUMMARY:Broken one\n{broken}", BASE + "DTSTART:20261110T100000Z"))
    assert starts(found) == ["2026-11-10 11:00"]
    assert found.left_out[0].startswith("Broken one: ")
    assert why in found.left_out[0]


def test_other_line_ends_marks_and_unfolded_lines_are_read() -> None:
    text = calendar(
        BASE + "DTSTART:20261110T100000Z\nDESCRIPTION:one line\\nthat goes\non without a space\nLOCATION:x"
    )
    for odd in (
        text,
        text.replace("\n", "\r\n"),
        text.replace("\n", "\r"),
        f"<!-- made by -->\n{text}",
        text + "\0",
    ):
        (event,) = found_in(odd).events
        assert (event.notes, event.place) == ("one line\nthat goeson without a space", "x")


def test_a_file_without_its_end_is_read() -> None:
    text = calendar(BASE + "DTSTART:20261110T100000Z", "UID:y\nSUMMARY:cut\nDTSTART:20261111T100000Z")
    assert starts(found_in(text[: text.rindex("END:VEVENT")])) == ["2026-11-10 11:00", "2026-11-11 11:00"]


def test_times_without_a_zone_are_local_and_those_of_the_calendar_its_own() -> None:
    event = BASE + "DTSTART:20261110T100000\nRRULE:FREQ=DAILY;COUNT=2"
    assert starts(found_in(calendar(event))) == ["2026-11-10 10:00", "2026-11-11 10:00"]
    tokyo = found_in(calendar(event, head="X-WR-TIMEZONE:Asia/Tokyo\n"))
    assert starts(tokyo) == ["2026-11-10 02:00", "2026-11-11 02:00"]
    assert tokyo.events[0].zone == "Asia/Tokyo"
    assert found_in(calendar(BASE + "DTSTART;TZID=Nowhere/Land:20261110T100000")).unknown_zones == {
        "Nowhere/Land"
    }


OWN_ZONE = """BEGIN:VTIMEZONE
TZID:Customized Time Zone
BEGIN:STANDARD
DTSTART:16010101T030000
TZOFFSETFROM:+0{summer}00
TZOFFSETTO:+0{winter}00
RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=10
END:STANDARD
BEGIN:DAYLIGHT
DTSTART:16010101T020000
TZOFFSETFROM:+0{winter}00
TZOFFSETTO:+0{summer}00
RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=3
END:DAYLIGHT
END:VTIMEZONE
"""


def test_files_that_define_the_same_zone_differently_are_each_read_by_their_own() -> None:
    event = BASE + "DTSTART;TZID=Customized Time Zone:20261110T100000"
    texts = [calendar(event, head=OWN_ZONE.format(summer=each + 1, winter=each)) for each in (1, 4, 1)]
    first, last = (datetime(2026, month, 1, tzinfo=UTC).timestamp() for month in (11, 12))
    found = read(texts, TimeWindow(first, last, MADRID))
    assert {(event.file, f"{event.starts(MADRID):%H:%M}") for event in found.events} == {
        (0, "10:00"),
        (1, "07:00"),
        (2, "10:00"),
    }


def test_changed_dates_and_all_after_them_are_read() -> None:
    master = (
        f"UID:x\nSUMMARY:s\nDTSTART;TZID={MADRID}:20261102T100000\nDURATION:PT1H\nRRULE:FREQ=WEEKLY;COUNT=5"
    )
    later = (
        f"UID:x\nSUMMARY:later\nRECURRENCE-ID;RANGE=THISANDFUTURE;TZID={MADRID}:20261116T100000\n"
        f"DTSTART;TZID={MADRID}:20261116T120000\nDURATION:PT1H"
    )
    assert starts(found_in(calendar(master, later))) == [
        *("2026-11-02 10:00", "2026-11-09 10:00"),
        *("2026-11-16 12:00", "2026-11-23 12:00", "2026-11-30 12:00"),
    ]
    alone = found_in(calendar(later.replace("RANGE=THISANDFUTURE;", "")))
    assert starts(alone) == ["2026-11-16 12:00"], "one date of a series, shared without it"


def test_different_events_of_one_uid_are_all_read_and_the_latest_version_of_one_counts() -> None:
    one = "UID:x\nSUMMARY:{}\nSEQUENCE:{}\nDTSTART:202611{}T100000Z"
    found = found_in(calendar(one.format("new", 2, 10), one.format("old", 1, 10), one.format("other", 0, 12)))
    assert [event.title for event in found.events] == ["new", "other"]


def test_only_what_takes_the_owners_time_is_busy() -> None:
    def event(more: str) -> Event:
        text = calendar(BASE + "DTSTART:20261110T100000Z\n" + more)
        return found_in(text, addresses=("ana@example.org",)).events[0]

    attendee = "ATTENDEE;PARTSTAT={}:mailto:{}"
    assert event("TRANSP:OPAQUE").busy
    assert not event("TRANSP:TRANSPARENT").busy
    assert not event("X-MICROSOFT-CDO-BUSYSTATUS:FREE").busy
    assert not event(attendee.format("DECLINED", "Ana@example.org")).busy
    assert event(attendee.format("DECLINED", "bob@example.org")).busy
    assert event(attendee.format("ACCEPTED", "ana@example.org")).attended
    cancelled = event("STATUS:CANCELLED")
    assert (cancelled.busy, cancelled.cancelled) == (False, True)


def test_no_more_than_a_bounded_number_of_events_is_returned() -> None:
    found = found_in(calendar(BASE + "DTSTART:20261101T000000Z\nRRULE:FREQ=HOURLY"))
    assert (len(found.events), found.more) == (1000, 440)
