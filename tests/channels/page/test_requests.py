"""Who may ask the page for what: over real sockets."""

import contextlib
import html
import json
import re
import socket
import sqlite3
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import rumi.channels.page
from rumi.channels.counters import TOOLS
from rumi.channels.http.address import STUCK_MS, BoundSocket, listen
from rumi.channels.http.server import MOST_CONNECTIONS
from rumi.channels.page.login import LINK_S, Door, LoginLink
from rumi.channels.page.sessions import BACK_S, MOST_SESSIONS, SESSION_S
from rumi.channels.page.state import MOST_TALKS
from rumi.chats.context import ChatView
from rumi.errors import UsageError
from tests.channels.page.served import Served
from tests.channels.page.windows import Window
from tests.fakes.groq_replies import Answer, Behaviour, Body, answered_calls, last_user_text
from tests.openmetrics import openmetrics

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def stranger(served: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.url) as client:
        yield client


def test_a_link_is_used_once_and_not_by_looking_at_it(served: Served, stranger: httpx.Client) -> None:
    link = served.new_link()
    assert stranger.head(link).status_code == 204
    assert stranger.get(link, headers={"Sec-Purpose": "prefetch;prerender"}).status_code == 204
    came = stranger.get(link)
    assert (came.status_code, came.headers["location"]) == (303, "/")
    cookie = came.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "path=/" in cookie
    assert "max-age=34560000" in cookie
    secret = came.headers["set-cookie"].partition("=")[2].partition(";")[0]
    assert len(secret) == 43  # 256 bits
    assert stranger.get("/").status_code == 200
    stranger.cookies.clear()
    for old in (stranger.get(link), stranger.head(link)):
        assert old.status_code == 403
        assert "set-cookie" not in old.headers
    assert served.link != link  # whoever stands before the door finds a new one in the terminal


def test_a_link_on_another_sites_page_leads_in_too(served: Served, stranger: httpx.Client) -> None:
    clicked = stranger.get(served.new_link(), headers={"Sec-Fetch-Site": "cross-site"})
    assert clicked.status_code == 200
    assert 'content="0; url=/"' in clicked.text
    assert stranger.get("/").status_code == 200


@pytest.mark.parametrize(
    "path", ["/", "/socket", "/chat/send", "/nothing", "/metrics/", "/static", "//healthz"]
)
def test_without_a_session_there_is_nothing(stranger: httpx.Client, served: Served, path: str) -> None:
    for method in ("GET", "HEAD", "POST", "OPTIONS"):
        answer = stranger.request(method, f"{served.url}{path}", headers={"Origin": served.url})
        assert answer.status_code == 403, method
    stranger.cookies.set(f"rumi_{httpx.URL(served.url).port}", "guessed")
    assert stranger.get(path).status_code == 403


@pytest.mark.parametrize("path", ["/", "/socket", "/healthz", "/metrics", "/login", "/static/page.js"])
@pytest.mark.parametrize(
    "host",
    [
        "evil.test",
        "evil.test:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost.evil.test:{port}",
        "[::1]:{port}",
        "",
    ],
)
def test_a_wrong_host_is_refused_for_every_client(client: httpx.Client, path: str, host: str) -> None:
    named = host.format(port=client.base_url.port)
    answer = client.get(path, headers={"Host": named, "Origin": f"http://{named}"})
    assert answer.status_code == 403
    assert "content-security-policy" in answer.headers


def test_localhost_is_the_page_too(served: Served) -> None:
    assert httpx.get(f"http://localhost:{httpx.URL(served.url).port}/healthz").text == "ok\n"


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.test",
        "null",
        "https://127.0.0.1:{port}",
        "http://localhost:{port}",
        "http://127.0.0.1:1",
        "",
    ],
)
def test_a_wrong_origin_is_refused_with_a_session_too(client: httpx.Client, origin: str) -> None:
    headers = {"Origin": origin.format(port=client.base_url.port)}
    assert client.get("/", headers=headers).status_code == 403
    assert client.post("/chat/send", json={"chat": "cli", "text": "hi"}, headers=headers).status_code == 403


