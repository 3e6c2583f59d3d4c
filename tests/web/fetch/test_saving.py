"""Downloads of files: what arrives is the file or nothing, whatever its server does in between."""

import gzip
import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
import trio

from rumi.errors import FileError
from rumi.web.messages import FetchError, Save, Saved
from tests.fakes.web_server import (
    GONE,
    Answering,
    Asked,
    WebServer,
    drips,
    gives,
    head,
    redirects,
    resets,
    says,
    serving,
    silence,
    streams,
    then_silence,
)
from tests.web.fetching import BOUND_S, World, fetcher, open_sockets

BODY = bytes(range(256)) * 2000
TAG = {"ETag": '"one"'}
FAST = {"pause_s": 0.01, "stall_s": 0.5}


@dataclass
class Bytes:
    """A sink in memory."""

    data: bytearray = field(default_factory=bytearray)
    resets: int = 0
    full_at: int | None = None

    async def reset(self) -> None:
        self.data.clear()
        self.resets += 1
        await trio.lowlevel.checkpoint()

    async def write(self, data: bytes) -> None:
        if self.full_at is not None and len(self.data) + len(data) > self.full_at:
            raise FileError("The disk is full.")
        self.data += data
        await trio.lowlevel.checkpoint()


async def save(
    world: World,
    url: str,
    sink: Bytes,
    *,
    max_bytes: int = 10_000_000,
    name: str = "",
    progress: Callable[[str], None] = lambda step: None,
) -> Saved:
    with trio.fail_after(BOUND_S):
        return await world.ref.ask(Save(url, "one", sink, max_bytes, name, progress))


async def trouble(world: World, url: str, sink: Bytes | None = None, max_bytes: int = 10_000_000) -> str:
    with pytest.raises(FetchError) as error:
        await save(world, url, sink or Bytes(), max_bytes=max_bytes)
    return error.value.message


def in_turn(*answers: Answering) -> Answering:
    left = list(answers)

    async def answer(stream: trio.abc.Stream, asked: Asked) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(stream, asked)

    return answer


def breaks(
    after: int, headers: Mapping[str, str] | None = None, body: bytes = BODY, *, chunked: bool = False
) -> Answering:
    """The whole body is promised, and some of it comes."""
    told = {"Content-Type": "text/csv", **(headers or {})}
    told |= {"Transfer-Encoding": "chunked"} if chunked else {"Content-Length": str(len(body))}
    part = body[:after]
    return resets(head(200, told) + (b"%x\r\n%s\r\n" % (len(part), part) if chunked else part))


def part(
    body: bytes = BODY, headers: Mapping[str, str] | None = None, *, told_range: str = "", status: int = 206
) -> Answering:
    """Answers a range as it was asked for, or says another one."""

    async def answer(stream: trio.abc.Stream, asked: Asked) -> None:
        start = int(asked.headers.get("range", "bytes=0-").removeprefix("bytes=").removesuffix("-"))
        rest = body[start:]
        told = {
            "Content-Length": str(len(rest)),
            "Content-Range": told_range or f"bytes {start}-{len(body) - 1}/{len(body)}",
            **(headers or {}),
        }
        await stream.send_all(head(status, told) + rest)

    return answer


def ranges(server: WebServer) -> list[tuple[str, str]]:
    return [(asked.headers.get("range", ""), asked.headers.get("if-range", "")) for asked in server.asked]


