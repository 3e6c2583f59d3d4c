"""Servers over HTTP as they are: lost sessions, odd answers, and why an address does not work."""

import json
import queue
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme
from pydantic import ValidationError

from rumi.agent.mcp.messages import McpError, ServerSettings
from rumi.agent.mcp.servers import try_once
from rumi.platform.config.schema import McpSection
from tests.agent.mcp.world import house

READS = {"readOnlyHint": True, "openWorldHint": False}


class Odd(BaseHTTPRequestHandler):
    """A server of tools; `oddity` may answer a request in another way, and then returns True."""

    protocol_version = "HTTP/1.1"
    oddity: Callable[["Odd", dict[str, Any]], bool]
    calls: list[str]
    sessions: list[str]

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if type(self).oddity(self, message):
            return
        method, id_ = message.get("method"), message.get("id")
        if id_ is None:
            self.send(202)
        elif method == "initialize":
            self.sessions.append(f"session-{len(self.sessions)}")
            result = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "odd", "version": "1"},
            }
            self.answer(id_, result, **{"mcp-session-id": self.sessions[-1]})
        elif method == "tools/list":
            tools = [
                {"name": "look", "inputSchema": {"type": "object"}, "annotations": READS},
                {"name": "change", "inputSchema": {"type": "object"}},
            ]
            self.answer(id_, {"tools": tools})
        elif method == "tools/call":
            self.calls.append(message["params"]["name"])
            self.answer(id_, {"content": [{"type": "text", "text": "done"}]})
        else:
            error = {"code": -32601, "message": "no such method"}
            self.send(200, {"jsonrpc": "2.0", "id": id_, "error": error})

    def do_GET(self) -> None:
        if not type(self).oddity(self, {"method": "GET"}):
            self.send(405)

    def do_DELETE(self) -> None:
        self.send(405)

    def answer(self, id_: object, result: object, **headers: str) -> None:
        self.send(200, {"jsonrpc": "2.0", "id": id_, "result": result}, **headers)

    def send(self, status: int, body: object = None, kind: str = "application/json", **headers: str) -> None:
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        if content:
            self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def served(
    oddity: Callable[[Odd, dict[str, Any]], bool], tls: ssl.SSLContext | None = None
) -> Iterator[tuple[type[Odd], str]]:
    """Serve odd answers until the block ends; yields the handler, and the address without a path."""
    handler = type("Handler", (Odd,), {"oddity": staticmethod(oddity), "calls": [], "sessions": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield handler, f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def at(url: str, **headers: str) -> ServerSettings:
    section = McpSection(url=url, start_timeout_s=10.0, timeout_s=10.0)
    return ServerSettings("web", section, headers=headers)


def ordinary(request: Odd, message: dict[str, Any]) -> bool:
    return False


def forgets(answer: Callable[[Odd, dict[str, Any]], None]) -> Callable[[Odd, dict[str, Any]], bool]:
    """A server that has forgotten its first session at the time of the first call."""

    def oddity(request: Odd, message: dict[str, Any]) -> bool:
        lost = message.get("method") == "tools/call" and request.headers["mcp-session-id"] == "session-0"
        if lost:
            answer(request, message)
        return lost

    return oddity


def refuse(status: int, message: str) -> Callable[[Odd, dict[str, Any]], None]:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": message}}
    return lambda request, _: request.send(status, error)


LOST = [
    lambda request, _: request.send(404),
    lambda request, _: request.send(404, b"Session not found", "text/plain"),
    refuse(404, "Session not found"),
    refuse(400, "Bad Request: No valid session ID provided"),
    refuse(400, "Bad Request: Server not initialized; no such session"),
]


@pytest.mark.parametrize("answer", LOST)
async def test_a_call_that_only_reads_is_made_again_in_a_new_session(
    tmp_path: Path, answer: Callable[[Odd, dict[str, Any]], None]
) -> None:
    with served(forgets(answer)) as (server, url):
        async with house(tmp_path, at(f"{url}/mcp")) as here:
            result = await here.call("web__look")
            assert "done" in result.content
            assert (server.calls, len(server.sessions)) == (["look"], 2)
            assert here.servers.report()[0]["failures"] == 0


@pytest.mark.parametrize("answer", LOST)
async def test_a_call_that_may_change_something_is_told_and_not_repeated(
    tmp_path: Path, answer: Callable[[Odd, dict[str, Any]], None]
) -> None:
    with served(forgets(answer)) as (server, url):
        async with house(tmp_path, at(f"{url}/mcp")) as here:
            result = await here.call("web__change")
            assert not result.ok
            assert "a new one was started, so the call was not made" in result.content
            assert server.calls == []
            assert (await here.call("web__change")).ok
            assert server.calls == ["change"]


async def test_a_server_that_forgets_every_session_is_asked_twice_and_no_more(tmp_path: Path) -> None:
    asked = []

    def oddity(request: Odd, message: dict[str, Any]) -> bool:
        if message.get("method") != "tools/call":
            return False
        asked.append(1)
        request.send(404)
        return True

    with served(oddity) as (_, url):
        async with house(tmp_path, at(f"{url}/mcp")) as here:
            assert not (await here.call("web__look")).ok
            assert len(asked) == 2


@pytest.mark.parametrize(
    ("status", "headers", "said"),
    [
        (
            401,
            {},
            'rumi config set WEB_TOKEN -, and in config.toml: [mcp.web.headers] Authorization = "Bearer',
        ),
        (403, {}, "The server wants credentials (HTTP 403)."),
        (401, {"Authorization": "Bearer x"}, "The server does not accept the credentials (HTTP 401)."),
        (404, {}, "There is no server of tools at http://127.0.0.1"),
        (405, {}, "for older servers (SSE) in /sse"),
        (410, {}, "(HTTP 410)"),
        (429, {}, "too many requests"),
        (500, {}, "The server has an error of its own (HTTP 500)."),
        (502, {}, "(HTTP 502)"),
        (415, {}, "The server refuses our requests (HTTP 415)."),
    ],
)
async def test_a_status_is_explained(tmp_path: Path, status: int, headers: dict[str, str], said: str) -> None:
    def oddity(request: Odd, message: dict[str, Any]) -> bool:
        request.send(status, {"error": "no"})
        return True

    with served(oddity) as (_, url), pytest.raises(McpError) as failed:
        await try_once(at(f"{url}/wrong?user=s3cret", **headers), tmp_path, accept=False)
    assert said in str(failed.value)
    assert "s3cret" not in str(failed.value)


@pytest.mark.parametrize(
    ("status", "said"),
    [(503, "(HTTP 503)"), (401, "wants credentials"), (429, "too many"), (504, "(HTTP 504)")],
)
async def test_a_call_that_fails_with_a_status_says_which(tmp_path: Path, status: int, said: str) -> None:
    def oddity(request: Odd, message: dict[str, Any]) -> bool:
        if message.get("method") != "tools/call":
            return False
        request.send(status, b"<h1>no</h1>", "text/html")
        return True

    with served(oddity) as (_, url):
        async with house(tmp_path, at(f"{url}/mcp")) as here:
            assert said in (await here.call("web__look")).content


@pytest.mark.parametrize(("status", "follows"), [(307, True), (308, True), (301, False), (302, False)])
async def test_a_trailing_slash_is_followed_or_named(tmp_path: Path, status: int, follows: bool) -> None:
    def oddity(request: Odd, message: dict[str, Any]) -> bool:
        if request.path == "/mcp":
            request.send(status, location="/mcp/")
        return request.path == "/mcp"

    with served(oddity) as (_, url):
        if follows:
            assert len((await try_once(at(f"{url}/mcp"), tmp_path, accept=False)).tools) == 2
        else:
            with pytest.raises(McpError, match=f"has moved to {url}/mcp/"):
                await try_once(at(f"{url}/mcp"), tmp_path, accept=False)


async def test_a_redirect_to_another_server_is_named_and_not_followed(tmp_path: Path) -> None:
    def oddity(request: Odd, message: dict[str, Any]) -> bool:
        request.send(308, location="https://other.example/mcp?token=s3cret")
        return True

    with (
        served(oddity) as (_, url),
        pytest.raises(McpError, match=r"moved to https://other\.example/mcp ") as no,
    ):
        await try_once(at(f"{url}/mcp"), tmp_path, accept=False)
    assert "s3cret" not in str(no.value)


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/octet-stream", "application/vnd.api+json", "text/json; charset=utf-8"]
)
async def test_json_that_is_sent_as_another_type_is_read(tmp_path: Path, kind: str) -> None:
    def oddity(request: Odd, message: dict[str, Any]) -> bool:
        request.send = lambda status, body=None, _="", **h: Odd.send(request, status, body, kind, **h)
        return False

    with served(oddity) as (_, url):
        async with house(tmp_path, at(f"{url}/mcp")) as here:
            assert (await here.call("web__look")).ok


@pytest.mark.parametrize("status", [200, 202, 204])
async def test_a_notification_may_be_accepted_with_any_success(tmp_path: Path, status: int) -> None:
    def oddity(request: Odd, message: dict[str, Any]) -> bool:
        if "id" in message or message.get("method") == "GET":
            return False
        request.send(status)
        return True

    with served(oddity) as (_, url):
        assert (await try_once(at(f"{url}/mcp"), tmp_path, accept=False)).tools


async def test_a_call_that_is_only_accepted_ends_with_an_error(tmp_path: Path) -> None:
    for status in (202, 204):

        def oddity(request: Odd, message: dict[str, Any]) -> bool:
            if message.get("method") == "tools/call":
                request.send(status)  # noqa: B023
            return message.get("method") == "tools/call"

        with served(oddity) as (_, url):
            async with house(tmp_path / str(status), at(f"{url}/mcp")) as here:
                assert not (await here.call("web__look")).ok
                assert here.servers.report()[0]["state"] == "ready"


def test_an_address_may_have_a_query_without_a_secret() -> None:
    assert McpSection(url="https://tools.example/mcp?tools=search,fetch").url.endswith("?tools=search,fetch")
    for query in ("api_key=abc", "a=1&token=abc", "MY_SECRET=x", "apiKey=x"):
        with pytest.raises(ValidationError, match="belongs into `headers`"):
            McpSection(url=f"https://tools.example/mcp?{query}")
    for wrong in ("https://tools.example/mcp#x?a=b", "https://me:pw@tools.example/mcp?a=b"):
        with pytest.raises(ValidationError):
            McpSection(url=wrong)


async def test_a_web_page_is_no_server_of_tools(tmp_path: Path) -> None:
    def oddity(request: Odd, message: dict[str, Any]) -> bool:
        request.send(200, b"<!doctype html><title>Hello</title>", "text/html; charset=utf-8")
        return True

    with served(oddity) as (_, url), pytest.raises(McpError, match="There is a web page at"):
        await try_once(at(f"{url}/"), tmp_path, accept=False)


async def test_an_address_that_nothing_serves_is_explained(tmp_path: Path) -> None:
    for url, said in (
        ("http://127.0.0.1:9/mcp", "The connection to the server failed: Nothing answers there."),
        ("http://no-such-host.invalid/mcp", "No address is known for its host."),
    ):
        with pytest.raises(McpError) as failed:
            await try_once(at(url), tmp_path, accept=False)
        assert said in str(failed.value)
    with served(ordinary) as (_, url), pytest.raises(McpError, match="does not speak https"):
        await try_once(at(url.replace("http:", "https:") + "/mcp"), tmp_path, accept=False)


async def test_an_untrusted_certificate_is_explained(tmp_path: Path) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(tls)
    with served(ordinary, tls) as (_, url), pytest.raises(McpError, match="certificate is not trusted here"):
        await try_once(at(f"{url}/mcp"), tmp_path, accept=False)


@pytest.mark.parametrize("path", ["/sse", "/events"])
@pytest.mark.parametrize("form", ["event: endpoint\ndata: {}\n\n", "event:endpoint\r\ndata:{}\r\n\r\n"])
async def test_a_server_of_the_older_transport_is_used(tmp_path: Path, form: str, path: str) -> None:
    streams: list[queue.SimpleQueue[bytes]] = []

    def oddity(request: Odd, message: dict[str, Any]) -> bool:
        if message.get("method") == "GET":
            streams.append(stream := queue.SimpleQueue())
            request.send_response(200)
            request.send_header("content-type", "text/event-stream")
            request.end_headers()
            request.close_connection = True
            request.wfile.write(form.format(f"/messages?session_id={len(streams) - 1}").encode())
            while event := stream.get():
                request.wfile.write(event)
            return True
        if request.path == path:
            request.send(405)
            return True
        stream = streams[int(request.path.rpartition("=")[2])]

        def answer(status: int, body: object = None, *_: object, **__: object) -> None:
            if body is not None:
                stream.put(b"event: message\ndata: " + json.dumps(body).encode() + b"\n\n")
            Odd.send(request, 202)

        request.send = answer
        return False

    with served(oddity) as (_, url):
        async with house(tmp_path, at(f"{url}{path}")) as here:
            assert "done" in (await here.call("web__look")).content


async def test_an_address_that_ends_in_sse_may_be_of_the_newer_transport(tmp_path: Path) -> None:
    with served(ordinary) as (_, url):
        assert (await try_once(at(f"{url}/sse"), tmp_path, accept=False)).tools
