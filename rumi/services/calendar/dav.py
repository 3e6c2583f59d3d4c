"""The XML of CalDAV (RFC 4791): bodies of requests, and what answers say."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

_DAV: Final = "{DAV:}"
_CAL: Final = "{urn:ietf:params:xml:ns:caldav}"
_SPACES: Final = 'xmlns:d="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav"'
_WRITES: Final = {f"{_DAV}{name}" for name in ("write", "write-content", "bind", "all")}


class NotDav(Exception):
    """The answer is not one of CalDAV."""


@dataclass(frozen=True, slots=True)
class Resource:
    """What an answer says about one resource. `href` is its address, relative to the request's.

    `principal` and `home` are the addresses of the user and of the user's calendars. `takes_events` is False
    for a calendar of tasks only; `writable` is None if the server says nothing about rights.
    """

    href: str
    name: str = ""
    is_calendar: bool = False
    is_collection: bool = False
    takes_events: bool = True
    writable: bool | None = None
    principal: str = ""
    home: str = ""
    addresses: tuple[str, ...] = ()
    etag: str = ""
    data: str = ""


ASK: Final = (
    f'<?xml version="1.0" encoding="utf-8"?><d:propfind {_SPACES}><d:prop><d:resourcetype/><d:displayname/>'
    "<d:current-user-principal/><d:current-user-privilege-set/><c:calendar-home-set/>"
    "<c:supported-calendar-component-set/><c:calendar-user-address-set/></d:prop></d:propfind>"
).encode()
"""The body of a PROPFIND that asks for everything that discovery needs."""


def query(start: float, end: float) -> bytes:
    """Return the body of a REPORT for the events between two instants."""
    first, last = (f"{datetime.fromtimestamp(at, UTC):%Y%m%dT%H%M%SZ}" for at in (start, end))
    return (
        f'<?xml version="1.0" encoding="utf-8"?><c:calendar-query {_SPACES}><d:prop><d:getetag/>'
        '<c:calendar-data/></d:prop><c:filter><c:comp-filter name="VCALENDAR"><c:comp-filter name="VEVENT">'
        f'<c:time-range start="{first}" end="{last}"/></c:comp-filter></c:comp-filter></c:filter>'
        "</c:calendar-query>"
    ).encode()


def load() -> None:
    """Import the parser."""
    import lxml.etree  # noqa: F401


def resources(body: bytes) -> list[Resource]:
    """Return the resources of a multistatus answer.

    Raises:
        NotDav: It is none.
    """
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(body, parser)
    except etree.XMLSyntaxError:
        raise NotDav from None
    if root.tag != f"{_DAV}multistatus":
        raise NotDav
    return [_resource(each) for each in root.iterchildren(f"{_DAV}response")]


def _resource(response: Any) -> Resource:
    props = [prop for stat in response.iterchildren(f"{_DAV}propstat") for prop in _found(stat)]
    by_name = {prop.tag: prop for prop in props}
    types = _tags(by_name.get(f"{_DAV}resourcetype"))
    parts = [
        str(each.get("name", "")).upper() for each in _of(by_name, f"{_CAL}supported-calendar-component-set")
    ]
    rights = by_name.get(f"{_DAV}current-user-privilege-set")
    allowed = None if rights is None else {each.tag for each in rights.iter() if isinstance(each.tag, str)}
    return Resource(
        href=(response.findtext(f"{_DAV}href") or "").strip(),
        name=_text(by_name.get(f"{_DAV}displayname"))[:200],
        is_calendar=f"{_CAL}calendar" in types,
        is_collection=f"{_DAV}collection" in types,
        takes_events=not parts or "VEVENT" in parts,
        writable=None if allowed is None else bool(allowed & _WRITES),
        principal=_href(by_name.get(f"{_DAV}current-user-principal")),
        home=_href(by_name.get(f"{_CAL}calendar-home-set")),
        addresses=tuple(
            _text(each).casefold().removeprefix("mailto:")
            for each in _of(by_name, f"{_CAL}calendar-user-address-set")
            if _text(each).casefold().startswith("mailto:")
        ),
        etag=_text(by_name.get(f"{_DAV}getetag")),
        data=_text(by_name.get(f"{_CAL}calendar-data")),
    )


def _found(stat: Any) -> Iterator[Any]:
    """Yield the properties of a propstat that the server has found."""
    if " 200" in (stat.findtext(f"{_DAV}status") or " 200"):
        for prop in stat.iterchildren(f"{_DAV}prop"):
            yield from (each for each in prop if isinstance(each.tag, str))


def _of(by_name: dict[str, Any], name: str) -> list[Any]:
    element = by_name.get(name)
    return [] if element is None else [each for each in element if isinstance(each.tag, str)]


def _tags(element: Any) -> set[str]:
    return set() if element is None else {each.tag for each in element if isinstance(each.tag, str)}


def _text(element: Any) -> str:
    return "" if element is None else str(element.text or "").strip()


def _href(element: Any) -> str:
    return "" if element is None else (element.findtext(f"{_DAV}href") or "").strip()
