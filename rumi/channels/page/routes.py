"""HTTP routes of the page. `PageGuard` checks every request before a route handles it."""

import html
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, replace
from importlib.resources import files
from typing import Any, TypeVar

import trio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from actors import ActorError
from rumi.channels.http.address import is_loopback
from rumi.channels.http.metrics import CONTENT_TYPE, metrics
from rumi.channels.http.routes import read_body
from rumi.channels.page.browser_view import BrowserView, rendered_entry
from rumi.channels.page.files import MOST_FILES, MOST_NAME, Files
from rumi.channels.page.guard import PageGuard, Programs, cookie_name, session_of
from rumi.channels.page.login import SESSION_S
from rumi.channels.page.state import PageState
from rumi.channels.page.talks import Talk
from rumi.channels.page.transcript import MOST_ENTRIES, stored_entries
from rumi.errors import RumiError, UsageError
from rumi.platform.chat_ids import DEFAULT_CHAT
from rumi.platform.texts import page as page_texts
from rumi.platform.texts.translation import error_text
from rumi.sandbox.workspace import WorkspaceError
from rumi.store.journal.reading import excerpt, name_chat, read_history

T = TypeVar("T")

MOST_TITLE = 100
MOST_WORDS = 200
"""Maximum length of a search text, in characters. `MOST_TITLE` is the maximum length of a title."""

MOST_BYTES = 100_000
"""Maximum size of a request body, in bytes."""

ASKED_S = 10.0
"""Maximum time for the journal to answer a request, in seconds."""

TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def make_app(page: PageState, programs: Programs | None = None) -> ASGIApp:
    """Return the page as an ASGI application.

    `programs` is an application for programs (not browsers), served at a path of the page's server.
    """
    handlers = Handlers(page)
    app = Starlette(
        routes=[
            Route("/", handlers.index),
            Route("/login", handlers.login),
            Route("/logout", handlers.logout, methods=["POST"]),
            Route("/events", handlers.events),
            Route("/chats", handlers.chats),
            Route("/chats/found", handlers.found),
            Route("/chats/earlier", handlers.earlier),
            Route("/chats/title", handlers.title, methods=["POST"]),
            Route("/chat/send", handlers.send, methods=["POST"]),
            Route("/chat/stop", handlers.stop, methods=["POST"]),
            Route("/chat/answer", handlers.answer, methods=["POST"]),
            Route("/chat/seen", handlers.seen, methods=["POST"]),
            Route("/files", handlers.files, methods=["GET", "POST"]),
            Route("/files/download", handlers.download),
            Route("/files/picture", handlers.picture),
            Route("/healthz", handlers.healthz),
            Route("/metrics", handlers.metrics),
            Route("/static/{name}", handlers.static),
        ],
        exception_handlers={HTTPException: _refusal},
    )
    return PageGuard(app, page.entrance.bound, page.entrance.door, handlers.refuse, programs)


