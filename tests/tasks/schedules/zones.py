"""The clock changes of all time zones in a span of years."""

from datetime import UTC, datetime, timedelta

from rumi.platform.zones import zone_names, zone_of

HOUR_S = 3600


def transitions(name: str, first: int, last: int) -> list[int]:
    """The instants at which the offset of a zone changes, in those years."""
    zone = zone_of(name)

    def offset(at: int) -> timedelta | None:
        return datetime.fromtimestamp(at, zone).utcoffset()

    at, end = (
        int(datetime(first, 1, 1, tzinfo=UTC).timestamp()),
        int(datetime(last, 1, 1, tzinfo=UTC).timestamp()),
    )
    found = []
    day = 86_400
    here = offset(at)
    while at < end:
        there = offset(at + day)
        if there != here:
            low, high = at, at + day
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset(middle) == here else (low, middle)
            found.append(high)
        at, here = at + day, there
    return found


def changing_zones(first: int, last: int) -> dict[str, list[int]]:
    """One zone for each way in which clocks change in those years."""
    ways: dict[tuple[object, ...], tuple[str, list[int]]] = {}
    for name in sorted(zone_names().values()):
        changes = transitions(name, first, last)
        if changes:
            offsets = tuple(datetime.fromtimestamp(at, zone_of(name)).utcoffset() for at in changes)
            ways.setdefault((tuple(changes), offsets), (name, changes))
    return dict(ways.values())
