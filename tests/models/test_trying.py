"""Local model servers are found on their ports, and nothing else is taken for one."""

import time
from functools import partial

import trio

from rumi.models.trying import local_servers, offered
from tests.fakes.groq_replies import Answer
from tests.fakes.groq_server import serve_groq


async def test_a_local_server_is_found_with_its_models() -> None:
    async with serve_groq(Answer("hi"), key=None, models=["qwen3", "gemma"]) as server:
        (found,) = await local_servers((("nothing", 9), ("ollama", server.port)))
        assert (found.name, found.base_url, found.models) == ("ollama", server.openai_url, ("gemma", "qwen3"))


async def test_a_server_of_another_kind_or_one_that_hangs_is_none() -> None:
    async def page(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, page, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        assert await local_servers((("ollama", port),)) == ()
        assert await offered(f"http://127.0.0.1:{port}/v1") is None
        nursery.cancel_scope.cancel()


async def test_where_nothing_listens_the_look_takes_no_time() -> None:
    began = time.monotonic()
    assert await local_servers((("ollama", 9), ("llamacpp", 10))) == ()
    assert time.monotonic() - began < 0.1
