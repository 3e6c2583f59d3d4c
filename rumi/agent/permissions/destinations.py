"""Classification of a call's arguments as destinations (where it goes, what it acts on) or content.

An argument counts as a destination unless its name identifies it as text or time. If in doubt, this is the
safe choice, because only content may come from untrusted text.
"""

import re
from collections.abc import Mapping
from typing import Final


def _listed(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


_TIMES: Final = _listed(
    "date datetime day days deadline due duration end ends fecha hora hour hours minute minutes month",
    "start starts time timestamp until when year",
)
_CONTENT: Final = _TIMES | _listed(
    "abstract answer asunto body caption comment comments content contents cuerpo description",
    "descripcion detail details feedback headline html location markdown memo mensaje message msg nota note",
    "notes paragraph question reason remark remarks reply review subject subtitle summary text texto",
    "title titulo",
)
_DESTINATIONS: Final = _listed(
    "account address amount attachment attachments attendee attendees author bcc bucket card cc",
    "channel channels chat city command contact contacts count currency customer database destination",
    "dir directory domain email emails file filename files folder from group guest guests handle host",
    "iban id ids invitee invitees ip issue key link list mail member members name number owner page",
    "participant participants password path paths payee permission phone price project quantity",
    "recipient recipients repo repository role room server sheet sql table target team to topic total",
    "uri url urls user username users webhook zone",
)
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_ADDRESS: Final = re.compile(
    r"[a-z][a-z0-9+.-]*://\S+"  # a URL
    r"|(?:mailto:|tel:|data:)\S+"
    r"|[^\s@]+@[^\s@]+\.[^\s@]+"  # a mail address
    r"|www\.\S+|(?:[a-z0-9-]+\.)+[a-z]{2,}(?:/\S*)?"  # a host
    r"|[a-z]{2}[0-9]{2}(?: ?[a-z0-9]{4}){2,7}(?: ?[a-z0-9]{1,4})?"  # an IBAN
    r"|(?:~|\.{0,2})/\S+|[a-z]:\\\S+"  # a path
    r"|[@#]\S+|\+?[0-9][0-9 ()/-]{5,}[0-9]",  # a handle, a channel, a phone number
    re.IGNORECASE,
)
_NO_DOMAINS: Final = "cs|gz|hs|js|md|pl|py|rb|rs|sh|so|ts"
"""File name extensions that are also top-level domains, so `name.ext` is not taken for a host."""
# A lookbehind lets each alternative match only at the first of its characters. Without it, the search would
# start again at each character, and take time that grows with the square of the text's length.
_LEADS: Final = re.compile(
    r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]*+://[^\s<>\"']+|\bwww\.[^\s<>\"']+"
    r"|\b(?:mailto|tel|data):[^\s<>\"']+"
    r"|(?<![\w.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)+"
    rf"|(?<![a-z0-9.-])(?:[a-z0-9-]++\.)+(?:(?!(?:{_NO_DOMAINS})\b)[a-z]{{2}}|ai|app|biz|click|cloud|com|dev|edu|gov|info|link|net"
    r"|online|org|page|shop|site|store|tech|top|web|xyz)\b(?:/[^\s<>\"']*)?"
    r"|\b[a-z]{2}[0-9]{2}(?: ?[a-z0-9]{4}){2,7}(?: ?[a-z0-9]{1,4})?\b"
    r"|\+?[0-9](?:[ .()/-]{0,2}[0-9]){9,}",
    re.IGNORECASE,
)
"""Pattern of addresses in a text: URLs, mail addresses, hosts, accounts, numbers of ten or more digits."""
_DATE: Final = re.compile(r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[ T][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)?\b")
_TIME_FORMATS: Final = frozenset({"date", "date-time", "time", "duration"})


def is_destination(name: str, schema: Mapping[str, object], value: object) -> bool:
    """Return True if an argument determines the call's target: where it goes or what it acts on.

    `schema` is the argument's part of the tool's schema; it may be empty. An object is a destination if it is
    empty or if any member is a destination. A list is a destination if its name does not identify it as
    content, or if any item is a destination.
    """
    if isinstance(value, Mapping):
        known = schema.get("properties")
        properties = known if isinstance(known, Mapping) else {}
        return not value or any(
            is_destination(str(key), _as_schema(properties.get(key)), item) for key, item in value.items()
        )
    if isinstance(value, list | tuple):
        return not _is_content(name, schema) or any(
            is_destination(name, _as_schema(schema.get("items")), item) for item in value
        )
    if not _is_content(name, schema):
        return True
    if isinstance(value, str):
        return not is_time(name, schema) and is_address(value)
    return value is not None and (isinstance(value, bool) or not is_time(name, schema))


def is_address(text: str) -> bool:
    """Return True if the whole text is one address, path, account, handle or phone number."""
    return len(text) < 2000 and _ADDRESS.fullmatch(text.strip()) is not None


def leads_in(text: str) -> list[str]:
    """Return the addresses, accounts and long numbers in a text: a reader of the text might use them."""
    return [found.rstrip(".,;:!?)") for found in _LEADS.findall(_DATE.sub(" ", text))]


def is_time(name: str, schema: Mapping[str, object]) -> bool:
    """Return True if a call's argument is a date, a time of day or a duration."""
    return schema.get("format") in _TIME_FORMATS or bool(_TIMES.intersection(words_of(name)))


def destinations_first(arguments: Mapping[str, object], schema: Mapping[str, object]) -> list[str]:
    """Return the names of a call's arguments in the call's order, but with the destinations first.

    `schema` is the schema of the whole tool.
    """
    known = schema.get("properties")
    properties = known if isinstance(known, Mapping) else {}
    return sorted(
        arguments,
        key=lambda name: not is_destination(name, _as_schema(properties.get(name)), arguments[name]),
    )


def _is_content(name: str, schema: Mapping[str, object]) -> bool:
    words = set(words_of(name))
    if words & _DESTINATIONS or "enum" in schema or "const" in schema:
        return False
    stated = schema.get("format")
    if isinstance(stated, str) and stated not in _TIME_FORMATS:
        return False
    return bool(words & _CONTENT)


def words_of(name: str) -> list[str]:
    """Split a name into lower-case words; `file_path` and `filePath` give the same words."""
    return [word.lower() for word in _WORDS.findall(name)]


def is_noun(word: str) -> bool:
    """Return True if the word occurs in common argument names, which are nouns such as `path` or `text`."""
    return word in _DESTINATIONS or word in _CONTENT


def _as_schema(schema: object) -> Mapping[str, object]:
    return schema if isinstance(schema, Mapping) else {}
