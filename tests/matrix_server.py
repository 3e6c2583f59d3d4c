"""A real homeserver for tests: Synapse on SQLite, which listens on the loopback only and reaches nothing.

It runs in a virtual environment of its own, `.venv/synapse`, which `make synapse` installs.
"""

import base64
import contextlib
import hashlib
import hmac
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from tests.conftest import ROOT
from tests.postgres import free_port

DOMAIN = "example.test"
PYTHON = ROOT / ".venv" / "synapse" / "bin" / "python"
START_S = 60.0
_SECRET = "registration"


def missing() -> str:
    """Return why Synapse cannot run here; empty if it can."""
    return "" if PYTHON.exists() else "needs Synapse: make synapse"


_CONFIG = """
server_name: "{domain}"
listeners:
  - port: {port}
    type: http
    bind_addresses: ['127.0.0.1']
    resources: [{{names: [client, media]}}]
database: {{name: sqlite3, args: {{database: "{folder}/hs.db"}}}}
media_store_path: "{folder}/media"
signing_key_path: "{folder}/signing.key"
registration_shared_secret: "{secret}"
macaroon_secret_key: "macaroons"
form_secret: "forms"
report_stats: false
trusted_key_servers: []
suppress_key_server_warning: true
federation_domain_whitelist: []
log_config: "{folder}/log.yaml"
max_upload_size: 5M
url_preview_enabled: false
bcrypt_rounds: 4
rc_login:
  address: {{per_second: 1000, burst_count: 1000}}
  account: {{per_second: 1000, burst_count: 1000}}
rc_registration: {{per_second: 1000, burst_count: 1000}}
rc_joins:
  local: {{per_second: 1000, burst_count: 1000}}
rc_invites:
  per_room: {{per_second: 1000, burst_count: 1000}}
  per_user: {{per_second: 1000, burst_count: 1000}}
  per_issuer: {{per_second: 1000, burst_count: 1000}}
rc_message: {{per_second: {per_second}, burst_count: {burst}}}
rc_room_creation: {{per_second: 1000, burst_count: 1000}}
"""
_LOG = """
version: 1
formatters: {{f: {{format: '%(asctime)s %(levelname)s %(name)s %(message)s'}}}}
handlers: {{file: {{class: logging.FileHandler, formatter: f, filename: "{folder}/hs.log"}}}}
root: {{level: WARNING, handlers: [file]}}
disable_existing_loggers: false
"""