def test_what_changes_something_needs_an_origin_and_json(client: httpx.Client) -> None:
    del client.headers["Origin"]
    assert client.get("/").status_code == 200
    assert client.post("/chat/send", json={"chat": "cli", "text": "hi"}).status_code == 403
    assert client.get("/", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert client.get("/", headers={"Sec-Fetch-Site": "same-site"}).status_code == 403
    client.headers["Origin"] = str(client.base_url).rstrip("/")
    assert client.post("/chat/send", content=b'{"chat": "cli", "text": "hi"}').status_code == 415
    assert client.post("/chat/send", data={"text": "hi"}).status_code == 415


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"{", 400), (b"[]", 400), (b"{}", 400), (b'{"text": " "}', 400), (b'{"text": 1}', 400),
     (b"[" * 50_000, 400), (b'{"text": "' + b"x" * 300_000 + b'"}', 413)],
)  # fmt: skip
def test_nonsense_is_refused(client: httpx.Client, body: bytes, status: int) -> None:
    answer = client.post("/chat/send", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert "error" in answer.json()


def test_every_answer_forbids_what_a_page_does_not_need(client: httpx.Client) -> None:
    for path in ("/", "/login", "/healthz", "/metrics", "/static/page.js", "/static/none.js", "/none"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';"), path
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == ("no-cache" if path == "/static/page.js" else "no-store")
        assert "server" not in headers
        assert "access-control-allow-origin" not in headers


def test_the_pages_own_files_hold_no_inline_code_and_lead_nowhere_else(client: httpx.Client) -> None:
    page = client.get("/").text
    assert "<style" not in page
    assert re.findall(r"<script(?!(?: type=\"module\")? src=\"/static/)", page) == []
    assert re.findall(r"<[^>]*\s(?:on\w+|style)\s*=", page) == []
    assert re.findall(r"(?:src|href|action)=\"(?!/static/|/manifest|#)", page) == []
    assert client.get("/static/..%2fpage.py").status_code == 404
    assert client.get("/static/index.html").status_code == 404  # a template, no file


def test_a_websocket_of_another_site_is_refused(served: Served) -> None:
    url = httpx.URL(served.url)
    with socket.create_connection((url.host, url.port or 80), 5) as connection:
        connection.sendall(
            f"GET /socket HTTP/1.1\r\nHost: {url.host}:{url.port}\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
        )
        assert connection.recv(100).startswith(b"HTTP/1.1 403")


def said(served: Served) -> str:
    entries = served.page.talks["cli"].transcript.entries.values()
    return "\n".join(part.raw for entry in entries for part in entry.parts)


def test_the_page_speaks_the_browsers_language_where_none_is_set(tmp_path: Path) -> None:
    argentina = {"Accept-Language": "es-AR,es;q=0.9,en;q=0.8"}
    with Served(tmp_path / "home", RUMI_LANGUAGE="auto") as served:
        with httpx.Client(base_url=served.url, headers={"Origin": served.url, **argentina}) as client:
            assert '<html lang="es-AR">' in client.get("/").text
            assert client.get(served.new_link()).status_code == 303
            assert html.escape('"send": "Mandar"') in client.get("/").text
            client.post("/chat/send", json={"chat": "cli", "text": "/stop"})
            served.until(lambda: "No hay ninguna operación en curso." in said(served))
            client.headers["Accept-Language"] = "pt-BR, en;q=0.5"
            assert '<html lang="pt">' in (page := client.get("/").text)
            assert html.escape('"send": "Enviar"') in page
            client.post("/chat/send", json={"chat": "cli", "text": "/stop"})
            served.until(lambda: "Nada está em andamento." in said(served))
            client.headers["Accept-Language"] = "fr, en;q=0.5, es;q=0.1"
            assert html.escape('"send": "Send"') in client.get("/").text
    with Served(tmp_path / "home", RUMI_LANGUAGE="en") as served:
        assert '<html lang="en">' in httpx.get(served.url, headers=argentina).text


def test_health_and_metrics_need_no_login_here_and_name_nobody(
    served: Served, stranger: httpx.Client
) -> None:
    served.say("private-name", "say a secret")
    served.until(lambda: not served.app.services.pending.unreplied)
    assert stranger.get("/healthz").text == "ok\n"
    answer = stranger.get("/metrics")
    assert "private-name" not in answer.text
    assert "secret" not in answer.text
    values = openmetrics(answer)
    assert values['rumi_turns_total{reason="complete"}'] >= 1
    ended = values['rumi_turn_duration_seconds_bucket{le="+Inf"}']
    assert values["rumi_turn_duration_seconds_count"] == ended
    assert values['rumi_actors{state="running"}'] > 10
    assert values["rumi_page_windows"] == 0


STATIC = Path(rumi.channels.page.__file__).parent / "static"

BROKEN = (
    "GET / HTTP/1.1\r\n{host}Upgrade: h2c\r\nHTTP2-Settings: AAAA\r\nConnection: upgrade\r\n\r\n",
    "GET / HTTP/1.1\r\n{host}Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: AAAA\r\n\r\n" + "\xff" * 5000,
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\0" * 99,
    "GET / HTTP/1.1\r\n{host}Cookie: " + "a" * 100_000,
    "\x16\x03\x01" * 50,
)


def test_what_breaks_a_connection_breaks_no_other(served: Served, stranger: httpx.Client) -> None:
    host = stranger.base_url.host, stranger.base_url.port or 80
    restarts = served.do(served.restarts, "page")
    with stranger.stream("GET", "/static/page.js") as open_before:
        for broken in BROKEN:
            with socket.create_connection(host, 5) as connection:
                connection.sendall(broken.format(host=f"Host: {host[0]}:{host[1]}\r\n").encode("latin-1"))
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.settimeout(0.1)
                with contextlib.suppress(OSError):
                    connection.recv(1000)
        assert open_before.read() == (STATIC / "page.js").read_bytes()
    assert stranger.get("/healthz").text == "ok\n"
    assert served.do(served.restarts, "page") == restarts


def test_connections_are_bounded_and_slow_ones_keep_no_visitor_out(
    served: Served, client: httpx.Client
) -> None:
    host, port = served.url.removeprefix("http://").split(":")
    with contextlib.ExitStack() as stack:
        window = stack.enter_context(Window(client))
        window.until("begin")
        slow = [stack.enter_context(socket.create_connection((host, int(port)), 5)) for _ in range(180)]
        for connection in slow:
            with contextlib.suppress(OSError):
                connection.sendall(b"GET / HTTP/1.1\r\nHost: ")
        slow[0].settimeout(5)
        with contextlib.suppress(ConnectionResetError):
            assert slow[0].recv(1) == b""  # its place is another's now
        for _ in range(20):
            assert httpx.get(f"{served.url}/healthz").text == "ok\n"
        assert client.post("/chat/send", json={"chat": "cli", "text": "say still here"}).status_code == 200
        while not any("still here" in json.dumps(entry) for entry in window.entries.values()):
            next(iter(window))
    assert len(slow) > MOST_CONNECTIONS


def test_a_page_that_crashes_comes_back_with_its_sessions_and_takes_nobody_with_it(
    served: Served, client: httpx.Client
) -> None:
    before = {id: served.do(served.restarts, id) for id in ("page", "chats", "journal")}
    served.crash_page()
    served.until(lambda: served.restarts("page") > before["page"])
    assert client.get("/").status_code == 200  # it waits at the socket until somebody serves it
    assert served.do(served.restarts, "chats") == before["chats"]
    assert served.do(served.restarts, "journal") == before["journal"]


def test_a_session_ends_when_its_person_logs_out(client: httpx.Client) -> None:
    with Window(client) as window:
        window.until("begin")
        assert client.post("/logout", json={}).status_code == 204
        assert list(window)[-1] == {"type": "over"}
    assert client.get("/").status_code == 403


def test_a_browser_that_reads_nothing_delays_neither_others_nor_the_end(tmp_path: Path) -> None:
    begun = []
    with Served(tmp_path / "home") as served:
        page = served.page
        with httpx.Client(base_url=served.url, headers={"Origin": served.url}) as client:
            client.get(served.link)
            (cookie,) = client.cookies.items()
            slow = socket.socket()
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect(("127.0.0.1", client.base_url.port or 80))
            slow.sendall(f"GET /socket HTTP/1.1\r\nHost: {client.base_url.netloc.decode()}\r\n"
                         f"Origin: {served.url}\r\nCookie: {'='.join(cookie)}\r\nUpgrade: websocket\r\n"
                         "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                         "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode())  # fmt: skip
            # Its first message: {"type":"resume"}, masked with zeros.
            slow.sendall(b"\x81\x91\0\0\0\0" + b'{"type":"resume"}')
            served.until(lambda: page.windows)
            with Window(client) as window:
                for _ in range(25):  # more than the kernel keeps for one that does not read
                    fields = {"chat": "cli", "text": f"shows {'x' * 29_000}"}
                    number = client.post("/chat/send", json=fields).json()["number"]
                    window.until_done(f"t{number}")
                words = served.do(lambda: len(page.talks["cli"].transcript.entries))
                assert words == 50
            assert served.do(lambda: max(len(view._sent) for view in page.windows)) <= 50
        begun.append(time.monotonic())
    slow.close()
    assert time.monotonic() - begun[0] < 3 * STUCK_MS / 1000


# The parts


def test_links_and_sessions_have_their_time(tmp_path: Path) -> None:
    now, codes = [0.0], list[str]()
    kept = tmp_path / "sessions"

    def announce(link: LoginLink) -> None:
        codes.append(link.code)

    door = Door(announce, lambda: now[0], kept, lambda: now[0])
    assert door.enter("") is None
    door.offer()
    door.offer()
    assert len(codes) == 1
    now[0] = LINK_S
    assert not door.fits(codes[0])
    assert door.enter(codes[0]) is None
    door.offer()
    first = door.enter(codes[1])
    assert first is not None
    assert door.knows(first)
    now[0] += SESSION_S
    assert not door.knows(first)
    sessions = []
    for _ in range(MOST_SESSIONS + 1):
        door.offer()
        sessions.append(door.enter(codes[-1]) or "")
    assert [door.knows(session) for session in sessions] == [False] + [True] * MOST_SESSIONS
    later = Door(announce, lambda: now[0], kept, lambda: now[0])  # another process
    assert [later.knows(session) for session in sessions] == [False] + [True] * MOST_SESSIONS
    later.leave(sessions[1])
    now[0] -= BACK_S + 1
    assert not later.knows(sessions[2])  # a clock that was set back makes no session longer
    now[0] += BACK_S + 2
    last = Door(announce, lambda: now[0], kept, lambda: now[0])
    assert [last.knows(session) for session in sessions[:3]] == [False, False, True]
    assert not any(session in kept.read_text() for session in sessions)
    assert kept.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a": "b"}', "\0"])
def test_a_spoilt_file_of_sessions_lets_no_browser_in(tmp_path: Path, content: str) -> None:
    (tmp_path / "sessions").write_text(content)
    door = Door(print, time.monotonic, tmp_path / "sessions")
    assert not door.knows("a")
    door.offer()


NO_PLACES = ("", "8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "::1:80", ":8080", "a:b")
UNREACHABLE = ("no-such-host.invalid:1", "203.0.113.7:1")


@pytest.mark.parametrize("where", [*NO_PLACES, *UNREACHABLE])
def test_what_is_no_place_to_listen_at_is_told(where: str) -> None:
    with pytest.raises(UsageError):
        listen(where, "--web").close()


def test_a_port_in_use_is_told() -> None:
    bound = listen("127.0.0.1:0", "--web")
    with pytest.raises(UsageError, match=r"listens at .* already"):
        listen(f"127.0.0.1:{bound.port}", "--web")
    bound.close()


def test_the_names_of_a_page() -> None:
    everywhere, here = listen("0.0.0.0:0", "--web"), listen("127.0.0.1:0", "--web")
    try:
        assert not everywhere.loopback
        assert everywhere.is_own(f"192.0.2.1:{everywhere.port}", "192.0.2.1")
        assert everywhere.is_own(f"192.0.2.1:{everywhere.port}", "::ffff:192.0.2.1")
        # A container's port that its host forwards: the browser names its own machine.
        assert everywhere.is_own(f"localhost:{everywhere.port}", "192.0.2.1")
        assert everywhere.is_own(f"127.0.0.1:{everywhere.port}", "192.0.2.1")
        assert not everywhere.is_own(f"rebound.test:{everywhere.port}", "192.0.2.1")
        assert not BoundSocket("192.0.2.1", here.listener).is_own(f"localhost:{here.port}", "192.0.2.1")
        assert here.is_own(f"LOCALHOST:{here.port}", "127.0.0.1")
        assert not here.is_own(f"rebound.test:{here.port}", "127.0.0.1")
        assert BoundSocket("::1", here.listener).is_own(f"[::1]:{here.port}", "::1")
    finally:
        everywhere.close()
        here.close()


def test_words_are_the_same_in_both_languages() -> None:
    from rumi.platform.texts.page import page_words

    es, en = page_words("es"), page_words("en")
    for name, words in en.items():
        assert sorted(re.findall(r"\{\w+\}", words)) == sorted(re.findall(r"\{\w+\}", es[name])), name
    assert json.loads(json.dumps(es)) == es


@pytest.mark.parametrize("chat", ["tg5", "tg-100_7", "a b", "", "x" * 65, "../cli"])
def test_a_chat_of_another_owner_is_refused_like_one_that_is_none(client: httpx.Client, chat: str) -> None:
    for answer in (
        client.get("/chats/earlier", params={"chat": chat, "before": "5"}),
        client.post("/chat/send", json={"chat": chat, "text": "hi"}),
        client.post("/chat/stop", json={"chat": chat}),
        client.post("/chat/answer", json={"chat": chat, "id": "x", "yes": True}),
        client.post("/chat/seen", json={"chat": chat, "delivery": 1}),
    ):
        assert answer.status_code == 404
    renamed = client.post("/call", json={"call": "chats", "do": "rename", "chat": chat, "title": "mine"})
    assert renamed.json()["ok"] is False
    with Window(client, chat) as window:
        assert list(window) == []


def test_lists_and_searches_have_no_chats_of_other_owners(served: Served, client: httpx.Client) -> None:
    for chat in ("tg5", "mine"):
        served.say(chat, "say zebra")
        served.until(lambda chat=chat: chat not in served.app.services.pending.unreplied)  # type: ignore[misc]
    listed = client.post("/call", json={"call": "chats", "do": "list"}).json()["result"]
    assert "mine" in (chats := {chat["chat"] for chat in listed})
    assert "tg5" not in chats
    found = client.post("/call", json={"call": "chats", "do": "search", "words": "Zebra"}).json()["result"]
    assert {entry["chat"] for entry in found["entries"]} == {"mine"}


def test_of_turns_of_other_owners_the_board_shows_that_they_run_and_no_words(served: Served) -> None:
    def rows() -> dict[str, dict[str, Any]]:
        served.page.board.look()
        board: Any = served.page.board.topics["board"]
        return {row["id"]: row for row in board["chats"]}

    def both_run_a_command() -> bool:
        found = rows()
        return all(chat in found and found[chat]["tool"] for chat in ("tg6", "run"))

    for chat, word in (("tg6", "zebra"), ("run", "lion")):
        served.say(chat, f"sh sleep 600 {word}")
    served.until(both_run_a_command)
    shown = json.dumps(served.do(lambda: served.page.board.topics))
    assert "zebra" not in shown
    assert "lion" in shown
    theirs = served.do(rows)["tg6"]
    assert (theirs["tool"], theirs["phase"], theirs["working"]) == ("bash", "turn", True)
    for chat in ("tg6", "run"):
        served.run(served.app.inbox.command, chat, "/stop")


def test_of_tasks_of_other_owners_the_board_shows_that_they_run_and_no_words(tmp_path: Path) -> None:
    def notes(body: Body) -> Behaviour:
        if answered_calls(body):
            return Answer("words " * 40, pieces=8, pause_s=10)
        return Answer(calls=[("note", json.dumps({"text": last_user_text(body)}))])

    def known() -> str:
        return json.dumps(served.page.board.dump()["tree"])

    with Served(tmp_path, model=notes) as served:
        for chat, word in (("tg6", "zebra"), ("run", "lion")):
            served.say(chat, f"/research {word}")
        served.until(lambda: all(word in known() for word in ("zebra", "lion")))
        served.do(served.page.board.look)
        shown = json.dumps(served.do(lambda: served.page.board.topics))
    assert "lion" in shown
    assert "zebra" not in shown
    assert '"doing": "running"' in shown


def test_talks_that_nobody_looks_at_are_forgotten(served: Served, client: httpx.Client) -> None:
    for number in range(MOST_TALKS + 10):
        client.post("/chat/stop", json={"chat": f"many-{number}"})
    assert served.do(lambda: len(served.page.talks)) == MOST_TALKS


def test_the_page_knows_every_tool_of_a_chat_by_its_name(served: Served) -> None:
    view = ChatView("cli", lambda: False, lambda: "en")
    names = {tool.spec.name for tool in served.do(served.app.services.context.tools_for, view)}
    assert len(names) > 5
    assert names <= TOOLS


def test_the_zone_of_a_browser_is_taken_and_told_once(served: Served, client: httpx.Client) -> None:
    for number, zone in enumerate(("UTC", 7, "Mars/Olympus", "Pacific/Auckland", "America/Lima"), 1):
        fields = {"chat": "zoned", "text": "say hello", "zone": zone}
        assert client.post("/chat/send", json=fields).is_success
        replies = served.until(lambda number=number: told(served, number))
        assert ("🕰 I take Pacific/Auckland" in replies[-1]) is (zone == "Pacific/Auckland"), zone


def told(served: Served, number: int) -> list[str]:
    """Return the replies in the chat `zoned`; none before there are so many."""
    with contextlib.closing(sqlite3.connect(served.folder / "state.db")) as db:
        rows = db.execute("SELECT text FROM outbox WHERE chat = 'zoned' ORDER BY id").fetchall()
    return [text for (text,) in rows] if len(rows) >= number else []
