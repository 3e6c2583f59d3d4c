"""What the guard lets through to the application: WebSockets over real sockets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import trio
from starlette.types import Receive, Scope, Send
from trio_websocket import open_websocket_url

from rumi.channels.http.address import listen
from rumi.channels.http.server import serve
from rumi.channels.page.address import PageAddress
from rumi.channels.page.guard import PageGuard
from rumi.channels.page.login import Door, LoginLink
from tests.channels.page.reverse_proxy import ReverseProxy

HANDSHAKE = (
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="),
)


class Guarded:
    """A guarded application that repeats what a WebSocket says. `own` are the headers of its own page."""

    def __init__(self, url: str, own: list[tuple[str, str]]) -> None:
        self.url = url
        self.own = own

    async def said(self, *headers: tuple[str, str]) -> str:
        """What comes back over a WebSocket with these headers."""
        sent = [(name.encode(), value.encode()) for name, value in headers]
        with trio.fail_after(10):
            async with open_websocket_url(f"ws{self.url[4:]}/socket", extra_headers=sent) as socket:
                await socket.send_message("hello")
                return str(await socket.get_message())

    async def status(self, *headers: tuple[str, str]) -> int:
        """The status of the handshake of a WebSocket with these headers, if it is refused."""
        async with httpx.AsyncClient() as client:
            answer = await client.get(f"{self.url}/socket", headers=[*HANDSHAKE, *headers])
        return answer.status_code


async def _repeats(scope: Scope, receive: Receive, send: Send) -> None:
    assert scope["type"] == "websocket"
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept"})
    message = await receive()
    await send({"type": "websocket.send", "text": message["text"]})


async def _never(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError


@asynccontextmanager
async def guarded(folder: Path, public: str = "") -> AsyncIterator[Guarded]:
    links: list[LoginLink] = []
    bound = listen("127.0.0.1:0", "--web")
    door = Door(links.append, lambda: 0.0, folder / "sessions.json")
    door.offer()
    name = "__Host-rumi_443" if public else f"rumi_{bound.port}"
    cookie = f"{name}={door.enter(links[0].code)}"
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(serve, PageGuard(_repeats, PageAddress(bound, public), door, _never), bound)
            yield Guarded(bound.url, [("Origin", public or bound.url), ("Cookie", cookie)])
            nursery.cancel_scope.cancel()
    finally:
        bound.close()


async def test_a_websocket_needs_the_pages_origin_and_a_session(tmp_path: Path) -> None:
    async with guarded(tmp_path) as page:
        origin, cookie = page.own
        assert await page.said(origin, cookie) == "hello"
        assert await page.said(origin, cookie, ("Sec-Fetch-Site", "same-origin")) == "hello"
        port = page.url.rpartition(":")[2]
        for wrong in (
            [cookie],
            [origin],
            [origin, ("Cookie", cookie[1] + "x")],
            [origin, origin, cookie],
            [("Origin", "null"), cookie],
            [("Origin", "http://evil.test"), cookie],
            [("Origin", f"https://127.0.0.1:{port}"), cookie],
            [("Origin", f"ws://127.0.0.1:{port}"), cookie],
            [("Origin", f"http://localhost:{port}"), cookie],
            [origin, cookie, ("Sec-Fetch-Site", "cross-site")],
            [("Host", f"evil.test:{port}"), ("Origin", f"http://evil.test:{port}"), cookie],
        ):
            assert await page.status(*wrong) == 403, wrong


async def test_a_websocket_passes_a_proxy_with_its_origin_and_cookie(tmp_path: Path) -> None:
    public = "https://rumi.example.test"
    async with guarded(tmp_path, public) as page:
        origin, cookie = page.own
        assert await page.status(origin, cookie) == 403  # not under the socket's own name
        with ReverseProxy(int(page.url.rpartition(":")[2]), "rumi.example.test") as proxy:
            outside = Guarded(proxy.url, page.own)
            assert await outside.said(origin, cookie) == "hello"
            for wrong in (
                [cookie],
                [origin],
                [origin, origin, cookie],
                [("Origin", "http://rumi.example.test"), cookie],
                [("Origin", page.url), cookie],
                [origin, ("Cookie", cookie[1].replace("__Host-rumi_443", "rumi_443"))],
                [origin, cookie, ("Sec-Fetch-Site", "same-site")],
            ):
                assert await outside.status(*wrong) == 403, wrong
