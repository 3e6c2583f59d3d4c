"""HTTP routes of the page. `PageGuard` checks every request before a route handles it."""

import gzip
import html
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from importlib.resources import files
from typing import Any, TypeVar
from urllib.parse import parse_qs

import trio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from actors import ActorError
from rumi.channels.http.metrics import CONTENT_TYPE, metrics
from rumi.channels.http.routes import read_body
from rumi.channels.page.address import session_of
from rumi.channels.page.calls import CallFailed, UnknownCall
from rumi.channels.page.files import MOST_FILES, MOST_NAME, Files, MissingFiles
from rumi.channels.page.guard import PageGuard, Programs
from rumi.channels.page.login import TooManyTries
from rumi.channels.page.socket import shapes
from rumi.channels.page.state import NAME, PageState
from rumi.channels.page.static_files import StaticFiles, packs
from rumi.channels.page.stored import entries_of
from rumi.channels.page.talks import Talk
from rumi.channels.page.transcript import MESSAGES
from rumi.errors import RumiError, UsageError
from rumi.platform.chat_ids import DEFAULT_CHAT
from rumi.platform.texts import page as page_texts
from rumi.platform.texts.commands import chat_commands
from rumi.platform.texts.translation import error_text
from rumi.sandbox.workspace import WorkspaceError
from rumi.store.journal.records import Update
from rumi.store.journal.transcript import read_transcript

T = TypeVar("T")

MOST_NONCE = 2**53
"""Random numbers that browsers give their messages are smaller: scripts have no larger exact integers."""

MOST_TEXT = 30_000
"""Maximum length of a message, in characters as browsers count them (UTF-16 units)."""

MOST_BYTES = 250_000
"""Maximum size of a request body, in bytes. The longest message fits, whatever characters it has."""

FORM = "application/x-www-form-urlencoded"

PACKING = 5
"""Level at which pages are compressed: half the time of the highest one, for hardly more bytes."""

MOST_FORM_BYTES = 2_000
"""Maximum size of the form with a login code, in bytes."""

COOKIE_S = 400 * 86400
"""How long browsers keep the session cookie, in seconds: their longest. The server ends sessions earlier."""

ASKED_S = 10.0
"""Maximum time for the journal to answer a request, in seconds."""


def make_app(page: PageState, programs: Programs | None = None) -> ASGIApp:
    """Return the page as an ASGI application.

    `programs` is an application for programs (not browsers), served at a path of the page's server.
    """
    handlers = Handlers(page)
    app = Starlette(
        routes=[
            Route("/", handlers.index),
            Route("/manifest.webmanifest", handlers.manifest),
            Route("/login", handlers.login),
            Route("/login", handlers.login_typed, methods=["POST"]),
            Route("/logout", handlers.logout, methods=["POST"]),
            WebSocketRoute("/socket", handlers.socket),
            Route("/chats/earlier", handlers.earlier),
            Route("/chat/send", handlers.send, methods=["POST"]),
            Route("/chat/stop", handlers.stop, methods=["POST"]),
            Route("/chat/answer", handlers.answer, methods=["POST"]),
            Route("/chat/seen", handlers.seen, methods=["POST"]),
            Route("/call", handlers.call, methods=["POST"]),
            Route("/files", handlers.files, methods=["GET", "POST"]),
            Route("/files/download", handlers.download),
            Route("/files/picture", handlers.picture),
            Route("/files/preview", handlers.preview),
            Route("/files/page", handlers.document_page),
            Route("/files/offers", handlers.offers),
            Route("/files/delete", handlers.delete, methods=["POST"]),
            Route("/healthz", handlers.healthz),
            Route("/metrics", handlers.metrics),
            Route("/static/{name:path}", handlers.static),
        ],
        exception_handlers={HTTPException: _refusal},
    )
    return PageGuard(app, page.entrance.address, page.entrance.door, handlers.refuse, programs)


