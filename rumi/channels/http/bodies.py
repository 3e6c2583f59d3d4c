"""The body of a request, bounded in size and in time."""

from contextlib import aclosing
from typing import Final

import trio
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

BODY_S: Final = 10.0
"""How long a body may take to come."""


async def read_body(request: Request, most_bytes: int) -> bytes:
    """Return the body of a request.

    Raises:
        HTTPException: It is longer than `most_bytes` (413), takes longer than `BODY_S` (408), or its client
            has gone (400).
    """
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced[:20]) > most_bytes:
        raise HTTPException(413, "too long")
    body = b""
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
    return body
