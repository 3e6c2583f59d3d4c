"""The client that hands requests straight to the transport."""

import subprocess
import sys

import httpx
import pytest
import trio

from rumi.platform.direct_http import DirectClient
from tests.conftest import ROOT
from tests.fakes.web_server import gives, serving, silence


async def test_a_response_is_read_or_streamed_and_its_connection_used_again() -> None:
    async with serving({"/": gives("hello")}) as server, DirectClient() as client:
        for _ in range(2):
            response = await client.get(server.url())
            assert (response.status_code, response.text) == (200, "hello")
            assert response.request.url == server.url()
        async with client.stream("GET", server.url()) as response:
            assert await response.aread() == b"hello"


async def test_it_keeps_no_cookies_and_follows_no_redirect() -> None:
    headers = {"set-cookie": "id=1", "location": "/other"}

    def moved(request: httpx.Request) -> httpx.Response:
        assert "cookie" not in request.headers
        assert request.url.path == "/"
        return httpx.Response(302, headers=headers)

    async with DirectClient(transport=httpx.MockTransport(moved), follow_redirects=True) as client:
        for _ in range(2):
            assert (await client.get("http://a/")).status_code == 302
        assert not client.cookies


async def test_a_cancelled_request_leaves_no_connection_and_a_late_one_is_a_timeout() -> None:
    async with serving({"/": silence}) as server, DirectClient(timeout=0.2) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.get(server.url())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.get, server.url())
            await server.until(lambda it: len(it.asked) == 2)
            nursery.cancel_scope.cancel()
        await server.until(lambda it: it.open == 0)


async def test_a_closed_client_sends_nothing() -> None:
    client = DirectClient()
    await client.aclose()
    with pytest.raises(RuntimeError, match="closed"):
        await client.get("http://127.0.0.1:1/")


@pytest.mark.long
def test_telegrams_library_loads_neither_cryptography_nor_http2() -> None:
    code = (
        "import sys, rumi.channels.telegram; loaded = {name.partition('.')[0] for name in sys.modules}; "
        "import cryptography, h2; print(loaded & {'cryptography', 'h2'})"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
