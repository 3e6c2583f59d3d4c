"""The answer of a login: the browser brings it to a port of this machine, or a person pastes its address."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Final
from urllib.parse import urlsplit

import h11
import trio

from rumi.agent.mcp.oauth.flow import Attempt, NotTheAnswer
from rumi.agent.mcp.oauth.requests import LoginError
from rumi.texts import Language, gettext, os_error, translate

ANSWER_S: Final = 900.0
"""Maximum time that a login waits for its answer, in seconds."""

REQUEST_S: Final = 10.0
"""Maximum time of one request to the port, in seconds."""

_MOST_CONNECTIONS: Final = 16
_MOST_HEAD_BYTES: Final = 32 * 1024
_LOOPBACK: Final = "127.0.0.1"
_PATH: Final = "/callback"
_HEADERS: Final = (
    ("Content-Type", "text/html; charset=utf-8"),
    ("Content-Security-Policy", "default-src 'none'"),
    ("Referrer-Policy", "no-referrer"),  # the address of the page has the code
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Connection", "close"),
)


@dataclass(frozen=True, slots=True)
class AnswerPort:
    """An open port on loopback to which the browser comes back, at the address `redirect_uri`."""

    redirect_uri: str
    listener: trio.SocketListener


@asynccontextmanager
async def answer_port(redirect_uri: str = "") -> AsyncIterator[AnswerPort]:
    """Open the port of a redirect address for a block. Without an address or a port, take a free one.

    Raises:
        LoginError: The port is in use.
    """
    parts = urlsplit(redirect_uri or f"http://{_LOOPBACK}{_PATH}")
    try:
        (listener,) = await trio.open_tcp_listeners(
            parts.port or 0, host=_LOOPBACK, backlog=_MOST_CONNECTIONS
        )
    except OSError as error:
        raise LoginError(
            "The port {port} for the answer of the login cannot be opened: {reason}.",
            "End the program that uses it, or set another redirect_uri.",
            port=parts.port or 0,
            reason=os_error(error),
        ) from error
    async with listener:
        port = listener.socket.getsockname()[1]
        yield AnswerPort(parts._replace(netloc=f"{parts.hostname}:{port}").geturl(), listener)


async def code_of(
    attempt: Attempt,
    port: AnswerPort,
    language: Language,
    pasted: Callable[[], Awaitable[str | None]],
    complain: Callable[[LoginError], None],
) -> str:
    """Wait for the answer of a login, and return its code.

    `pasted` returns the next line that a person enters, or None if there will be none; `complain` gets the
    error about a line that is not the answer. On cancellation, closes all connections.

    Raises:
        LoginError: The login was refused, or no answer came within `ANSWER_S`.
    """
    answers = _Answers(attempt, language)
    with trio.move_on_after(ANSWER_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(trio.serve_listeners, answers.serve, [port.listener]))
            nursery.start_soon(answers.read, pasted, complain)
            await answers.settled.wait()
            nursery.cancel_scope.cancel()
    if answers.error is not None:
        raise answers.error
    if not answers.code:
        raise LoginError("No answer of the login came in time.", "Try again.")
    return answers.code


class _Answers:
    """The answer, once it has come: a `code` or an `error`. `settled` is set when the browser has a page."""

    def __init__(self, attempt: Attempt, language: Language) -> None:
        self.code = ""
        self.error: LoginError | None = None
        self.settled = trio.Event()
        self._serving = 0
        self._attempt = attempt
        self._path = urlsplit(attempt.redirect_uri).path or "/"
        self._language = language

    async def read(
        self, pasted: Callable[[], Awaitable[str | None]], complain: Callable[[LoginError], None]
    ) -> None:
        """Take lines until one of them is the answer: its whole address, or what follows the `?`."""
        while not self.settled.is_set() and (line := await pasted()) is not None:
            text = line.strip().strip("\"'<>")
            if text:
                try:
                    self._take(text.partition("#")[0].partition("?")[2] if "?" in text else text)
                    self.settled.set()
                except NotTheAnswer as error:
                    complain(error)

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer one request of a browser, or of any other program of this machine."""
        async with stream:
            if self._serving >= _MOST_CONNECTIONS:
                return
            self._serving += 1
            try:
                with trio.move_on_after(REQUEST_S), suppress(trio.BrokenResourceError):
                    await self._answer(stream)
            finally:
                self._serving -= 1
                if self.code or self.error is not None:
                    self.settled.set()

    async def _answer(self, stream: trio.SocketStream) -> None:
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=_MOST_HEAD_BYTES)
        try:
            while (event := http.next_event()) is h11.NEED_DATA:
                http.receive_data(await stream.receive_some(_MOST_HEAD_BYTES))
        except h11.RemoteProtocolError:
            return
        if not isinstance(event, h11.Request):
            return
        status, text = self._judged(event)
        body = f"<!doctype html><title>Rumi</title><p>{escape(text)}</p>".encode()
        headers = [*_HEADERS, ("Content-Length", str(len(body)))]
        head = http.send(h11.Response(status_code=status, headers=headers)) or b""
        await stream.send_all(head + (b"" if event.method == b"HEAD" else body))

    def _judged(self, request: h11.Request) -> tuple[int, str]:
        """Return the status and the text of the page for a request, and take the answer that it brings."""
        path, _, query = request.target.decode("latin-1").partition("?")
        if request.method != b"GET" or path != self._path:
            return 404, "404"
        try:
            self._take(query)
        except NotTheAnswer as error:
            # Other programs and pages can call this port, so a wrong request must not end the login.
            return 400, translate(self._language, error.message)
        if self.error is not None:
            return 400, translate(self._language, self.error.message)
        return 200, gettext(self._language, "Rumi has the answer of the login. You can close this page.")

    def _take(self, query: str) -> None:
        """Take the answer in a query.

        Raises:
            NotTheAnswer: There is none in it.
        """
        if self.code or self.error is not None:
            raise NotTheAnswer("The login has its answer already.")
        try:
            self.code = self._attempt.code_in(query)
        except NotTheAnswer:
            raise
        except LoginError as error:
            self.error = error