async def test_bytes_arrive_as_they_are_with_facts_about_them() -> None:
    sink, before = Bytes(), open_sockets()
    answer = gives(BODY, media_type="text/csv", headers={"Content-Disposition": 'x; filename="a b.csv"'})
    steps: list[str] = []
    async with serving({"/": redirects("/file"), "/file": answer}) as server:
        async with fetcher(server.endpoint) as world:
            saved = await save(world, server.url(), sink, progress=steps.append)
    assert sink.data == BODY
    assert saved == Saved(
        server.url("/file"),
        "text/csv",
        "a b.csv",
        len(BODY),
        hashlib.sha256(BODY).hexdigest(),
        BODY[:4096],
        2000,
        redirects=1,
    )
    assert steps[0] == "redirected to 127.0.0.1"
    assert steps[-1].endswith("of 512.0 KB")
    assert {asked.headers["accept-encoding"] for asked in server.asked} == {"identity"}
    assert open_sockets() == before


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(
    ("headers", "validator"),
    [
        (TAG, '"one"'),
        (
            {"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT", "Date": "Mon, 01 Jan 2024 00:01:00 GMT"},
            "Mon, 01 Jan 2024 00:00:00 GMT",
        ),
    ],
)
async def test_a_broken_download_goes_on_where_it_broke(
    headers: Mapping[str, str], validator: str, chunked: bool
) -> None:
    sink = Bytes()
    again = [breaks(200_000, headers, chunked=chunked), part(headers=headers)]
    async with serving({"/": in_turn(*again)}) as server, fetcher(server.endpoint, **FAST) as world:
        saved = await save(world, server.url(), sink)
    assert (bytes(sink.data), saved.tries, sink.resets) == (BODY, 2, 1)
    assert saved.sha256 == hashlib.sha256(BODY).hexdigest()
    assert ranges(server) == [("", ""), ("bytes=200000-", validator)]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"ETag": 'W/"weak"'},
        {"ETag": "no quotes"},
        {**TAG, "Accept-Ranges": "none"},
        {"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT", "Date": "Mon, 01 Jan 2024 00:00:00 GMT"},
        {"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"},
        {"Last-Modified": "yesterday", "Date": "Mon, 01 Jan 2024 00:01:00 GMT"},
    ],
)
async def test_a_file_that_cannot_be_recognized_begins_again(headers: Mapping[str, str]) -> None:
    sink = Bytes()
    async with serving({"/": in_turn(breaks(1000, headers), gives(BODY))}) as server:
        async with fetcher(server.endpoint, **FAST) as world:
            saved = await save(world, server.url(), sink)
    assert (bytes(sink.data), saved.tries, sink.resets) == (BODY, 2, 2)
    assert ranges(server) == [("", "")] * 2


OTHER = bytes(reversed(BODY))


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(gives(OTHER), id="the whole of another file"),
        pytest.param(part(OTHER, {"ETag": '"two"'}), id="a part of another file"),
        pytest.param(part(OTHER + b"more"), id="a part of a longer file"),
        pytest.param(part(OTHER, told_range="bytes 0-511999/512000"), id="another part"),
        pytest.param(part(OTHER, told_range="bytes 1000-1999/512000"), id="less than the rest"),
        pytest.param(part(OTHER, told_range="nonsense"), id="no range"),
        pytest.param(
            part(OTHER, {"Content-Type": "multipart/byteranges; boundary=x"}, told_range=" "), id="parts"
        ),
        pytest.param(part(OTHER, {"Content-Encoding": "gzip"}), id="compressed"),
        pytest.param(gives(b"", 416, headers={"Content-Range": "bytes */3"}), id="out of range"),
    ],
)
async def test_a_file_that_has_changed_begins_again(second: Answering) -> None:
    sink = Bytes()
    answers = in_turn(breaks(1000, TAG), second, gives(OTHER))
    async with serving({"/": answers}) as server, fetcher(server.endpoint, **FAST) as world:
        saved = await save(world, server.url(), sink)
    assert bytes(sink.data) == OTHER
    assert saved.sha256 == hashlib.sha256(OTHER).hexdigest()


async def test_another_host_after_a_redirect_never_continues_a_file() -> None:
    sink = Bytes()
    async with serving({"/": part(OTHER, TAG)}) as other, serving() as server:
        server.paths = {"/": in_turn(redirects("/one"), redirects(other.url()))}
        server.paths["/one"] = breaks(1000, TAG)
        other.paths["/"] = in_turn(part(OTHER, TAG), gives(OTHER))
        async with fetcher(server.endpoint, other.endpoint, **FAST) as world:
            await save(world, server.url(), sink)
    assert bytes(sink.data) == OTHER


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_a_server_that_is_busy_in_between_is_asked_again(status: int) -> None:
    sink = Bytes()
    answers = in_turn(breaks(1000, TAG), gives(b"busy", status), part(headers=TAG))
    async with serving({"/": answers}) as server, fetcher(server.endpoint, **FAST) as world:
        saved = await save(world, server.url(), sink)
    assert (bytes(sink.data), saved.tries) == (BODY, 3)


