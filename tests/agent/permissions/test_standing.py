"""What a grant of a standing approval covers, and what its stored form may be."""

import json
from dataclasses import replace

import pytest

from rumi.agent.permissions.exact_hosts import exact_host
from rumi.agent.permissions.standing import (
    MOST_GRANTS,
    MOST_IN_ALL,
    Approval,
    Grant,
    Offer,
    approval_in,
    approval_json,
    bound_to,
    grant_of,
    offer_in,
    offer_json,
    renewed,
    words_of,
)
from rumi.agent.tool import Reach
from rumi.store.journal.records import ScheduleRecord
from rumi.web.url import parse_target

SCHEDULE = ScheduleRecord(
    "local", "cli", "turn", "The weather in Madrid, from weather.example", cron="0 9 * * *"
)
WORDS = words_of(SCHEDULE)


def fetch(url: str) -> Reach:
    target = parse_target(url)
    return Reach("web_fetch", host=target.origin, address=target.page, reads=True)


def mail(*to: tuple[str, str], texts: tuple[str, ...] = (), version: str = "v", reads: bool = False) -> Reach:
    return Reach("mail__send", to=to, texts=texts, version=version, reads=reads)


@pytest.mark.parametrize(
    ("url", "covered"),
    [
        ("https://weather.example/", True),
        ("https://weather.example/weather/madrid", True),
        ("https://WEATHER.example/Madrid/2026-11-28", True),
        ("https://weather.example:443/madrid#now", True),
        ("https://weather.example/madrid?d=1", False),
        ("https://weather.example/SECRET", False),
        ("https://weather.example/madrid/s3cr3t", False),
        ("https://weather.example/1234567890123456789012", False),
        (
            "https://weather.example/madrid/madrid/madrid/madrid/madrid/madrid/madrid/madrid/madrid/madrid",
            False,
        ),
        ("https://weather.example/%73%65%63%72%65%74", False),
        ("https://weather.example/%6dadrid", False),
        ("https://weather.example/mAdRid", False),
        ("https://weather.example/MADRID/weather", True),
        ("https://a.weather.example/madrid", False),
        ("https://evilweather.example/madrid", False),
        ("https://weather.example.evil.example/madrid", False),
        ("https://weather.example:80/madrid", False),
        ("http://weather.example/madrid", False),
    ],
)
def test_a_whole_server_counts_for_pages_with_words_of_the_schedule(url: str, covered: bool) -> None:
    grant = Grant("web_fetch", exact_host("weather.example")[1], reads=True)
    assert grant.covers(fetch(url), WORDS) == covered


@pytest.mark.parametrize(
    ("url", "covered"),
    [
        ("https://w.example/v1?city=Madrid&date=2026-11-28&lat=40.41", True),
        ("https://w.example/v1?date=2026-12-01&city=Madrid&lat=40.41", True),
        ("https://w.example/v2?city=Madrid&date=2027-01-31&lat=41.2", True),
        ("https://w.example/v1?city=Madrid&date=2026-11-28", False),
        ("https://w.example/v1?city=Madrid&date=2026-11-28&lat=40.41&x=1", False),
        ("https://w.example/v1?city=Sevilla&date=2026-11-28&lat=40.41", False),
        ("https://w.example/v1?city=MADRID&date=2026-11-28&lat=40.41", False),
        ("https://w.example/v1?city=Madrid&date=20261128&lat=40.41", False),
        ("https://w.example/v1?city=Madrid&date=2026-11-281234567890123&lat=40.41", False),
        ("https://w.example/v1/?city=Madrid&date=2026-11-28&lat=40.41", False),
    ],
)
def test_an_approved_address_may_differ_in_a_few_digits_only(url: str, covered: bool) -> None:
    grant = grant_of(fetch("https://w.example/v1?city=Madrid&date=2026-11-28&lat=40.41"), "call")
    assert grant.covers(fetch(url), WORDS) == covered


@pytest.mark.parametrize(
    ("url", "covered"),
    [
        ("https://w.example/a%20b%203", True),
        ("https://w.example/a%20b%204", True),
        ("https://w.example/a%61b%203", False),
        ("https://w.example/a%20b%20", False),
        ("https://w.example/a%20b%203?", False),
    ],
)
def test_an_escaped_character_is_no_number(url: str, covered: bool) -> None:
    assert grant_of(fetch("https://w.example/a%20b%203"), "call").covers(fetch(url), WORDS) == covered


ANA = ("to", '"ana@example.org"')


@pytest.mark.parametrize(
    ("grant", "call", "covered"),
    [
        ((ANA,), mail(ANA), True),
        ((ANA,), mail(ANA, texts=("Hello, it is 2026-11-28",)), True),
        ((ANA,), mail(ANA, texts=("ana@example.org knows weather.example",)), True),
        ((ANA,), mail(ANA, texts=("www.evil.example",)), False),
        ((ANA,), mail(("cc", '"ana@example.org"')), False),
        ((ANA,), mail(ANA, ANA), True),
        ((ANA,), mail(ANA, ("cc", '"eve@evil.example"')), False),
        ((ANA,), mail(), False),
        ((ANA,), mail(ANA, version="w"), False),
        ((ANA, ("cc", '"bo@example.org"')), mail(ANA), False),
        ((("", "ana@example.org"),), mail(ANA), True),
        ((("", "ana@example.org"),), mail(("cc", '"ana@example.org"')), True),
        ((("", "ana@example.org"),), mail(("to", '"ana@example.org.evil.example"')), False),
        ((("", "ana@example.org"),), mail(ANA, ("cc", '"eve@evil.example"')), False),
        ((("", "ana@example.org"),), mail(), False),
        ((), mail(), False),
        ((), mail(reads=True), False),
    ],
)
def test_a_tool_goes_exactly_where_it_was_approved(
    grant: tuple[tuple[str, str], ...], call: Reach, covered: bool
) -> None:
    assert Grant("mail__send", to=grant, version="v").covers(call, WORDS) == covered


