"""Calls to a homeserver: matrix-nio builds the requests, httpx sends them below trio.

The token stands only in the header `Authorization`, never in an address, and redirects are not followed: no
other server ever gets it. Every response is bounded in size.
"""

import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import parse_qsl, quote, urlencode

import trio

from rumi.errors import RumiError
from rumi.platform import http
from rumi.platform.extras import require_extra
from rumi.platform.untrusted_text import one_line

if TYPE_CHECKING:
    import httpx

try:
    from nio.api import Api
except ImportError:
    require_extra("matrix")
    raise

logger = logging.getLogger(__name__)

Kind: TypeAlias = Literal["limited", "refused", "token", "unreachable", "unknown"]
"""How a call failed. `unknown`: the server may have done what was asked."""

CALL_S: Final = 30.0
"""Time limit of a short call, in seconds."""

UPLOAD_S: Final = 180.0
"""Time limit of an upload, in seconds."""

MOST_BYTES: Final = 4_000_000
"""Maximum size of most responses, in bytes."""

MOST_SYNC_BYTES: Final = 100_000_000
"""Maximum size of the response to a sync, in bytes."""

LARGE_BYTES: Final = 1_000_000
"""Responses of more bytes are parsed in a thread, so that chats do not wait."""

MOST_WAIT_S: Final = 3600.0
"""The longest wait that a server can ask for, in seconds."""

CONNECTIONS: Final = 32


class MatrixError(RumiError):
    """A call failed. `errcode` is the server's, such as M_FORBIDDEN; `wait_s` a wait that it asks for."""

    def __init__(
        self, message: str, *, kind: Kind, errcode: str = "", wait_s: float = 0.0, words: str = ""
    ) -> None:
        super().__init__(message, words=words)
        self.kind = kind
        self.errcode = errcode
        self.wait_s = wait_s

    @property
    def gone(self) -> bool:
        """Return True if the account cannot do anything in the room any more."""
        return self.kind == "refused" and self.errcode in ("M_FORBIDDEN", "M_NOT_FOUND", "M_UNKNOWN_ROOM")


