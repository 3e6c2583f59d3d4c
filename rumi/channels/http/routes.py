"""HTTP routes of the listener."""

from contextlib import aclosing
from functools import partial
from typing import Final

import trio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rumi.channels.http.listener_state import ListenerState
from rumi.channels.http.metrics import CONTENT_TYPE, metrics
from rumi.channels.takers import NOT_STORED, Taker

TAKE_S: Final = 20.0
"""Maximum time for storing a delivery, in seconds. After that, the other server must repeat the delivery."""


def make_app(listener: ListenerState) -> ASGIApp:
    """Return an ASGI application that serves the listener's routes."""
    routes = [
        Route("/healthz", _health),
        Route("/readyz", partial(_ready, listener)),
        Route("/metrics", partial(_metrics, listener)),
        *(Route(taker.path, partial(_take, listener, taker), methods=["POST"]) for taker in listener.takers),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _refusal})
    app.router.redirect_slashes = False

    async def counted(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})  # before the handshake, this is a 403
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                status = message["status"]
                listener.requests[status] = listener.requests.get(status, 0) + 1
                message = {**message, "headers": [*message["headers"], (b"cache-control", b"no-store")]}
            await send(message)

        await app(scope, receive, sending)

    return counted


async def _health(request: Request) -> Response:
    """Respond with 200: the event loop is running."""
    return PlainTextResponse("ok\n")


async def _ready(listener: ListenerState, request: Request) -> Response:
    """Respond with 200 if the process can accept requests; otherwise with 503 and the reasons."""
    reasons = listener.unready()
    return PlainTextResponse(
        "".join(f"{reason}\n" for reason in reasons) or "ready\n", 503 if reasons else 200
    )


async def _metrics(listener: ListenerState, request: Request) -> Response:
    return Response(metrics(listener.status()), headers={"content-type": CONTENT_TYPE})


async def _take(listener: ListenerState, taker: Taker, request: Request) -> Response:
    """Store a delivery from another server. A status below 300 means that the delivery is stored."""
    refused = taker.refuses(request.headers)
    if refused:
        raise HTTPException(refused)
    # Only now: if the secret is in a header, nobody without it can make the process read a body.
    body = await read_body(request, taker.most_bytes)
    answer = NOT_STORED
    with trio.move_on_after(TAKE_S):
        if not listener.ending:
            answer = await taker.take(request.headers, body)
    again = {"retry-after": str(answer.again_s)} if answer.again_s else {}
    if answer.status >= 400:
        raise HTTPException(answer.status, answer.text or None, again)
    media_type = "application/json" if answer.text.startswith("{") else "text/plain"
    return Response(f"{answer.text}\n" if answer.text else None, answer.status, again, media_type)


async def _refusal(request: Request, error: Exception) -> Response:
    """Respond to a refused request. Closes the connection of a POST, because body bytes may still arrive."""
    assert isinstance(error, HTTPException)
    headers = {**(error.headers or {}), **({"connection": "close"} if request.method == "POST" else {})}
    return PlainTextResponse(f"{error.detail}\n", error.status_code, headers)


BODY_S: Final = 10.0
"""Maximum time for a request body to arrive, in seconds."""


async def read_body(request: Request, most_bytes: int) -> bytes:
    """Return the body of a request.

    Raises:
        HTTPException: The body is longer than `most_bytes` (413) or takes longer than `BODY_S` (408), or the
            client has disconnected (400).
    """
    # The announced length may be missing or false, so the bytes are counted too.
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced[:20]) > most_bytes:
        raise HTTPException(413, "too long")
    body = bytearray()
    try:
        with trio.fail_after(BODY_S):
            async with aclosing(request.stream()) as pieces:
                async for piece in pieces:
                    body += piece
                    if len(body) > most_bytes:
                        raise HTTPException(413, "too long")
    except trio.TooSlowError:
        raise HTTPException(408, "too slow") from None
    except ClientDisconnect:
        raise HTTPException(400, "gone") from None
    return bytes(body)