class Homeserver:
    """A running Synapse. `per_second` and `burst` limit the messages of each user."""

    def __init__(self, folder: Path, per_second: float = 1000, burst: int = 1000) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        values = {"folder": folder, "port": self.port, "domain": DOMAIN, "secret": _SECRET}
        config = _CONFIG.format(**values, per_second=per_second, burst=burst)
        (folder / "homeserver.yaml").write_text(config)
        (folder / "log.yaml").write_text(_LOG.format(folder=folder))
        key = base64.b64encode(os.urandom(32)).decode().rstrip("=")
        (folder / "signing.key").write_text(f"ed25519 a_test {key}\n")
        self._process: subprocess.Popen[bytes] | None = None
        self._names = count(1)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self.folder / "stderr").open("wb") as errors:
            self._process = subprocess.Popen(
                [PYTHON, "-m", "synapse.app.homeserver", "-c", self.folder / "homeserver.yaml"],
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
                env={"PATH": os.environ.get("PATH", ""), "SYNAPSE_CACHE_FACTOR": "0.5"},
            )
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            if self._process.poll() is not None:
                break
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{self.url}/_matrix/client/versions").status_code == 200:
                    return
            time.sleep(0.05)
        raise RuntimeError((self.folder / "stderr").read_text()[-2000:])

    def stop(self) -> None:
        """Stop it."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def user(self, name: str = "") -> "User":
        """Register a user."""
        name = name or f"user{next(self._names)}"
        with httpx.Client(base_url=self.url) as client:
            path = "/_synapse/admin/v1/register"
            nonce = client.get(path).json()["nonce"]
            words = "\0".join((nonce, name, f"secret of {name}", "notadmin")).encode()
            mac = hmac.new(_SECRET.encode(), words, hashlib.sha1).hexdigest()
            answer = client.post(
                path,
                json={
                    "nonce": nonce,
                    "username": name,
                    "password": f"secret of {name}",
                    "admin": False,
                    "mac": mac,
                },
            )
        assert answer.status_code == 200, answer.text
        found = answer.json()
        return User(self.url, found["user_id"], found["access_token"])

    def again(self, user: "User") -> "User":
        """Log a user in on a further device."""
        name = user.id.partition(":")[0][1:]
        body = {"type": "m.login.password", "password": f"secret of {name}"}
        body["identifier"] = {"type": "m.id.user", "user": name}  # type: ignore[assignment]
        found = user.call("POST", "/login", json=body)
        return User(self.url, user.id, found["access_token"])


class User:
    """A person's client, which blocks: for threads of tests, and for short calls."""

    def __init__(self, url: str, id: str, token: str) -> None:
        self.url = url
        self.id = id
        self.token = token
        self._headers = {"Authorization": f"Bearer {token}"}
        self._txn = count(1)

    def call(self, method: str, path: str, **more: Any) -> Any:
        """Make a call, which has to succeed."""
        answer = self._request(method, f"/_matrix/client/v3{path}", **more)
        while answer.status_code == 429:
            time.sleep(answer.json().get("retry_after_ms", 1000) / 1000)
            answer = self._request(method, f"/_matrix/client/v3{path}", **more)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.json()

    def _request(self, method: str, path: str, **more: Any) -> httpx.Response:
        headers = {**self._headers, **more.pop("headers", {})}
        return httpx.request(method, f"{self.url}{path}", headers=headers, timeout=60, **more)

    def room(self, *invited: str, direct: bool = False, name: str = "", encrypted: bool = False) -> str:
        """Create a room, and invite users."""
        body: dict[str, Any] = {"preset": "private_chat", "invite": list(invited), "is_direct": direct}
        if name:
            body["name"] = name
        if encrypted:
            content = {"algorithm": "m.megolm.v1.aes-sha2"}
            body["initial_state"] = [{"type": "m.room.encryption", "state_key": "", "content": content}]
        return str(self.call("POST", "/createRoom", json=body)["room_id"])

    def join(self, room: str) -> None:
        """Follow an invitation."""
        self.call("POST", f"/join/{room}", json={})

    def send(self, room: str, content: dict[str, Any] | str, kind: str = "m.room.message") -> str:
        """Send an event, and return its id."""
        body = {"msgtype": "m.text", "body": content} if isinstance(content, str) else content
        path = f"/rooms/{room}/send/{kind}/{id(self)}-{next(self._txn)}-{time.time_ns()}"
        return str(self.call("PUT", path, json=body)["event_id"])

    def edit(self, room: str, event: str, text: str) -> str:
        """Replace the text of a message."""
        new = {"msgtype": "m.text", "body": text}
        related = {"rel_type": "m.replace", "event_id": event}
        return self.send(room, {**new, "body": f"* {text}", "m.new_content": new, "m.relates_to": related})

    def react(self, room: str, event: str, key: str) -> str:
        """React to a message."""
        related = {"rel_type": "m.annotation", "event_id": event, "key": key}
        return self.send(room, {"m.relates_to": related}, "m.reaction")

    def redact(self, room: str, event: str) -> None:
        """Remove a message."""
        self.call("PUT", f"/rooms/{room}/redact/{event}/{time.time_ns()}", json={})

    def upload(self, name: str, content: bytes, media_type: str) -> str:
        """Upload a file, and return its address."""
        answer = self._request(
            "POST",
            "/_matrix/media/v3/upload",
            params={"filename": name},
            content=content,
            headers={"Content-Type": media_type},
        )
        assert answer.status_code == 200, answer.text
        return str(answer.json()["content_uri"])

    def download(self, address: str) -> bytes:
        """Download a file."""
        answer = self._request("GET", f"/_matrix/client/v1/media/download/{address.removeprefix('mxc://')}")
        assert answer.status_code == 200, answer.text
        return answer.content

    def events(self, room: str) -> list[dict[str, Any]]:
        """Return all events of a room, oldest first."""
        found, start = list[dict[str, Any]](), ""
        while True:
            params = {"dir": "b", "limit": "500", **({"from": start} if start else {})}
            page = self.call("GET", f"/rooms/{room}/messages", params=params)
            found += page["chunk"]
            start = page.get("end", "")
            if not start or not page["chunk"]:
                return found[::-1]

    def shown(self, room: str, sender: str, *, notices: bool = True) -> list[str]:
        """Return the texts that a client shows of a user: the last version of each message."""
        texts = dict[str, str]()
        for event in self.events(room):
            content = event["content"]
            if event["type"] != "m.room.message" or event["sender"] != sender or "body" not in content:
                continue
            if content["msgtype"] == "m.notice" and not notices:
                continue
            related = content.get("m.relates_to", {})
            if related.get("rel_type") == "m.replace":
                if related["event_id"] in texts:
                    texts[related["event_id"]] = content["m.new_content"]["body"]
            else:
                texts[event["event_id"]] = content["body"]
        return list(texts.values())

    def members(self, room: str) -> dict[str, str]:
        """Return the membership of each user of a room."""
        found = self.call("GET", f"/rooms/{room}/members")["chunk"]
        return {one["state_key"]: one["content"]["membership"] for one in found}


@contextlib.contextmanager
def homeserver(per_second: float = 1000, burst: int = 1000) -> Iterator[Homeserver]:
    """A homeserver for a block."""
    with tempfile.TemporaryDirectory(prefix="rumi-matrix-") as folder:
        server = Homeserver(Path(folder), per_second, burst)
        try:
            server.start()
            yield server
        finally:
            server.stop()


def printed(event: dict[str, Any]) -> str:
    """Return an event as a line, for failures of tests."""
    return json.dumps(event, ensure_ascii=False)[:500]
