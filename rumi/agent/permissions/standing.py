"""Standing approvals: a person approves calls for all runs of a schedule.

An approval is bound to the schedule's text, its owner, its chat and its person. It names exact servers, or
exact tools with exact destinations, how often each may be used in one run, and its end. A call that may
destroy something, costs money or has an effect that lasts has no `Reach`, so no approval can cover it.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from math import log2
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote, unquote, urlsplit

from rumi.agent.permissions.carried import CALL_BITS
from rumi.agent.permissions.consent import Words
from rumi.agent.permissions.destinations import leads_in
from rumi.agent.permissions.parking import counted
from rumi.agent.tool import Reach
from rumi.store.journal.records import ScheduleRecord

DAYS: Final = 30
MOST_DAYS: Final = 90
MOST_GRANTS: Final = 20
MOST_PER_RUN: Final = 20
MOST_IN_ALL: Final = 1000
"""Maximum number of uses of one grant, in all runs together."""

MOST_DIGITS: Final = 16
"""Maximum number of digits in which an address may differ from the approved one, such as those of a date."""

SPELLING_BITS: Final = log2(3)
"""Bits of the choice between a word in small letters, in capitals, and with a first capital."""

SIGN_BITS: Final = log2(11)
"""Bits that a digit, or a sign between two words, can tell the server of an address."""

Ended: TypeAlias = Literal["edited", "owner", "rights", "expired", "revoked"]
"""The reason why an approval is not valid."""

# A percent escape is a character, such as a letter, and no number.
_RUNS: Final = re.compile(r"(?<!%)(?<!%[0-9A-Fa-f])[0-9]+")
_WORDS: Final = re.compile(r"[^\W\d_]+|\d|[^\w\s]|_")
_UNESCAPED: Final = "/:@!$&'()*+,;=~"
"""The signs that paths have without an escape, beside letters, digits and `-._`."""

_BETWEEN: Final = frozenset("/.-_:,;~+()")


@dataclass(frozen=True, slots=True)
class Grant:
    """What a person has approved: addresses of one server, or calls of one tool.

    `addresses` are the approved addresses; without any, each address of the `host` counts whose words are
    those of the schedule's text. `to` are the approved destinations, as in `Reach`; one with an empty path is
    a value for any destination. A grant that `reads` covers the same values with other numbers. `calls` are
    the digests of the calls that a person has approved: one use in a run for each. `per_run` is the number
    of uses in a run that a person has named. `used` counts all uses.
    """

    tool: str
    host: str = ""
    addresses: tuple[str, ...] = ()
    to: tuple[tuple[str, str], ...] = ()
    version: str = ""
    reads: bool = False
    calls: tuple[str, ...] = ()
    per_run: int = 0
    used: int = 0

    @property
    def key(self) -> str:
        """The digest of what the grant is about, without its counts."""
        return _digest(self.tool, self.host, self.addresses, self.to, self.version, self.reads)

    @property
    def most(self) -> int:
        """The maximum number of uses in one run."""
        return min(MOST_PER_RUN, max(self.per_run, len(self.calls), 1))

    def covers(self, reach: Reach, words: str) -> bool:
        """Return True if a call goes only where the grant allows; `words` is the schedule's own text."""
        if (reach.tool, reach.host, reach.version) != (self.tool, self.host, self.version):
            return False
        if reach.reads != self.reads:
            return False
        if reach.host:
            if self.addresses:
                return any(_differ_in_numbers(one, reach.address) for one in self.addresses)
            return _is_said(reach.address, words)
        return self._goes_there(reach) and self._leads_nowhere(reach, words)

    def _goes_there(self, reach: Reach) -> bool:
        anywhere = {text for path, text in self.to if not path}
        if not anywhere and self.reads:
            values = [[f"{path}: {text}" for path, text in sorted(to)] for to in (self.to, reach.to)]
            one, other = map("\n".join, values)
            return _have_other_numbers(one, other)
        if not anywhere:
            return set(reach.to) == set(self.to) and bool(reach.to)
        exact = set(self.to)
        return bool(reach.to) and all(
            pair in exact or pair[1] in anywhere or pair[1].strip('"') in anywhere for pair in reach.to
        )

    def _leads_nowhere(self, reach: Reach, words: str) -> bool:
        """Return True if the texts of a call have no address but those that the person has given."""
        said = Words("\n".join([words, *(text for _, text in self.to)]))
        return all(said.have(lead) for text in reach.texts for lead in leads_in(text))


