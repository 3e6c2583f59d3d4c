"""The confined process that reads and writes calendar files, for one reading or one change.

A request consists of frames: JSON, and the bodies that it counts. Files are from others, so the process gives
up all rights that it does not need before it gets a byte of them. See `rumi.sandbox.confined.child`.
"""

import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from types import FrameType
from typing import Any, Final
from zoneinfo import ZoneInfo

from rumi.platform import text_decoding
from rumi.platform.zones import zone_names
from rumi.sandbox.confined.child import ParentProcess
from rumi.sandbox.confined.confinement import confine
from rumi.services.calendar import dav, reading, writing
from rumi.services.calendar.events import EventDraft, TimeWindow
from rumi.services.calendar.lines import is_calendar

_BOUNDS: Final = {
    resource.RLIMIT_AS: 768_000_000,
    resource.RLIMIT_NOFILE: 32,
    resource.RLIMIT_FSIZE: 0,
    resource.RLIMIT_CPU: 30,
}
NICE: Final = 5
SERIES_S: Final = 2.0
"""Maximum processor time for one event, in seconds. A daily event since 1600 takes about one."""

ALL_S: Final = 10.0
"""Maximum processor time for all events of a request, in seconds; then the rest is left out."""

_TICK_S: Final = 0.1


class _Clock:
    """Interrupts the work on an event that takes too long.

    A timer ticks all the time, because a confined process can no longer start one.
    """

    def __init__(self) -> None:
        self._until = float("inf")
        self._end = float("inf")
        signal.signal(signal.SIGVTALRM, self._tick)
        signal.setitimer(signal.ITIMER_VIRTUAL, _TICK_S, _TICK_S)

    def begin(self) -> None:
        """Begin a request."""
        self._end = time.process_time() + ALL_S

    def is_over(self) -> bool:
        """Return True if the time of the request is over."""
        return time.process_time() > self._end

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Bound the work on one event."""
        self._until = time.process_time() + SERIES_S
        try:
            yield
        finally:
            self._until = float("inf")

    def _tick(self, number: int, frame: FrameType | None) -> None:
        if time.process_time() > self._until:
            self._until = float("inf")
            raise reading.TookTooLong


def prepare() -> list[ZoneInfo]:
    """Import all modules and load all zones, because the confined process cannot open files.

    Returns the zones: the library keeps only those that someone holds.
    """
    text_decoding.load()
    dav.load()
    zones = [ZoneInfo(name) for name in zone_names().values()]
    sample = writing.made(
        EventDraft("a", datetime(2026, 1, 2, 3), zone="Europe/Madrid", rule="FREQ=DAILY", alarm=5),
        "a",
        "a",
        datetime(2026, 1, 1, tzinfo=UTC),
    )
    # A zone that the file defines itself, with one more alias of a known zone.
    sample = sample.replace("Europe/Madrid", "Own Zone").replace(
        "PRODID", "X-WR-TIMEZONE:Europe/Madrid\r\nPRODID"
    )
    start = datetime(2026, 1, 2, tzinfo=UTC).timestamp()
    assert reading.read([sample], TimeWindow(start, start + 1e6, "Europe/Madrid")).events
    writing.without(sample, "2026-01-02T02:00:00+00:00", "b", datetime(2026, 1, 1, tzinfo=UTC))
    return zones


def answer(request: dict[str, Any], bodies: list[bytes], clock: _Clock) -> dict[str, object]:
    """Do what a request asks; return the result, or the reason why it failed."""
    clock.begin()
    try:
        match request["do"]:
            case "read":
                return _read(request, bodies, clock)
            case "make":
                return {
                    "file": writing.made(
                        EventDraft.from_json(request["draft"]), request["uid"], *_marks(request)
                    )
                }
            case "change":
                file, draft = text_decoding.decode(bodies[0]), EventDraft.from_json(request["draft"])
                return {"file": writing.changed(file, draft, request["occurrence"], *_marks(request))}
            case "drop":
                file = text_decoding.decode(bodies[0])
                return {"file": writing.without(file, request["occurrence"], *_marks(request))}
            case _:
                return {"effect": writing.effect_in(text_decoding.decode(bodies[0]))}
    except writing.NotWritten as error:
        return {"refused": str(error)}
    except dav.NotDav:
        return {"failed": "not a calendar"}
    except MemoryError:
        return {"failed": "it takes too much memory"}
    except Exception as error:  # noqa: BLE001 - parsers raise what they like
        return {"failed": f"its reader failed ({type(error).__name__})"}


def _marks(request: dict[str, Any]) -> tuple[str, datetime]:
    return str(request["effect"]), datetime.fromtimestamp(int(request["now"]), UTC)


def _read(request: dict[str, Any], bodies: list[bytes], clock: _Clock) -> dict[str, object]:
    """Read a file, or the files in an answer of CalDAV, each with its address and its ETag."""
    if request["form"] == "dav":
        files = [
            (each.href, each.etag, each.data) for body in bodies for each in dav.resources(body) if each.data
        ]
    else:
        text = text_decoding.decode(bodies[0])
        if not is_calendar(text):
            return {"failed": "not a calendar"}
        files = [("", "", text)]
    texts = (text for _, _, text in files)
    found = reading.read(texts, TimeWindow.from_json(request["window"]), clock.limited, clock.is_over)
    return {
        "events": [asdict(event) for event in found.events],
        "files": [[href, etag] for href, etag, _ in files],
        "left_out": found.left_out,
        "unknown_zones": sorted(found.unknown_zones)[:5],
        "more": found.more,
    }


def main() -> None:
    """HttpAnswer requests until the parent sends no more."""
    parent = ParentProcess(_BOUNDS, nice=NICE)
    clock, zones = _Clock(), prepare()
    assert zones
    confine()  # if the kernel does not support this, the resource limits above remain
    parent.ready()
    while True:
        request = parent.hear()
        parent.send(answer(request, [parent.receive() for _ in range(request["bodies"])], clock))


if __name__ == "__main__":
    main()