class MatrixApi:
    """A homeserver, with the account's token. All methods raise `MatrixError`."""

    def __init__(self, client: "httpx.AsyncClient", homeserver: str, token: str, user: str = "") -> None:
        self._client = client
        self._root = homeserver.rstrip("/")
        self._token = token
        self.user = user

    # Reading

    async def whoami(self) -> tuple[str, str]:
        """Return the user id of the token's account, and its device."""
        found = await self._json(*Api.whoami(""))
        return str(found.get("user_id") or ""), str(found.get("device_id") or "")

    async def login(self, user: str, password: str, device: str) -> str:
        """Log in with a password, and return a new token."""
        found = await self._json(*Api.login(user, password, device))
        token = found.get("access_token")
        if not isinstance(token, str) or not token:
            raise _unusable()
        return token

    async def sync(self, since: str, wait_s: float, event_filter: dict[str, Any]) -> dict[str, Any]:
        """Return what has happened since a position; the server may wait for something to happen."""
        request = Api.sync("", since or None, int(wait_s * 1000), event_filter, set_presence="online")
        return await self._json(*request, limit_s=wait_s + CALL_S, most=MOST_SYNC_BYTES)

    async def messages(
        self, room: str, start: str, end: str, limit: int, event_filter: dict[str, Any]
    ) -> dict[str, Any]:
        """Return events of a room from `start` backwards, until `end` if it is not empty."""
        request = Api.room_messages("", room, start, end or None, limit=limit, message_filter=event_filter)
        return await self._json(*request, most=MOST_SYNC_BYTES)

    async def event(self, room: str, event: str) -> dict[str, Any]:
        """Return an event of a room."""
        return await self._json(*Api.room_get_event("", room, event), limit_s=10.0)

    async def members(self, room: str) -> dict[str, Any]:
        """Return the joined members of a room: their profiles by their ids."""
        found = await self._json(*Api.joined_members("", room), most=MOST_SYNC_BYTES)
        joined = found.get("joined")
        return joined if isinstance(joined, dict) else {}

    async def joined(self) -> list[str]:
        """Return the rooms that the account is in."""
        found = (await self._json(*Api.joined_rooms(""))).get("joined_rooms")
        return [room for room in found if isinstance(room, str)] if isinstance(found, list) else []

    async def state(self, room: str, kind: str) -> dict[str, Any]:
        """Return the content of a state event of a room; empty if the room has none."""
        try:
            return await self._json(*Api.room_get_state_event("", room, kind))
        except MatrixError as error:
            if error.kind == "refused" and error.errcode == "M_NOT_FOUND":
                return {}
            raise

    # Rooms

    async def resolve(self, alias: str) -> str:
        """Return the room that an address stands for; empty if none does."""
        try:
            found = await self._json(*Api.room_resolve_alias(alias))
        except MatrixError as error:
            if error.kind == "refused":
                return ""
            raise
        return str(found.get("room_id") or "")

    async def join(self, room: str) -> None:
        """Join a room."""
        method, path = Api.join("", room)
        await self._json(method, path, "{}")

    async def leave(self, room: str) -> None:
        """Leave a room, or refuse an invitation."""
        method, path = Api.room_leave("", room)
        await self._json(method, path, "{}")

    # Sending. A repeated call with the same `txn` gives the same event: servers recognise it for a day.

    async def send(self, room: str, kind: str, content: Mapping[str, Any], txn: str) -> str:
        """Send an event, and return its id."""
        found = await self._json(*Api.room_send("", room, kind, dict(content), txn))
        event = found.get("event_id")
        if not isinstance(event, str) or not event:
            raise _unusable()
        return event

    async def redact(self, room: str, event: str, txn: str) -> None:
        """Remove the content of an event."""
        await self._json(*Api.room_redact("", room, event, txn))

    async def typing(self, room: str, seconds: float) -> None:
        """Show that Rumi types, for so many seconds; 0 ends it."""
        request = Api.room_typing("", room, self.user, seconds > 0, int(seconds * 1000))
        await self._json(*request, limit_s=10.0)

    async def read(self, room: str, event: str) -> None:
        """Show that everything up to an event was read."""
        await self._json(*Api.room_read_markers("", room, event, event), limit_s=10.0)

    # Files

    async def upload(self, name: str, media_type: str, content: bytes) -> str:
        """Store a file at the server, and return its address."""
        method, path = Api.upload("", name)
        path = path.replace("/_matrix/media/r0/", "/_matrix/media/v3/")
        found = await self._json(method, path, body=content, media_type=media_type, limit_s=UPLOAD_S)
        address = found.get("content_uri")
        if not isinstance(address, str) or not address.startswith("mxc://"):
            raise _unusable()
        return address

    @asynccontextmanager
    async def download(self, server: str, media: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a file of the homeserver, or of another server, which the homeserver asks for it."""
        # Not `Api.download`, whose path ends with a slash, which servers do not know.
        path = f"/_matrix/client/v1/media/download/{quote(server, safe='')}/{quote(media, safe='')}"
        async with self._stream("GET", path, None, "", UPLOAD_S) as response:
            if response.status_code != 200:
                raise _error(response.status_code, await _body(response, MOST_BYTES), {})
            chunks = response.aiter_bytes()
            try:
                yield chunks
            finally:
                await http.unwind(chunks)

    # Keys of devices

    async def upload_keys(self, keys: Mapping[str, Any]) -> None:
        """Store keys of this device at the server."""
        await self._json(*Api.keys_upload("", dict(keys)))

    async def query_keys(self, users: Sequence[str]) -> dict[str, Any]:
        """Return the devices of users."""
        return await self._json(*Api.keys_query("", users), most=MOST_SYNC_BYTES)

    async def claim_keys(self, devices: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Take a one-time key of each of these devices."""
        return await self._json(*Api.keys_claim("", dict(devices)))

    async def to_device(self, kind: str, messages: Mapping[str, Mapping[str, Any]], txn: str) -> None:
        """Send an event to each of these devices."""
        await self._json(*Api.to_device("", kind, {"messages": messages}, txn))

    # HTTP

    async def _json(
        self,
        method: str,
        path: str,
        body: str | bytes | None = None,
        *,
        media_type: str = "application/json",
        limit_s: float = CALL_S,
        most: int = MOST_BYTES,
    ) -> dict[str, Any]:
        async with self._stream(method, path, body, media_type, limit_s) as response:
            content = await _body(response, most)
            status, headers = response.status_code, dict(response.headers)
        if status != 200:
            raise _error(status, content, headers)
        load = json.loads
        try:
            large = len(content) > LARGE_BYTES
            found = await trio.to_thread.run_sync(load, content) if large else load(content)
        except (ValueError, RecursionError):
            raise _unusable() from None
        if not isinstance(found, dict):
            raise _unusable()
        return found

    @asynccontextmanager
    async def _stream(
        self, method: str, path: str, body: str | bytes | None, media_type: str, limit_s: float
    ) -> "AsyncIterator[httpx.Response]":
        import httpx

        path, _, query = path.partition("?")
        # matrix-nio puts tokens into addresses, which servers write to their logs.
        query = urlencode([(name, value) for name, value in parse_qsl(query) if name != "access_token"])
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        if body is not None:
            headers["Content-Type"] = media_type
        sent = False
        try:
            with trio.fail_after(limit_s):
                sent = True
                async with self._client.stream(
                    method,
                    f"{self._root}{path}{'?' if query else ''}{query}",
                    content=body.encode() if isinstance(body, str) else body,
                    headers=headers,
                    timeout=httpx.Timeout(limit_s, connect=10.0, pool=limit_s),
                ) as response:
                    yield response
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout):
            raise MatrixError("The homeserver cannot be reached.", kind="unreachable") from None
        except (httpx.HTTPError, httpx.StreamError, trio.TooSlowError):
            kind: Kind = "unknown" if sent else "unreachable"
            raise MatrixError("The homeserver did not answer.", kind=kind) from None