@dataclass(frozen=True, slots=True)
class Approval:
    """What a person has approved for all runs of a schedule.

    `bound` is the digest of the schedule at that time, `by` the source's number of the person who approved,
    and `operator` means that the owner of the home did so. `run` is the number of the latest run's message,
    and `opened` counts the uses in it, by the keys of the grants. `ended` is set if the approval was ended.
    """

    bound: str
    until: float
    grants: tuple[Grant, ...] = ()
    by: int | None = None
    operator: bool = False
    run: int = 0
    opened: Mapping[str, int] = field(default_factory=dict)
    ended: str = ""

    def why_ended(self, schedule: ScheduleRecord, now: float) -> Ended | None:
        """Return the reason why the approval is not valid for the schedule, None if it is valid."""
        if self.ended:
            return "edited" if self.ended == "edited" else "revoked"
        if self.bound != bound_to(schedule):
            return "owner" if self.bound.partition(":")[0] == _text_of(schedule) else "edited"
        return "expired" if now >= self.until else None

    def take(self, reach: Reach, words: str, run: int) -> "Approval | None":
        """Return the approval with one more use in a run; None if it does not cover the call any more."""
        if run < self.run:
            return None
        opened = self.opened if run == self.run else {}
        for grant in self.grants:
            if not grant.covers(reach, words) or grant.used >= MOST_IN_ALL:
                continue
            after = counted(opened, grant.key, grant.most)
            if after is not None:
                grants = [replace(one, used=one.used + (one is grant)) for one in self.grants]
                return replace(self, run=run, opened=after, grants=tuple(grants))
        return None

    def adding(self, grant: Grant) -> "Approval | None":
        """Return the approval with another grant, or with more uses of one; None if it has too many."""
        known = {one.key: one for one in self.grants}
        before = known.get(grant.key)
        if before is not None:
            calls = tuple(dict.fromkeys((*before.calls, *grant.calls)))
            grant = replace(before, calls=calls, per_run=max(before.per_run, grant.per_run))
        known[grant.key] = grant
        return replace(self, grants=tuple(known.values())) if len(known) <= MOST_GRANTS else None


def bound_to(schedule: ScheduleRecord) -> str:
    """Return the digests of a schedule to which an approval is bound: its text, and whom it belongs to."""
    return f"{_text_of(schedule)}:{_digest(schedule.owner, schedule.chat, schedule.user)}"


def _text_of(schedule: ScheduleRecord) -> str:
    return _digest(schedule.kind, schedule.text, json.loads(schedule.options))


def grant_of(reach: Reach, call: str) -> Grant:
    """Return the grant that covers a call, and later ones with the same reach."""
    addresses = (_canonical(reach.address),) if reach.host else ()
    calls = (_digest(call),)
    return Grant(reach.tool, reach.host, addresses, reach.to, reach.version, reach.reads, calls)


def renewed(schedule: ScheduleRecord, now: float, days: float) -> Approval:
    """Return the schedule's approval, valid for so many days from now; without grants if it has ended."""
    before, until = approval_in(schedule.approval), now + days * 86_400
    if before is None or before.why_ended(schedule, now) is not None:
        return Approval(bound_to(schedule), until)
    return replace(before, until=max(before.until, until))