@pytest.mark.parametrize("status", [204, 205, 304, 401, 403, 404, 410, 416, 500, 503])
async def test_an_answer_that_is_no_file_is_not_saved(status: int) -> None:
    body = b"" if status in (204, 205, 304) else b"<h1>no</h1>"
    async with serving({"/": gives(body, status)}) as server, fetcher(server.endpoint) as world:
        assert f"status {status}" in await trouble(world, server.url())
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [403, 404, 410])
async def test_a_file_that_is_gone_in_between_is_not_saved(status: int) -> None:
    answers = in_turn(breaks(1000, TAG), gives(b"gone", status))
    async with serving({"/": answers}) as server, fetcher(server.endpoint, **FAST) as world:
        assert f"status {status}" in await trouble(world, server.url())


async def test_a_part_that_nobody_asked_for_is_not_saved_unless_it_is_all() -> None:
    sink, some = Bytes(), part(told_range="bytes 5-9/512000")
    async with serving({"/": part(), "/some": some}) as server, fetcher(server.endpoint) as world:
        await save(world, server.url(), sink)
        assert "only a part" in await trouble(world, server.url("/some"))
    assert bytes(sink.data) == BODY


LATE = head(200, {"Content-Length": "512000", **TAG}) + BODY[:1000]


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(breaks(1000, TAG), id="reset"),
        pytest.param(says(LATE), id="closed"),
        pytest.param(then_silence(LATE), id="stalled"),
        pytest.param(
            says(head(200, {"Transfer-Encoding": "chunked"}) + b"4\r\nabcd\r\n"), id="chunks without an end"
        ),
        pytest.param(says(head(200, {"Transfer-Encoding": "chunked"}) + b"zz\r\n"), id="broken chunks"),
    ],
)
async def test_a_file_that_never_comes_completely_is_not_saved(bad: Answering) -> None:
    async with serving({"/": bad}) as server:
        async with fetcher(server.endpoint, **(FAST | {"stall_s": 0.1, "tries": 3})) as world:
            assert "in 3 tries" in await trouble(world, server.url())
    assert len(server.asked) == 3


async def test_a_server_that_never_answers_is_given_up_and_one_that_drips_is_too_slow() -> None:
    limits = {"pause_s": 0.01, "tries": 2, "stall_s": 0.4, "pace_s": 0.3, "pace_bytes": 1000}
    async with serving({"/": silence, "/drips": drips()}) as server:
        async with fetcher(server.endpoint, **limits) as world:
            assert "did not answer" in await trouble(world, server.url())
            assert "too slow" in await trouble(world, server.url("/drips"))
    assert len(server.asked) == 1 + 2


async def test_a_download_has_an_end_even_if_it_always_goes_on() -> None:
    answer = drips(b"x" * 1000, every_s=0.01)
    async with serving({"/": answer}) as server, fetcher(server.endpoint, saving_s=0.3) as world:
        assert "within 0.005 minutes" in await trouble(world, server.url())


@pytest.mark.parametrize(
    "large",
    [
        pytest.param(gives(BODY), id="as the server says"),
        pytest.param(streams(lambda: iter([BODY]), chunked=True), id="in chunks"),
        pytest.param(says(head(200, {}) + BODY), id="without a size"),
        pytest.param(
            gives(gzip.compress(BODY * 10), headers={"Content-Encoding": "gzip"}), id="when it is unpacked"
        ),
    ],
)
async def test_a_file_that_is_too_large_is_not_saved(large: Answering) -> None:
    sink = Bytes()
    async with serving({"/": large}) as server, fetcher(server.endpoint, **FAST) as world:
        said = await trouble(world, server.url(), sink, 500_000)
    assert "500.0 KB" in said
    assert len(sink.data) <= 500_000
    assert len(server.asked) == 1


async def test_the_largest_file_is_saved_and_so_is_an_empty_one() -> None:
    sink, empty = Bytes(), Bytes()
    async with serving({"/": gives(BODY), "/empty": gives(b"")}) as server, fetcher(server.endpoint) as world:
        await save(world, server.url(), sink, max_bytes=len(BODY))
        server.paths["/large"] = gives(b"x" * (1024 * 1024 + 1))
        assert "at most 1 MB" in await trouble(world, server.url("/large"), max_bytes=1024 * 1024)
        saved = await save(world, server.url("/empty"), empty)
    assert (bytes(sink.data), saved.size, saved.sha256[:8]) == (BODY, 0, "e3b0c442")


