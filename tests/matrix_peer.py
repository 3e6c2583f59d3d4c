"""A person with an encrypting client: that of matrix-nio, with its own keys, in a thread of its own."""

import asyncio
import contextlib
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from nio import AsyncClient, AsyncClientConfig, MegolmEvent, RoomMessage, SyncResponse
from nio.crypto import decrypt_attachment, encrypt_attachment

from tests.matrix_server import User

WITHIN_S = 15.0


_running: list[tuple[asyncio.AbstractEventLoop, threading.Thread]] = []


def _begin() -> asyncio.AbstractEventLoop:
    """Return the loop of all clients: their stores share a global, so they must be in one thread."""
    if _running:
        _running.append(_running[0])
        return _running[0][0]
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    _running.append((loop, thread))
    return loop


def _end() -> None:
    loop, thread = _running.pop()
    if not _running:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()


class NioClient:
    """Sends and reads encrypted messages as a user. All methods block, and are for threads of tests."""

    def __init__(self, user: User, device: str, folder: str) -> None:
        self.user = user
        self.id = user.id
        self.device = device
        self.events: dict[str, list[Any]] = {}
        self.sealed: list[MegolmEvent] = []
        self.to_device = list[Any]()
        self._loop = _begin()
        self.run(self._open(folder))

    async def _open(self, folder: str) -> None:
        config = AsyncClientConfig(encryption_enabled=True, store_sync_tokens=False)
        self.client = AsyncClient(self.user.url, self.id, self.device, folder, config)
        self.client.restore_login(self.id, self.device, self.user.token)
        self.client.add_event_callback(self._message, RoomMessage)
        self.client.add_event_callback(self._unread, MegolmEvent)
        self.client.add_response_callback(self._synced, SyncResponse)
        await self.client.keys_upload()
        self._syncing = asyncio.create_task(self._sync())

    async def _sync(self) -> None:
        await self.client.sync_forever(timeout=1000, full_state=True)

    async def _message(self, room: Any, event: Any) -> None:
        self.events.setdefault(room.room_id, []).append(event)

    async def _synced(self, response: Any) -> None:
        self.to_device += response.to_device_events

    async def _unread(self, room: Any, event: Any) -> None:
        self.sealed.append(event)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WITHIN_S)

    def close(self) -> None:
        try:
            self.run(self._end())
        finally:
            _end()

    async def _end(self) -> None:
        self._syncing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._syncing
        await self.client.close()

    def _is_ready(self, room: str) -> bool:
        """Return True if the devices of all members are known, so that a message goes to them."""
        known, olm = self.client.rooms.get(room), self.client.olm
        return (
            known is not None
            and known.encrypted
            and not olm.users_for_key_query
            and all(
                any(olm.device_store.active_user_devices(user)) for user in known.users if user != self.id
            )
        )

    def send(self, room: str, content: dict[str, Any] | str, kind: str = "m.room.message") -> str:
        """Send an event into an encrypted room, once it is known to be one; return its id."""
        body = {"msgtype": "m.text", "body": content} if isinstance(content, str) else content

        async def go() -> str:
            while not self._is_ready(room):  # noqa: ASYNC110  # nothing tells of it
                await asyncio.sleep(0.05)
            sent = await self.client.room_send(room, kind, body, ignore_unverified_devices=True)
            assert hasattr(sent, "event_id"), sent
            return str(sent.event_id)

        return str(self.run(go()))

    def send_without_key(self, room: str, text: str) -> Callable[[str], None]:
        """Send a message whose key nobody gets; return a function that gives it to a user."""
        olm = self.client.olm
        olm.rotate_outbound_group_session(room)
        olm.create_outbound_group_session(room)
        session = olm.outbound_group_sessions[room]
        session.mark_as_shared()
        key = {"algorithm": "m.megolm.v1.aes-sha2", "room_id": room, "session_id": session.id}
        key["session_key"] = session.session_key
        inner = {"type": "m.room.message", "content": {"msgtype": "m.text", "body": text}}
        self.user.send(room, olm.group_encrypt(room, inner), "m.room.encrypted")
        olm.rotate_outbound_group_session(room)

        def give(user: str) -> None:
            (device,) = olm.device_store.active_user_devices(user)
            pair = olm.session_store.get(device.curve25519)
            sealed = olm._olm_encrypt(pair, device, "m.room_key", key)
            self.user.call(
                "PUT",
                f"/sendToDevice/m.room.encrypted/{session.id[:8].replace('/', '_')}",
                json={"messages": {user: {device.id: sealed}}},
            )

        return give

    def edit(self, room: str, event: str, text: str) -> str:
        """Replace the text of a message."""
        new = {"msgtype": "m.text", "body": text}
        related = {"rel_type": "m.replace", "event_id": event}
        return self.send(room, {**new, "body": f"* {text}", "m.new_content": new, "m.relates_to": related})

    def send_file(self, room: str, name: str, content: bytes) -> str:
        """Encrypt a file, upload it, and send it."""
        sealed, keys = encrypt_attachment(content)
        address = self.user.upload("x", sealed, "application/octet-stream")
        info = {"mimetype": "text/plain", "size": len(content)}
        return self.send(
            room, {"msgtype": "m.file", "body": name, "file": {**keys, "url": address}, "info": info}
        )

    def read_file(self, content: dict[str, Any]) -> bytes:
        """Download and decrypt the file of a message."""
        file = content["file"]
        sealed = self.user.download(file["url"])
        return bytes(decrypt_attachment(sealed, file["key"]["k"], file["hashes"]["sha256"], file["iv"]))

    def contents(self, room: str, sender: str) -> list[tuple[str, dict[str, Any], bool]]:
        """Return the id, the content and whether it was encrypted, of each message of a user."""
        found = list(self.events.get(room, []))
        return [
            (event.event_id, event.source["content"], event.decrypted)
            for event in found
            if event.sender == sender
        ]

    def shown(self, room: str, sender: str) -> list[str]:
        """Return the texts that a client shows of a user: the last version of each message."""
        texts = dict[str, str]()
        for id, content, _ in self.contents(room, sender):
            related = content.get("m.relates_to", {})
            if related.get("rel_type") == "m.replace":
                if related["event_id"] in texts:
                    texts[related["event_id"]] = content["m.new_content"]["body"]
            else:
                texts[id] = content["body"]
        return list(texts.values())


@contextlib.contextmanager
def peer(user: User, device: str = "") -> Iterator[NioClient]:
    """A client of a user for a block."""
    with tempfile.TemporaryDirectory(prefix="rumi-peer-") as folder:
        device = device or str(user.call("GET", "/account/whoami")["device_id"])
        running = NioClient(user, device, folder)
        try:
            yield running
        finally:
            running.close()