def words_of(schedule: ScheduleRecord) -> str:
    """Return the words of a schedule that a person has written; none if others may have written them."""
    return "" if schedule.tainted else schedule.text


# Addresses


def _differ_in_numbers(approved: str, address: str) -> bool:
    """Return True if an address is the approved one, except for a few digits and the order of its query."""
    return _have_other_numbers(approved, _canonical(address))


def _have_other_numbers(one: str, other: str) -> bool:
    """Return True if two texts differ in a few digits at most."""
    if _RUNS.split(one) != _RUNS.split(other):
        return False
    numbers = zip(_RUNS.findall(one), _RUNS.findall(other), strict=True)
    changed = [(before, now) for before, now in numbers if before != now]
    longer = any(len(now) > len(before) + 1 for before, now in changed)
    return not longer and sum(len(now) for _, now in changed) <= MOST_DIGITS


def _canonical(address: str) -> str:
    base, mark, query = address.partition("?")
    return f"{base}{mark}{'&'.join(sorted(query.split('&')))}"


def _is_said(address: str, words: str) -> bool:
    """Return True if an address has only words of the text and a few numbers: it can tell its server little.

    Addresses with a query are never said in this sense.
    """
    parts = urlsplit(address)
    # The choice of capitals and of escapes could tell as much as the words.
    if parts.query or quote(unquote(parts.path), safe=_UNESCAPED) != parts.path:
        return False
    known, bits = set(_WORDS.findall(words.casefold())), 0.0
    for part in _WORDS.findall(unquote(parts.path)):
        if part in _BETWEEN or (part.isascii() and part.isdecimal()):
            bits += SIGN_BITS
        elif len(part) > 1 and part.casefold() in known and part in _spellings(part):
            bits += log2(len(known) + 1) + SPELLING_BITS
        else:
            return False
    return bits <= CALL_BITS


def _spellings(word: str) -> tuple[str, ...]:
    return word.lower(), word.upper(), word.capitalize()


def _digest(*parts: object) -> str:
    return sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode(errors="replace")).hexdigest()[
        :24
    ]


# JSON


def approval_json(approval: Approval) -> str:
    """Return an approval as JSON for the schedule's row."""
    return json.dumps(asdict(approval), ensure_ascii=False, sort_keys=True)


def approval_in(stored: str) -> Approval | None:
    """Parse a stored approval. Damaged data gives None, so that nothing is approved."""
    try:
        found: dict[str, Any] = json.loads(stored) if stored else {}
        if not found:
            return None
        grants = tuple(map(_grant, found.pop("grants")))
        approval = Approval(grants=grants, **found)
        return approval if isinstance(approval.until, int | float) else None
    except (TypeError, ValueError, KeyError, AttributeError):
        return None


def _grant(found: dict[str, Any]) -> Grant:
    addresses, calls = tuple(found.pop("addresses")), tuple(found.pop("calls"))
    to = tuple((str(path), str(text)) for path, text in found.pop("to"))
    return Grant(addresses=addresses, calls=calls, to=to, **found)


@dataclass(frozen=True, slots=True)
class ToolVersion:
    """The digest of a tool's accepted description. `reads` means that the tool only reads.

    `stands` is False if no approval in advance may cover the tool.
    """

    digest: str
    reads: bool = False
    stands: bool = True


@dataclass(frozen=True, slots=True)
class Offer:
    """The grant that a parked call offers, and the digest of the schedule when the call was parked."""

    bound: str
    grant: Grant


def offer_json(offer: Offer) -> str:
    """Return an offer as JSON for the parked call's row."""
    return json.dumps(asdict(offer), ensure_ascii=False)


def offer_in(stored: str) -> Offer | None:
    """Parse a stored offer; None if there is none or if it is damaged."""
    try:
        found: dict[str, Any] = json.loads(stored) if stored else {}
        return Offer(str(found["bound"]), _grant(found["grant"])) if found else None
    except (TypeError, ValueError, KeyError, AttributeError):
        return None
