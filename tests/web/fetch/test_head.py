"""Heads of responses that servers send and browsers accept."""

import h11
import pytest

from rumi.web.fetch.head import HeadRepair
from tests.fakes.web_server import says, serving
from tests.web.fetching import fetcher

OK = b"HTTP/1.1 200 OK"
TYPE = b"Content-Type: text/plain"
LENGTH = b"Content-Length: 4"


def parsed(
    answer: bytes, step: int = 1_000_000, *, most_bytes: int = 65536
) -> tuple[int, dict[bytes, bytes], bytes]:
    """What h11 makes of an answer that comes in pieces and then ends."""
    http, repair = h11.Connection(h11.CLIENT), HeadRepair(most_bytes)
    http.send(h11.Request(method="GET", target="/", headers=[("Host", "a.test")]))
    http.send(h11.EndOfMessage())
    pieces = [answer[start : start + step] for start in range(0, len(answer), step)]
    for piece in (*pieces, b""):
        repaired = repair.repaired(piece)
        if repaired:
            http.receive_data(repaired)
        if not piece:
            http.receive_data(b"")
    status, headers, body = 0, dict[bytes, bytes](), b""
    while not isinstance(event := http.next_event(), h11.EndOfMessage | h11.ConnectionClosed):
        if isinstance(event, h11.Response):
            status, headers = event.status_code, dict(event.headers)
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
    return status, headers, body


@pytest.mark.parametrize("step", [1, 7, 1_000_000])
@pytest.mark.parametrize(
    "line",
    [
        b"get-ban-to-cache/forum.php: userdata not support",
        b'"X-XSS-Protection: 0"',
        b"no colon at all",
        b": no name",
        b"two words: value",
        b"(comment): value",
        "Überschrift: Wert".encode(),
        b"X-Nul: a\0b",
        b"X-Return: a\rb",
        b"X-Space : value",
        b"Server:",
        b"<html>",
        b"HTTP/1.1 200 OK",
        b"bad line\r\n continued: here",
    ],
)
def test_a_malformed_line_costs_no_other_line(line: bytes, step: int) -> None:
    answer = b"\r\n".join([OK, TYPE, line, LENGTH, b"", b"text"])
    status, headers, body = parsed(answer, step)
    assert (status, body) == (200, b"text")
    assert (headers[b"content-type"], headers[b"content-length"]) == (b"text/plain", b"4")


@pytest.mark.parametrize(
    ("first", "status"),
    [
        (b"HTTP/1.1 200", 200),
        (b"HTTP/1.1  200  OK", 200),
        (b"http/1.1 200 ok", 200),
        (b"HTTP/1.0 404 Not Found", 404),
        (b"HTTP/2 200 ", 200),
        (b"HTTP/1.1 600 Strange", 600),
        ("HTTP/1.1 200 Schön".encode("latin-1"), 200),
        (b"HTTP/1.1 200 \x00\x01", 200),
        (b"ICY 200 OK", 200),
        (b"\r\nHTTP/1.1 200 OK", 200),
    ],
)
def test_a_status_line_is_read_as_browsers_read_it(first: bytes, status: int) -> None:
    found, _, body = parsed(b"\r\n".join([first, TYPE, LENGTH, b"", b"text"]))
    assert (found, body) == (status, b"text")


@pytest.mark.parametrize(
    "lines",
    [
        [b"Content-Length: 4 bytes"],
        [b"Content-Length: -1"],
        [b"Content-Length: 4", b"Content-Length: 4"],
        [b"Content-Length: 4, 4"],
        [b"Content-Length: 1", b"Content-Length: 2"],
        [b"Content-Length: "],
        [b"Transfer-Encoding: identity"],
        [b"Transfer-Encoding: identity", b"Content-Length: 4"],
        [],
    ],
)
def test_a_length_that_is_none_leaves_the_body(lines: list[bytes]) -> None:
    assert parsed(b"\r\n".join([OK, TYPE, *lines, b"", b"text"]))[2] == b"text"


@pytest.mark.parametrize(
    "lines",
    [
        [b"Transfer-Encoding: Chunked"],
        [b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"],
        [b"Transfer-Encoding: chunked, chunked"],
        [b"Transfer-Encoding: chunked", b"Content-Length: 99"],
        [b"Transfer-Encoding: gzip, chunked"],
    ],
)
def test_chunks_are_read_whatever_else_is_said(lines: list[bytes]) -> None:
    assert parsed(b"\r\n".join([OK, TYPE, *lines, b"", b"4\r\ntext\r\n0\r\n\r\n"]))[2] == b"text"


def test_lines_may_be_continued_and_end_with_newlines_only() -> None:
    status, headers, body = parsed(b"HTTP/1.1 200 OK\nX-Long: a\n\tb\nContent-Length: 4\n\ntext")
    assert (status, headers[b"x-long"], body) == (200, b"a b", b"text")


def test_interim_answers_are_repaired_too() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nbad line\r\n\r\n"
    assert parsed(early * 2 + b"\r\n".join([OK, b"bad line", LENGTH, b"", b"text"]), 3)[2] == b"text"


def test_the_body_is_passed_on_as_it_is() -> None:
    body = b"HTTP/1.1 200 OK\r\nbad line\r\n\r\n\0"
    assert parsed(b"\r\n".join([OK, TYPE, b"", body]), 5)[2] == body


@pytest.mark.parametrize(
    "answer", [b"no http at all\r\n\r\n", b"", b"HTTP/1.1\r\n\r\n", b"HTTP/1.1 2000 a\r\n\r\n"]
)
def test_what_is_no_http_stays_refused(answer: bytes) -> None:
    with pytest.raises(h11.RemoteProtocolError):
        parsed(answer and answer + b"\r\n\r\n")


def test_a_head_without_end_is_passed_on_and_refused() -> None:
    with pytest.raises(h11.RemoteProtocolError):
        parsed(b"\r\n".join([OK, b"X-A: b"] * 5000), 5000, most_bytes=10_000)


async def test_a_page_with_a_malformed_head_is_fetched() -> None:
    answer = says(b"\r\n".join([OK, b"bad/name: x", TYPE, b"no colon", b"", b"the page"]))
    async with serving({"/": answer}) as server, fetcher(server.endpoint) as world:
        page = await world.fetch(server.url())
    assert (page.text, page.cut) == ("the page", "")


@pytest.mark.parametrize("step", [1, 3, 1_000_000])
@pytest.mark.parametrize("blank", [b"\r\n", b"\r\n\r\n", b"\n\n\n", b"\r\n" * 100])
def test_empty_lines_before_a_head_are_skipped(blank: bytes, step: int) -> None:
    answer = b"\r\n".join([OK, TYPE, LENGTH, b"", b"text"])
    assert parsed(blank + answer, step)[::2] == (200, b"text")


def test_endless_empty_lines_are_refused() -> None:
    with pytest.raises(h11.RemoteProtocolError):
        parsed(b"\r\n" * 10_000, 100)
