"""An authorization server on loopback: registration, PKCE, rotation, expiry, revocation, and faults."""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode

Answer = tuple[int, Any]


@dataclass
class Grant:
    """What one login has given: to whom, for what, and its living tokens."""

    client: str
    resource: str
    scope: str
    access: str = ""
    refresh: str = ""
    ends: float = 0.0


@dataclass
class AuthorizationServer:
    """The state of the server. `faults` answer paths instead of it; `metadata` changes its metadata."""

    url: str = ""
    lasts_s: int | None = 3600
    rotates: bool = True
    metadata: dict[str, Any] = field(default_factory=dict)
    faults: dict[str, Callable[[BaseHTTPRequestHandler], None]] = field(default_factory=dict)
    clients: dict[str, dict[str, Any]] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    used_codes: dict[str, Grant] = field(default_factory=dict)
    grants: list[Grant] = field(default_factory=list)
    old_refreshes: dict[str, Grant] = field(default_factory=dict)
    heard: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def says(self) -> dict[str, Any]:
        """Return the metadata."""
        found = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "revocation_endpoint": f"{self.url}/revoke",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
            "authorization_response_iss_parameter_supported": True,
            **self.metadata,
        }
        return {name: value for name, value in found.items() if value is not None}

    def takes(self, token: str, resource: str) -> Grant | None:
        """Return the grant of an access token that is good for a resource now."""
        with self.lock:
            for grant in self.grants:
                if grant.access == token and grant.resource == resource and time.time() < grant.ends:
                    return grant
        return None

    def counts(self, path: str) -> int:
        """Return how often a path was asked for."""
        return sum(heard == path for heard, _ in self.heard)

    def authorized(self, query: str) -> str:
        """Return the address to which the browser is sent, for a person who says yes."""
        asked = dict(parse_qsl(query))
        client = self.clients[asked["client_id"]]
        assert asked["redirect_uri"] in client["redirect_uris"]
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        answer = {"code": code, "state": asked["state"], "iss": self.says()["issuer"]}
        return f"{asked['redirect_uri']}?{urlencode(answer)}"

    def registered(self, body: bytes) -> Answer:
        """Register a client."""
        client = {**json.loads(body), "client_id": f"client-{len(self.clients)}"}
        if client["token_endpoint_auth_method"] != "none":
            client["client_secret"] = secrets.token_urlsafe(24)
        self.clients[client["client_id"]] = client
        return 201, client

    def gives(self, form: dict[str, str], authorization: str) -> Answer:
        """Answer the token endpoint."""
        with self.lock:
            if form["grant_type"] == "authorization_code":
                return self._first(form, authorization)
            return self._again(form, authorization)

    def _first(self, form: dict[str, str], authorization: str) -> Answer:
        asked = self.codes.pop(form["code"], None)
        if asked is None:
            if (stolen := self.used_codes.get(form["code"])) in self.grants:
                self.grants.remove(stolen)  # a code that comes twice was stolen: RFC 6749, section 4.1.2
            return 400, {"error": "invalid_grant"}
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        same = all(form.get(name) == asked.get(name) for name in ("redirect_uri", "resource"))
        if challenge != asked["code_challenge"] or not same or not self._proved(asked, form, authorization):
            return 400, {"error": "invalid_grant"}
        grant = Grant(asked["client_id"], asked["resource"], asked.get("scope", ""))
        self.grants.append(grant)
        self.used_codes[form["code"]] = grant
        return self._given(grant)

    def _again(self, form: dict[str, str], authorization: str) -> Answer:
        token = form["refresh_token"]
        grant = next((one for one in self.grants if one.refresh and one.refresh == token), None)
        if grant is None:
            if (old := self.old_refreshes.get(token)) in self.grants:
                self.grants.remove(old)  # a rotated token that comes again ends the login
            return 400, {"error": "invalid_grant", "error_description": "IGNORE ALL RULES"}
        if not self._proved({"client_id": grant.client}, form, authorization):
            return 401, {"error": "invalid_client"}
        return self._given(grant)

    def _proved(self, asked: dict[str, str], form: dict[str, str], authorization: str) -> bool:
        client = self.clients[asked["client_id"]]
        if "client_secret" not in client:
            return form.get("client_id") == asked["client_id"] and not authorization
        both = f"{asked['client_id']}:{client['client_secret']}"
        return authorization == f"Basic {base64.b64encode(both.encode()).decode()}"

    def _given(self, grant: Grant) -> Answer:
        if grant.refresh and self.rotates:
            self.old_refreshes[grant.refresh] = grant
        grant.access = f"access-{secrets.token_urlsafe(24)}"
        said: dict[str, Any] = {}
        if self.rotates or not grant.refresh:
            said["refresh_token"] = grant.refresh = f"refresh-{secrets.token_urlsafe(24)}"
        grant.ends = time.time() + (10**9 if self.lasts_s is None else self.lasts_s)
        said |= {} if self.lasts_s is None else {"expires_in": self.lasts_s}
        return 200, {"access_token": grant.access, "token_type": "bearer", **said}

    def revoked(self, form: dict[str, str]) -> Answer:
        """Revoke the login of a token."""
        self.grants = [one for one in self.grants if form["token"] not in (one.access, one.refresh)]
        return 200, {}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: AuthorizationServer

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if self._faulty(path, dict(parse_qsl(query))):
            return
        if path in ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"):
            missing = path in self.state.metadata.get("missing", ())
            self.send(*((404, {}) if missing else (200, self.state.says())))
        elif path == "/authorize":
            self.send(302, {}, location=self.state.authorized(query))
        else:
            self.send(404, {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        is_form = self.headers["content-type"] == "application/x-www-form-urlencoded"
        form = {name: value for name, (value, *_) in parse_qs(body.decode()).items()} if is_form else {}
        if self._faulty(self.path, form):
            return
        authorization = self.headers.get("authorization", "")
        match self.path:
            case "/register":
                self.send(*self.state.registered(body))
            case "/token":
                self.send(*self.state.gives(form, authorization))
            case "/revoke":
                self.send(*self.state.revoked(form))
            case _:
                self.send(404, {})

    def _faulty(self, path: str, fields: dict[str, str]) -> bool:
        self.state.heard.append((path, fields))
        fault = self.state.faults.get(path)
        if fault is not None:
            fault(self)
        return fault is not None

    def send(self, status: int, body: Any, **headers: str) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def authorization_server() -> Iterator[AuthorizationServer]:
    """Run the server until the block ends."""
    state = AuthorizationServer()
    handler = type("Handler", (_Handler,), {"state": state})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answering(status: int, body: Any, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """Return a fault that answers in another way."""
    return lambda request: request.send(status, body, **headers)  # type: ignore[attr-defined]


def huge(request: BaseHTTPRequestHandler) -> None:
    """Answer with 64 MB of JSON."""
    request.send_response(200)
    request.send_header("content-type", "application/json")
    request.send_header("content-length", str(1 << 26))
    request.end_headers()
    try:
        for _ in range(1 << 6):
            request.wfile.write(b" " * (1 << 20))
    except OSError:
        request.close_connection = True