async def _body(response: "httpx.Response", most: int) -> bytes:
    parts, size, chunks = list[bytes](), 0, response.aiter_bytes()
    try:
        async for part in chunks:
            size += len(part)
            if size > most:
                raise MatrixError("The homeserver's answer is too large.", kind="unknown")
            parts.append(part)
    finally:
        await http.unwind(chunks)
    return b"".join(parts)


def _error(status: int, content: bytes, headers: Mapping[str, str]) -> MatrixError:
    """Return the error that a response reports. A response of a proxy says nothing about the request."""
    try:
        fields = json.loads(content)
        errcode, words = fields["errcode"], fields.get("error", "")
        assert isinstance(errcode, str)
        words = words if isinstance(words, str) else ""
    except (ValueError, KeyError, TypeError, AssertionError, AttributeError, RecursionError):
        fields, errcode, words = {}, "", ""
    if status == 429 or errcode == "M_LIMIT_EXCEEDED":
        asked_s = _seconds(fields.get("retry_after_ms"), 0.001) or _seconds(headers.get("retry-after"), 1)
        wait_s = asked_s or 1.0
        return MatrixError("The homeserver asks for a pause.", kind="limited", wait_s=wait_s)
    if errcode in ("M_UNKNOWN_TOKEN", "M_MISSING_TOKEN"):
        return MatrixError("The homeserver does not accept the token.", kind="token", errcode=errcode)
    words = one_line(words, 200)
    if errcode and 400 <= status < 500:
        return MatrixError(
            "The homeserver refuses it: {words}",
            kind="refused",
            errcode=errcode,
            words=f"{errcode} {words}".strip(),
        )
    words = f"HTTP {status} {words}".strip()
    return MatrixError("The homeserver answers with an error: {words}", kind="unknown", words=words)


def _seconds(value: object, unit: float) -> float:
    try:
        seconds = float(value) * unit if isinstance(value, int | float | str) else 0.0
    except ValueError:
        return 0.0
    return min(max(seconds, 0.0), MOST_WAIT_S) if seconds == seconds else 0.0


def _unusable() -> MatrixError:
    return MatrixError("The homeserver's answer cannot be used.", kind="unknown")


@asynccontextmanager
async def open_api(homeserver: str, token: str, user: str = "") -> AsyncIterator[MatrixApi]:
    """Open the connections to a homeserver, and close them at the end. Opening makes no request."""
    import httpx

    client = await http.client(
        http.plain, http.Tls(), limits=httpx.Limits(max_connections=CONNECTIONS, keepalive_expiry=60.0)
    )
    try:
        yield MatrixApi(client, homeserver, token, user)
    finally:
        await http.close(client.aclose)