class Handlers:
    """Answers requests that have passed the guard."""

    def __init__(self, page: PageState) -> None:
        self._page = page
        self._address = page.entrance.address
        self._door = page.entrance.door
        self._files_of = Files(page)
        static = files("rumi.channels.page").joinpath("static")
        self._static = StaticFiles(static)
        self._templates = {
            file.name: self._static.named(file.read_text("utf-8"))
            for file in static.iterdir()
            if file.name.endswith(".html")
        }

    # Login

    async def index(self, request: Request) -> Response:
        """Respond with the page's HTML."""
        secret = session_of(request.scope, self._address)
        session = self._door.sessions.find(secret)
        response = self._html(request, "index.html", {"session_id": session.id if session else ""})
        self._set_cookie(request, response, secret)  # so that the browser keeps it for longer, too
        return response

    async def login(self, request: Request) -> Response:
        """Consume a login link, and start a session. A used link leads a browser with a session to the page.

        `HEAD` requests and prefetches do not consume the link.
        """
        code = request.query_params.get("code", "")
        if request.method == "HEAD" or "prefetch" in request.headers.get("sec-purpose", ""):
            return Response(status_code=204) if self._door.fits(code) else self._closed(request)
        secret = self._door.enter(code, *self._page.entrance.browser_of(request))
        if secret is not None:
            return self._entered(request, secret)
        # A request that began on another site has no cookie: whether there is a session shows on the page.
        if _began_elsewhere(request) or self._door.knows(session_of(request.scope, self._address)):
            return self._onward(request)
        return self._closed(request)

    async def login_typed(self, request: Request) -> Response:
        """Start a session with the short code, or the link, that a person has typed on the closed page."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
            raise HTTPException(415, "a form only")
        body = (await read_body(request, MOST_FORM_BYTES)).decode("utf-8", "replace")
        typed = parse_qs(body, max_num_fields=4).get("code", [""])[0].strip()
        browser, words = self._page.entrance.browser_of(request), self._words(request)
        try:
            secret = self._door.enter(typed.rpartition("code=")[2], *browser)
            secret = secret or self._door.enter_typed(typed, *browser)
        except TooManyTries:
            return self._closed(request, words["too_many_codes"], 429)
        if secret is None:
            return self._closed(request, words["wrong_code"])
        return self._entered(request, secret)

    async def logout(self, request: Request) -> Response:
        """End the login session. This also closes the session's views."""
        self._door.leave(session_of(request.scope, self._address))
        self._page.wake()
        response = Response(status_code=204)
        cookie = self._address.cookie_of(request.scope)
        response.delete_cookie(cookie.name, path="/", secure=cookie.secure, httponly=True, samesite="strict")
        return response

    async def refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request without a session, and tell the user how to log in."""
        await self._closed(Request(scope))(scope, receive, send)

    def _closed(self, request: Request, note: str = "", status: int = 403) -> Response:
        # Everybody can reach a page behind a proxy: its visitors print nothing in the terminal.
        if not self._address.is_public(request.scope):
            self._door.offer()
        return self._html(request, "closed.html", {"note": note}, status)

    def _entered(self, request: Request, secret: str) -> Response:
        """Lead a browser to the page with a new session, in place of the one that it may have had."""
        if former := session_of(request.scope, self._address):
            self._door.leave(former)
            self._page.wake()
        response = self._onward(request)
        self._set_cookie(request, response, secret)
        return response

    def _onward(self, request: Request) -> Response:
        """Lead a browser to the page.

        After a click on another site's page, the browser would treat a redirect as that site's and send no
        cookie.
        """
        return self._html(request, "login.html") if _began_elsewhere(request) else RedirectResponse("/", 303)

    def _set_cookie(self, request: Request, response: Response, secret: str) -> None:
        cookie = self._address.cookie_of(request.scope)
        response.set_cookie(
            cookie.name,
            secret,
            max_age=COOKIE_S,
            path="/",
            secure=cookie.secure,
            httponly=True,
            samesite="strict",
        )

    def _words(self, request: Request) -> dict[str, str]:
        return page_texts.page_words(self._page.entrance.language_of(request))

    def _why(self, request: Request, error: RumiError) -> str:
        return error_text(self._page.entrance.language_of(request), error)

    def _talk(self, request: Request, chat: object) -> Talk:
        """Return the `Talk` for a requested chat. Another owner's chat is refused like an unknown id."""
        if not isinstance(chat, str):
            raise HTTPException(400, "no chat")
        try:
            return self._page.talk(chat)
        except UsageError as error:
            raise HTTPException(404, self._why(request, error)) from None

    # The process, and a chat

    async def socket(self, socket: WebSocket) -> None:
        """Serve a window's view of a chat."""
        try:
            talk = self._page.talk(socket.query_params.get("chat", DEFAULT_CHAT))
            view = await self._page.new_window(session_of(socket.scope, self._address), talk)
        except (UsageError, ActorError):
            view = None
        await socket.accept()
        if view is None:
            await socket.close(4000)
            return
        self._page.enter(view)
        try:
            await view.serve(socket)
        finally:
            self._page.leave(view)

    async def send(self, request: Request) -> Response:
        """Send a message or a command to the chat; respond with its message number."""
        fields = await _fields(request)
        text, talk = fields.get("text"), self._talk(request, fields.get("chat"))
        files = fields.get("files", [])
        if not isinstance(files, list) or len(files) > MOST_FILES or not all(map(_is_name, files)):
            raise HTTPException(400, "no files")
        if not isinstance(text, str) or not (text.strip() or files):
            raise HTTPException(400, "no text")
        if len(text) > MOST_TEXT or len(text.encode("utf-16-le", "surrogatepass")) > 2 * MOST_TEXT:
            raise HTTPException(413, self._words(request)["too_long"].format(most=f"{MOST_TEXT:,}"))
        if self._page.ending:
            raise HTTPException(503, self._words(request)["ending"])
        nonce, zone = fields.get("nonce"), fields.get("zone")
        if nonce is not None and not (type(nonce) is int and 0 < nonce < MOST_NONCE):
            raise HTTPException(400, "no nonce")
        language = self._page.entrance.language_of(request)
        try:
            attachments = await self._files_of.attachments(
                talk, text, files, as_it_is=fields.get("as_it_is") is True, language=language
            )
            chat = replace(self._page.chat_of(request, talk), zone=zone if isinstance(zone, str) else "")
            once = None if nonce is None else Update(NAME, nonce)
            number = await chat.send(text, attachments, once=once)
        except MissingFiles as error:  # as in the terminal: a person corrects the name, or sends it as it is
            return JSONResponse({"error": self._why(request, error), "unclear": True}, 409)
        except RumiError as error:
            raise HTTPException(503, self._why(request, error)) from None
        talk.transcript.said(number, text, time.time(), attachments)
        return JSONResponse({"number": number})

    async def stop(self, request: Request) -> Response:
        """Stop the running turn, as `/stop` does."""
        talk = self._talk(request, (await _fields(request)).get("chat"))
        if not talk.transcript.working:
            return JSONResponse({"number": 0})
        try:
            return JSONResponse({"number": await self._page.chat_of(request, talk).send("/stop")})
        except RumiError as error:
            raise HTTPException(503, self._why(request, error)) from None

    async def answer(self, request: Request) -> Response:
        """Answer the turn's question with yes or no. The response says whether it was still pending."""
        fields = await _fields(request)
        id, yes = fields.get("id"), fields.get("yes")
        talk = self._talk(request, fields.get("chat"))
        if not isinstance(id, str) or not isinstance(yes, bool):
            raise HTTPException(400, "no answer")
        try:
            return JSONResponse({"counts": await talk.answer(id, yes)})
        except RumiError as error:
            raise HTTPException(503, self._why(request, error)) from None

    async def seen(self, request: Request) -> Response:
        """Record that a person has seen a reply, or can read a question."""
        fields = await _fields(request)
        question, delivery = fields.get("question"), fields.get("delivery")
        talk = self._talk(request, fields.get("chat"))
        if isinstance(question, str):
            talk.shown(question)
        if isinstance(delivery, int) and not isinstance(delivery, bool):
            entries = talk.transcript.entries.values()
            if any(entry.delivery == delivery for entry in entries):  # only deliveries of this chat
                await talk.chat.delivered(delivery)
                talk.transcript.seen(delivery)
        return Response(status_code=204)

    async def earlier(self, request: Request) -> Response:
        """Respond with the entries of messages whose numbers are smaller than `before`."""
        talk = self._talk(request, request.query_params.get("chat"))
        before = request.query_params.get("before", "")
        if not before.isascii() or not before.isdigit() or len(before) > 18:
            raise HTTPException(400, "no number")
        stored = await self._asked(
            request,
            self._page.journal.ask(read_transcript(talk.chat.chat, int(before), MESSAGES)),
        )
        entries = await self._page.offload(
            lambda: shapes([entry for message in stored for entry in entries_of(message)])
        )
        return JSONResponse({"entries": entries, "earlier": len(stored) >= MESSAGES})

    async def call(self, request: Request) -> Response:
        """Make a control call; respond with `{"ok": true, "result": …}`, or with the error and the advice."""
        fields = await _fields(request)
        if self._page.ending:
            raise HTTPException(503, self._words(request)["ending"])
        language = self._page.entrance.language_of(request)
        try:
            answer = await self._page.visitor.make(fields, NAME, language)
        except UnknownCall:
            raise HTTPException(404, "no such call") from None
        except CallFailed:
            raise HTTPException(503, self._words(request)["not_now"]) from None
        # Lone surrogates, for example of file names, become JSON escapes.
        body = json.dumps(answer, ensure_ascii=False).encode("utf-8", "backslashreplace")
        return Response(body, media_type="application/json")

    # All chats

    async def _asked(self, request: Request, answer: Awaitable[T]) -> T:
        """Send a request to the journal, and return its answer.

        Raises:
            HTTPException: The journal is unreachable or does not answer in time (503).
        """
        try:
            with trio.fail_after(ASKED_S):
                return await answer
        except (ActorError, trio.TooSlowError):
            raise HTTPException(503, self._words(request)["not_now"]) from None

    # Files

    async def files(self, request: Request) -> Response:
        """Respond with the list of the chat's files, or store an uploaded file."""
        if request.method == "POST":
            if self._page.ending:
                raise HTTPException(503, self._words(request)["ending"])
            return await self._of_file(request, lambda talk: self._files_of.put(talk, request))
        folder = request.query_params.get("folder", "")
        return await self._of_file(request, lambda talk: self._files_of.list(talk, folder))

    async def download(self, request: Request) -> Response:
        """Respond with one of the chat's files."""
        path = request.query_params.get("path", "")
        return await self._of_file(request, lambda talk: self._files_of.download(talk, path))

    async def picture(self, request: Request) -> Response:
        """Respond with one of the chat's pictures."""
        path = request.query_params.get("path", "")
        return await self._of_file(request, lambda talk: self._files_of.picture(talk, path))

    async def preview(self, request: Request) -> Response:
        """Respond with what a browser can show of a file: a text, the rows of a table, or its kind."""
        path = request.query_params.get("path", "")
        return await self._of_file(request, lambda talk: self._files_of.preview(talk, path))

    async def document_page(self, request: Request) -> Response:
        """Respond with a page of a PDF as a picture."""
        path, page = request.query_params.get("path", ""), request.query_params.get("page", "1")
        if not page.isascii() or not page.isdigit() or len(page) > 6:
            raise HTTPException(400, "no page")
        return await self._of_file(request, lambda talk: self._files_of.document_page(talk, path, int(page)))

    async def offers(self, request: Request) -> Response:
        """Respond with the files that complete the mention at the end of a text."""
        line = request.query_params.get("line", "")
        return await self._of_file(request, lambda talk: self._files_of.offers(talk, line))

    async def delete(self, request: Request) -> Response:
        """Delete one of the chat's files."""
        fields = await _fields(request)
        path = fields.get("path")
        if not isinstance(path, str) or not _is_name(path):
            raise HTTPException(400, "no file")
        if self._page.ending:
            raise HTTPException(503, self._words(request)["ending"])
        return await self._of_file(
            request, lambda talk: self._files_of.delete(talk, path), fields.get("chat")
        )

    async def _of_file(
        self, request: Request, answer: Callable[[Talk], Awaitable[Response]], chat: object = None
    ) -> Response:
        talk = self._talk(request, request.query_params.get("chat") if chat is None else chat)
        try:
            return await answer(talk)
        except RumiError as error:
            status = 404 if isinstance(error, WorkspaceError) and request.method != "POST" else 409
            raise HTTPException(status, self._why(request, error)) from None

    # For machines

    async def healthz(self, request: Request) -> Response:
        """Respond that the server is running."""
        return PlainTextResponse("ok\n")

    async def metrics(self, request: Request) -> Response:
        """Respond with the metrics. Without a session, only clients on this machine get them."""
        known = self._door.knows(session_of(request.scope, self._address))
        if not known and not self._address.is_local(request.scope):
            return self._closed(request)
        return Response(metrics(self._page.board.dump()), media_type=CONTENT_TYPE)

    async def static(self, request: Request) -> Response:
        """Respond with one of the program's static files."""
        answer = self._static.answer(request.path_params["name"], request.headers)
        if answer is None:
            raise HTTPException(404, "no such file")
        return answer

    async def manifest(self, request: Request) -> Response:
        """Respond with the manifest, by which browsers install the page like a program."""
        return self._static.files["manifest.webmanifest"].answer(request.headers)

    def _html(
        self, request: Request, name: str, more: Mapping[str, str] | None = None, status: int = 200
    ) -> Response:
        """Respond with a template that is filled with escaped texts, the catalogue's and `more`."""
        text = self._templates[name]
        own, language = self._words(request), self._page.entrance.language_of(request)
        limits = {"text": MOST_TEXT, "files": MOST_FILES, "bytes": self._page.uploads.max_bytes}
        words = {
            "words": json.dumps(own),
            "command_list": json.dumps(chat_commands(language)),
            "message_limits": json.dumps(limits),
            "lang": language.replace("_", "-"),
            **own,
            **(more or {}),
        }
        for word, value in words.items():
            text = text.replace(f"{{{{{word}}}}}", html.escape(value, quote=True))
        # The page holds no secret and nothing of the request, so its compressed size reveals nothing.
        if not packs(request.headers):
            return HTMLResponse(text, status, {"vary": "accept-encoding"})
        headers = {"vary": "accept-encoding", "content-encoding": "gzip"}
        return HTMLResponse(gzip.compress(text.encode(), PACKING), status, headers)


def _began_elsewhere(request: Request) -> bool:
    """Return True if another site's page led the browser here."""
    return request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


def _is_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= MOST_NAME


async def _refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


async def _fields(request: Request) -> Mapping[str, Any]:
    """Return the JSON object in a request's body. HTML forms of other sites cannot send this content type."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "JSON only")
    try:
        fields = json.loads(await read_body(request, MOST_BYTES))
    except (ValueError, RecursionError):
        raise HTTPException(400, "no JSON") from None
    if not isinstance(fields, dict):
        raise HTTPException(400, "no object")
    return fields