PACKED = gzip.compress(b"a,b\n" * 1000)
GZIP = {"Content-Encoding": "gzip"}


@pytest.mark.parametrize(
    ("path", "name", "media_type", "unpacked"),
    [
        ("/rates.csv", "", "text/csv", True),
        ("/rates", "", "application/json", True),
        ("/rates.csv.gz", "", "text/csv", False),
        ("/rates.tar.gz", "", "application/x-tar", False),
        ("/rates.tgz", "", "application/octet-stream", False),
        ("/rates", "", "application/gzip", False),
        ("/rates", "", "application/x-gzip", False),
        ("/rates", "data/rates.csv.gz", "text/csv", False),
    ],
)
async def test_only_what_the_transfer_compressed_is_unpacked(
    path: str, name: str, media_type: str, unpacked: bool
) -> None:
    sink = Bytes()
    answer = gives(PACKED, media_type=media_type, headers=GZIP)
    async with serving({path: answer}) as server, fetcher(server.endpoint) as world:
        saved = await save(world, server.url(path), sink, name=name)
    assert (bytes(sink.data), saved.unpacked) == (b"a,b\n" * 1000 if unpacked else PACKED, unpacked)


async def test_an_archive_without_a_label_stays_as_it_is() -> None:
    sink = Bytes()
    answer = gives(PACKED, media_type="text/csv")
    async with serving({"/": answer}) as server, fetcher(server.endpoint) as world:
        saved = await save(world, server.url(), sink)
    assert (bytes(sink.data), saved.unpacked) == (PACKED, False)


async def test_a_compressed_file_that_breaks_begins_again_and_a_damaged_one_is_not_saved() -> None:
    sink = Bytes()
    answers = in_turn(
        breaks(20, GZIP | TAG, PACKED), gives(PACKED, media_type="text/csv", headers=GZIP | TAG)
    )
    damaged = gives(PACKED[:30] + b"#" * 80, media_type="text/csv", headers=GZIP)
    async with serving({"/": answers, "/damaged": damaged}) as server:
        async with fetcher(server.endpoint, **FAST) as world:
            await save(world, server.url(), sink)
            assert "damaged" in await trouble(world, server.url("/damaged"))
    assert bytes(sink.data) == b"a,b\n" * 1000
    assert ranges(server)[1] == ("", "")


async def test_without_a_size_the_end_of_the_connection_is_the_end_and_that_is_said() -> None:
    sink = Bytes()
    async with serving({"/": says(head(200, {}) + BODY)}) as server, fetcher(server.endpoint) as world:
        saved = await save(world, server.url(), sink)
    assert (bytes(sink.data), saved.sized) == (BODY, False)


async def test_the_guard_judges_each_redirect_of_each_try() -> None:
    inside = "http://10.0.0.1/"
    paths = {"/": redirects(inside), "/then": in_turn(breaks(1000, TAG), redirects(inside))}
    async with serving(paths) as server, fetcher(server.endpoint, **FAST) as world:
        assert "not public" in await trouble(world, server.url())
        assert "not public" in await trouble(world, server.url("/then"))


@pytest.mark.parametrize(
    "url", ["ftp://a.example/x", "data:text/csv,a", "file:///etc/passwd", "http://127.0.0.1/"]
)
async def test_what_is_no_public_web_address_is_not_asked(url: str) -> None:
    async with fetcher() as world:
        await trouble(world, url)


async def test_a_full_disk_is_told_and_ends_the_download() -> None:
    before = open_sockets()
    async with serving({"/": gives(BODY)}) as server, fetcher(server.endpoint) as world:
        assert "disk is full" in await trouble(world, server.url(), Bytes(full_at=1000))
    assert open_sockets() == before


async def test_a_cancelled_download_leaves_no_connection_and_no_slot() -> None:
    before = open_sockets()
    async with serving({"/": then_silence(LATE)}) as server, fetcher(server.endpoint) as world:
        for _ in range(3):  # more than the slots of a chat
            with trio.move_on_after(0.2), suppress(*GONE):
                await save(world, server.url(), Bytes())
        assert "downloading" not in world.activity()
    assert open_sockets() == before