QUERY = ("query", '"News of 2026-11-28"')


@pytest.mark.parametrize(
    ("to", "covered"),
    [
        ((QUERY,), True),
        ((("query", '"News of 2026-12-01"'),), True),
        ((("query", '"News of SECRET"'),), False),
        ((("query", '"news of 2026-11-28"'),), False),
        ((("query", '"News of 2026-11-281234"'),), False),
        ((QUERY, ("limit", "5")), False),
        ((("text", '"News of 2026-11-28"'),), False),
        ((), False),
    ],
)
def test_a_reading_tool_is_told_what_was_approved_with_other_numbers(
    to: tuple[tuple[str, str], ...], covered: bool
) -> None:
    grant = grant_of(mail(QUERY, reads=True), "call")
    assert grant.covers(mail(*to, reads=True), WORDS) == covered
    assert not grant.covers(mail(*to), WORDS)


def test_words_that_others_may_have_written_cover_nothing() -> None:
    assert words_of(replace(SCHEDULE, tainted=True)) == ""


def approval(*grants: Grant) -> Approval:
    return Approval(bound_to(SCHEDULE), 1000.0, grants)


def test_uses_count_by_run_and_in_all() -> None:
    call = fetch("https://w.example/1")
    found = approval(replace(grant_of(call, "call"), per_run=2))
    for run, expected in ((7, True), (7, True), (7, False), (8, True), (7, False), (8, True), (8, False)):
        after = found.take(call, WORDS, run)
        assert (after is not None) == expected, run
        found = after or found
    assert found.grants[0].used == 4
    spent = replace(found, grants=(replace(found.grants[0], used=MOST_IN_ALL),))
    assert spent.take(call, WORDS, 9) is None


def test_another_approved_call_adds_one_use_and_the_same_one_none() -> None:
    grant = grant_of(mail(ANA), "one")
    found: Approval | None = approval()
    for call, most in (("one", 1), ("one", 1), ("two", 2), ("two", 2), ("three", 3)):
        assert found is not None
        found = found.adding(replace(grant_of(mail(ANA), call)))
        assert found is not None
        assert [one.most for one in found.grants] == [most]
    assert grant.most == 1
    for n in range(MOST_GRANTS - 1):
        assert found is not None
        found = found.adding(grant_of(fetch(f"https://w.example/{'x' * (n + 1)}"), "call"))
    assert found is not None
    assert found.adding(grant_of(fetch("https://more.example/"), "call")) is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, None),
        ({"cron": "0 10 * * *", "zone": "Europe/Madrid", "state": "paused", "failures": 2}, None),
        ({"text": "Another text"}, "edited"),
        ({"options": '{"nothing_new": true}'}, "edited"),
        ({"kind": "research"}, "edited"),
        ({"owner": "tg5"}, "owner"),
        ({"chat": "work"}, "owner"),
        ({"user": 7}, "owner"),
    ],
)
def test_an_approval_is_bound_to_text_and_owner(change: dict[str, str], why: str | None) -> None:
    assert approval().why_ended(replace(SCHEDULE, **change), 999.0) == why  # type: ignore[arg-type]
    assert approval().why_ended(SCHEDULE, 1000.0) == "expired"
    assert replace(approval(), ended="edited").why_ended(SCHEDULE, 1.0) == "edited"


def test_an_ended_approval_is_not_renewed_with_its_grants() -> None:
    grant = grant_of(mail(ANA), "one")
    stored = replace(SCHEDULE, approval=approval_json(approval(grant)))
    assert renewed(stored, 10.0, 1).grants == (grant,)
    assert renewed(stored, 2000.0, 1).grants == ()
    assert renewed(replace(stored, text="Another"), 10.0, 1).grants == ()


def test_what_is_stored_is_read_again_and_damage_approves_nothing() -> None:
    found = replace(approval(grant_of(mail(ANA), "a"), grant_of(fetch("https://w.example/"), "b")), by=5)
    found = found.take(mail(ANA), WORDS, 3) or found
    text = approval_json(found)
    assert approval_in(text) == found
    offer = Offer("bound", found.grants[0])
    assert offer_in(offer_json(offer)) == offer
    for damaged in ("", "x", "[]", "{}", "[1]", "null", '{"grants": 1}', '{"bound": "x", "until": 1e99}'):
        assert approval_in(damaged) is None
        assert offer_in(damaged) is None
    loaded = json.loads(text)
    for name in ("bound", "until", "grants"):
        assert approval_in(json.dumps({k: v for k, v in loaded.items() if k != name})) is None
    assert approval_in(json.dumps({**loaded, "until": "never"})) is None


@pytest.mark.parametrize(
    "name", ["*.example", "example.com/x", "a b", "", "user@example.com", "http://", "?"]
)
def test_a_server_is_named_exactly(name: str) -> None:
    with pytest.raises(ValueError, match="host"):
        exact_host(name)