class Handlers:
    """Answers requests that have passed the guard."""

    def __init__(self, page: PageState) -> None:
        self._page = page
        self._bound = page.entrance.bound
        self._door = page.entrance.door
        self._files_of = Files(page)
        self._files = {
            file.name: file.read_bytes() for file in files("rumi.channels.page").joinpath("static").iterdir()
        }

    # Login

    async def index(self, request: Request) -> Response:
        """Respond with the page's HTML."""
        return self._html(request, "index.html")

    async def login(self, request: Request) -> Response:
        """Consume a login link, and start a session.

        `HEAD` requests and prefetches do not consume the link.
        """
        code = request.query_params.get("code", "")
        if request.method == "HEAD" or "prefetch" in request.headers.get("sec-purpose", ""):
            return Response(status_code=204) if self._door.fits(code) else self._closed(request)
        secret = self._door.enter(code)
        if secret is None:
            return self._closed(request)
        response: Response = RedirectResponse("/", 303)
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            # After a click on another site's page, the browser would treat the redirect as that site's and
            # send no cookie.
            response = self._html(request, "login.html")
        response.set_cookie(
            cookie_name(self._bound),
            secret,
            max_age=int(SESSION_S),
            path="/",
            httponly=True,
            samesite="strict",
        )
        return response

    async def logout(self, request: Request) -> Response:
        """End the login session. This also closes the session's views."""
        self._door.leave(session_of(request.scope, self._bound))
        self._page.wake()
        response = Response(status_code=204)
        response.delete_cookie(cookie_name(self._bound), path="/", httponly=True, samesite="strict")
        return response

    async def refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request without a session, and tell the user that the terminal shows a login link."""
        await self._closed(Request(scope))(scope, receive, send)

    def _closed(self, request: Request) -> Response:
        self._door.offer()
        return self._html(request, "closed.html", status=403)

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

    async def events(self, request: Request) -> Response:
        """Open a view of a chat: a stream of server-sent events."""
        if request.method == "HEAD":
            return Response(status_code=204)
        talk = self._talk(request, request.query_params.get("chat", DEFAULT_CHAT))
        try:
            view = await self._page.new_window(session_of(request.scope, self._bound), talk)
        except ActorError:
            raise HTTPException(503, self._words(request)["not_now"]) from None
        if view is None:
            raise HTTPException(503, self._words(request)["too_many"])
        return _ViewResponse(self._page, view)

    async def send(self, request: Request) -> Response:
        """Send a message or a command to the chat; respond with its message number."""
        fields = await _fields(request)
        text, talk = fields.get("text"), self._talk(request, fields.get("chat"))
        files = fields.get("files", [])
        if not isinstance(files, list) or len(files) > MOST_FILES or not all(map(_is_name, files)):
            raise HTTPException(400, "no files")
        if not isinstance(text, str) or not (text.strip() or files):
            raise HTTPException(400, "no text")
        if self._page.ending:
            raise HTTPException(503, self._words(request)["ending"])
        # Before sending, so that the message comes before the turn that it starts.
        entry = talk.transcript.say(text, time.time(), files)
        try:
            attachments = [self._page.uploads.attachment(name) for name in files]
            zone = fields.get("zone")
            chat = replace(self._page.chat_of(request, talk), zone=zone if isinstance(zone, str) else "")
            number = await chat.send(text, attachments)
        except RumiError as error:
            why = self._why(request, error)
            talk.transcript.failed(entry, why)
            raise HTTPException(503, why) from None
        talk.transcript.sent(entry, number)
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
        return Response(status_code=204)

    # All chats

    async def chats(self, request: Request) -> Response:
        """Respond with the list of chats, latest first."""
        found = await self._asked(request, self._page.chats())
        return JSONResponse({"chats": [asdict(chat) for chat in found]})

    async def found(self, request: Request) -> Response:
        """Respond with the stored messages that contain all words of the search text."""
        words = request.query_params.get("words", "")[:MOST_WORDS]
        found = await self._asked(request, self._page.search(words))
        shown = [
            {
                "chat": hit.chat,
                "id": hit.id,
                "at": hit.at,
                "by": "you" if hit.entry.message.role == "user" else "assistant",
                "text": excerpt(hit.entry.message.content, words),
            }
            for hit in found
        ]
        return JSONResponse({"found": shown})

    async def earlier(self, request: Request) -> Response:
        """Respond with the part of the chat's history that precedes an entry."""
        talk = self._talk(request, request.query_params.get("chat"))
        before = request.query_params.get("before", "")
        if not before.isascii() or not before.isdigit() or len(before) > 18:
            raise HTTPException(400, "no number")
        rows = await self._asked(
            request,
            self._page.journal.ask(read_history(talk.chat.chat, int(before), MOST_ENTRIES, told=True)),
        )
        entries = await self._page.offload(
            lambda: [rendered_entry(entry.shape()) for entry in stored_entries(rows)]
        )
        return JSONResponse({"entries": entries, "earlier": len(rows) >= MOST_ENTRIES})

    async def title(self, request: Request) -> Response:
        """Set or remove a chat's title."""
        fields = await _fields(request)
        talk, title = self._talk(request, fields.get("chat")), fields.get("title")
        if not isinstance(title, str) or len(title) > MOST_TITLE:
            raise HTTPException(400, "no title")
        shown = " ".join("".join(c if c.isprintable() else " " for c in title).split())
        await self._asked(request, self._page.journal.ask(name_chat(talk.chat.chat, shown)))
        return JSONResponse({"title": shown})

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

    async def _of_file(self, request: Request, answer: Callable[[Talk], Awaitable[Response]]) -> Response:
        talk = self._talk(request, request.query_params.get("chat"))
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
        client = request.client.host if request.client else ""
        if not is_loopback(client) and not self._door.knows(session_of(request.scope, self._bound)):
            return self._closed(request)
        return Response(metrics(self._page.board.dump()), media_type=CONTENT_TYPE)

    async def static(self, request: Request) -> Response:
        """Respond with one of the program's static files."""
        name = request.path_params["name"]
        kind = TYPES.get(name.rpartition(".")[2])
        if kind is None or name not in self._files:
            raise HTTPException(404, "no such file")
        return Response(self._files[name], media_type=kind)

    def _html(self, request: Request, name: str, status: int = 200) -> Response:
        """Respond with a template that is filled with escaped texts."""
        text = self._files[name].decode()
        own, language = self._words(request), self._page.entrance.language_of(request)
        words = {"words": json.dumps(own), "lang": language.replace("_", "-"), **own}
        for word, value in words.items():
            text = text.replace(f"{{{{{word}}}}}", html.escape(value, quote=True))
        return HTMLResponse(text, status)


class _ViewResponse(Response):
    """A response that registers its view with the page while the browser is connected."""

    def __init__(self, page: PageState, view: BrowserView) -> None:
        self._page = page
        self._view = view
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._page.enter(self._view)
        try:
            await self._view(scope, receive, send)
        finally:
            self._page.leave(self._view)


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
