"""Odd and hostile events, servers and names: one odd event never stops a sync, and the token stays here."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from rumi.channels.matrix.address import MatrixAccount
from rumi.channels.matrix.api import MatrixApi, MatrixError
from rumi.channels.matrix.formatting import MOST_BYTES, content_of, edit_of, html_in, parts_of
from rumi.channels.matrix.intake import MatrixIntake, MatrixPeople
from rumi.channels.matrix.reading import event_of, file_of, relation_of, said_in, words_of
from rumi.channels.matrix.rooms import Rooms
from rumi.channels.matrix.wire import AccountWire
from rumi.platform.config.schema import MatrixSection
from rumi.store.journal.matrix import StoredEvent, SyncBatch

RUMI, ANA = "@rumi:x.test", "@ana:x.test"
SECTION = MatrixSection.model_validate({"homeserver": "https://x.test", "user": RUMI, "users": (ANA,)})

Answer = Callable[[httpx.Request], httpx.Response]


def api(answer: Answer) -> MatrixApi:
    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return MatrixApi(client, "https://x.test", "syt_secret", RUMI)


def members(*users: str) -> Answer:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"joined": {user: {} for user in users}})

    return answer


class Stores:
    """Stores batches in memory."""

    def __init__(self) -> None:
        self.batches = list[SyncBatch]()
        self.chats: Any = self

    async def accept_sync(self, batch: SyncBatch) -> tuple[StoredEvent, ...]:
        await trio.lowlevel.checkpoint()
        self.batches.append(batch)
        return tuple(StoredEvent(number, event.message) for number, event in enumerate(batch.events, 1))

    async def drop(self, chat: str, number: int) -> bool:
        await trio.lowlevel.checkpoint()
        return True


class Notices:
    """Takes notices."""

    def __init__(self) -> None:
        self.said = list[Any]()

    def tell_nowait(self, notice: Any) -> None:
        self.said.append(notice)


async def taken(
    *events: object, users: tuple[str, ...] = (RUMI, ANA)
) -> tuple[list[Any], MatrixIntake, Notices]:
    """The messages that these events of a room become."""
    wire, stores, notices = (
        AccountWire(MatrixAccount("home", RUMI), api(members(*users))),
        Stores(),
        Notices(),
    )
    people = MatrixPeople({ANA: "member"}, SECTION)

    async def ask(request: Any) -> Any:
        await trio.lowlevel.checkpoint()
        return False if request.request_name == "has_event" else None

    intake = MatrixIntake(wire, Rooms(wire.api), people, stores, ask, notices)  # type: ignore[arg-type]

    def start(work: Callable[[], Awaitable[None]]) -> None:
        assert work

    assert await intake.take("a", "b", [("!r:x.test", events)], start)
    (batch,) = stores.batches
    return [event.message for event in batch.events if event.message is not None], intake, notices


def message(number: int = 1, sender: str = ANA, **content: Any) -> dict[str, Any]:
    return {
        "event_id": f"$m{number}",
        "sender": sender,
        "type": "m.room.message",
        "origin_server_ts": 1_700_000_000_000,
        "content": {"msgtype": "m.text", "body": f"this is {number}", **content},
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = (
    *("event_id", "sender", "type", "origin_server_ts", "content", "unsigned", "state_key", "redacts"),
    *(
        "msgtype",
        "body",
        "formatted_body",
        "m.mentions",
        "m.relates_to",
        "m.new_content",
        "url",
        "info",
        "file",
    ),
)
KINDS = ("m.room.message", "m.room.redaction", "m.reaction", "m.room.member", "m.room.encrypted", "x.unknown")


@st.composite
def odd_events(draw: st.DrawFn) -> dict[str, Any]:
    event = message(draw(st.integers(2, 9)), draw(st.sampled_from((ANA, RUMI, "@eve:x.test"))))
    event["type"] = draw(st.sampled_from(KINDS))
    relation = {
        "rel_type": draw(st.sampled_from(("m.replace", "m.thread", "m.annotation", "x"))),
        "event_id": "$m1",
    }
    event["content"]["m.relates_to"] = relation
    event["content"]["msgtype"] = draw(
        st.sampled_from(("m.text", "m.file", "m.audio", "m.location", "m.emote"))
    )
    for name in draw(st.lists(st.sampled_from(FIELDS), max_size=3)):
        where = event if name in FIELDS[:8] else event["content"]
        if isinstance(where, dict):
            where[name] = draw(JSON)
    return event


@settings(max_examples=50)
@given(st.lists(odd_events(), max_size=4))
def test_odd_events_never_keep_a_good_one_from_being_stored(events: list[dict[str, Any]]) -> None:
    async def look() -> None:
        messages, _, _ = await taken(*events, message(100), 7, None, [], "x")
        assert [one.text for one in messages if one.text == "this is 100"] == ["this is 100"]

    trio.run(look)


@settings(max_examples=50)
@given(JSON)
def test_any_json_can_be_read_as_an_event(raw: Any) -> None:
    event = event_of({**message(), "content": raw})
    assert event is not None
    words_of(event.content, RUMI, "Rumi", answers=True)
    relation_of(event.content)
    file_of(event)
    said_in(event.content)


async def test_a_room_with_many_members_is_a_group(capsys: pytest.CaptureFixture[str]) -> None:
    crowd = tuple(f"@user{number}:x.test" for number in range(10_000))
    messages, _, _ = await taken(
        message(1), message(2, **{"m.mentions": {"user_ids": [RUMI]}}), users=(RUMI, ANA, *crowd)
    )
    assert [one.text for one in messages] == ["this is 2"]
    assert messages[0].chat.startswith("mx-home-r")


async def test_events_of_the_far_future_huge_ones_and_programs_do_no_harm() -> None:
    future = message(1) | {"origin_server_ts": 2**60}
    huge = message(2, body="x" * 500_000)
    program = message(3, msgtype="m.notice")
    redacted = message(4) | {"content": {}}
    messages, intake, _ = await taken(future, huge, program, redacted, message(5) | {"event_id": "$" * 999})
    assert [one.sent for one in messages] == [0.0, 1_700_000_000.0]
    assert len(messages[1].text) == 100_000
    assert intake.counts["odd"] == 1


async def test_strangers_are_told_their_id_once_and_nothing_is_stored() -> None:
    eve = "@eve:x.test"
    messages, intake, notices = await taken(message(1, eve), message(2, eve), users=(RUMI, eve))
    assert messages == []
    assert [eve in notice.text for notice in notices.said] == [True]
    assert intake.counts["strangers"] == 2


@pytest.mark.parametrize(
    ("body", "content", "text"),
    [
        ("Rumi: hello", {}, "hello"),
        ("@rumi:x.test hello", {}, "hello"),
        ("hello, @rumi:x.test?", {}, "hello"),
        ("!status", {}, "/status"),
        ("/stop", {}, "/stop"),
        ("hi", {"m.mentions": {"user_ids": [RUMI]}}, "hi"),
        ("hi", {"formatted_body": '<a href="https://matrix.to/#/%40rumi%3Ax.test">R</a> hi'}, "hi"),
        ("> <@ben:x.test> what?\n> more\n\nRumi: that", {}, "that"),
        ("rumination", {}, None),
        ("!unknown", {}, None),
        ("ask somebody else", {"m.mentions": {"user_ids": ["@rum:x.test"]}}, None),
    ],
)
def test_what_is_addressed_to_rumi(body: str, content: dict[str, Any], text: str | None) -> None:
    found = words_of(
        {"body": body, "msgtype": "m.text", **content}, RUMI, "Rumi", answers=body.startswith(">")
    )
    assert found.addressed == (text is not None)
    assert text is None or found.text == text


def test_html_of_a_reply_has_no_script_style_or_picture() -> None:
    html = html_in(
        "<script>x</script> **b** <img src=x onerror=y> [a](javascript:alert(1)) ![p](https://e.test/p.png)"
    )
    assert "<strong>b</strong>" in html
    assert not [bad for bad in ("<script", "<img", 'javascript:alert(1)"', "onerror=y>") if bad in html]
    assert '<a href="https://e.test/p.png">p</a>' in html


@settings(max_examples=25)
@given(st.text(max_size=4000), st.integers(1, 12))
def test_each_part_fits_into_an_event_also_as_an_edit(text: str, times: int) -> None:
    for part in parts_of(text * times):
        content = content_of(part)
        assert len(json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")) <= MOST_BYTES
        assert len(json.dumps(edit_of("$e", content), ensure_ascii=False).encode("utf-8", "replace")) < 60_000


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (httpx.Response(502, html="<html>bad"), "unknown"),
        (httpx.Response(200, html="<html>a login page"), "unknown"),
        (httpx.Response(200, json=[1]), "unknown"),
        (httpx.Response(200, json={}), "unknown"),
        (httpx.Response(200, content=b'{"event_id": "' + b"\xff\xfe"), "unknown"),
        (httpx.Response(200, content=b"[" * 100_000), "unknown"),
        (httpx.Response(429, json={"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": 2500}), "limited"),
        (httpx.Response(429, headers={"Retry-After": "7"}), "limited"),
        (httpx.Response(429, json={"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": "NaN"}), "limited"),
        (httpx.Response(403, json={"errcode": "M_FORBIDDEN", "error": 7}), "refused"),
        (httpx.Response(401, json={"errcode": "M_UNKNOWN_TOKEN"}), "token"),
        (httpx.Response(403, html="a proxy"), "unknown"),
        (httpx.Response(307, headers={"Location": "https://evil.test/"}), "unknown"),
    ],
)
async def test_odd_servers_give_clear_errors(answer: httpx.Response, kind: str) -> None:
    with pytest.raises(MatrixError) as raised:
        await api(lambda request: answer).send("!r:x.test", "m.room.message", {}, "t")
    assert raised.value.kind == kind
    assert 0 <= raised.value.wait_s <= 3600
    assert "syt_secret" not in str(raised.value)


async def test_the_token_goes_to_the_server_alone_and_only_in_the_header() -> None:
    asked = list[httpx.Request]()

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        if "whoami" in request.url.path:
            return httpx.Response(307, headers={"Location": "https://evil.test/steal"})
        return httpx.Response(200, json={"event_id": "$e", "next_batch": "n", "joined": {}})

    server = api(answer)
    with pytest.raises(MatrixError):
        await server.whoami()
    await server.send("!r/../x:x.test", "m.room.message", {"body": "x"}, "t")
    await server.sync("s", 0, {})
    assert {request.url.host for request in asked} == {"x.test"}
    assert not [
        request for request in asked if "syt_secret" in str(request.url) or "access_token" in str(request.url)
    ]
    assert {request.headers["authorization"] for request in asked} == {"Bearer syt_secret"}
    assert b"%21r%2F..%2Fx" in asked[1].url.raw_path


async def test_a_server_that_never_ends_its_answer_is_bounded() -> None:
    class Endless(httpx.AsyncByteStream):
        async def __aiter__(self) -> Any:
            while True:
                await trio.lowlevel.checkpoint()
                yield b"x" * 100_000

    with pytest.raises(MatrixError, match="too large"):
        await api(lambda request: httpx.Response(200, stream=Endless())).whoami()
