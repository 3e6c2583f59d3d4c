"""Keys of rooms: each member's device encrypts with its own, and gives it to the others. All methods block.

A room's outgoing key is replaced when somebody who has it is not in the room any more, when one of their
devices is gone, and after a number of messages or a time that the room sets.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import vodozemac

from rumi.channels.matrix.encryption.key_store import Device, KeyStore, WaitingEvent
from rumi.channels.matrix.encryption.olm import MEGOLM
from rumi.channels.matrix.reading import MOST_ID, RoomEvent, event_of, fields, text

MESSAGES: Final = 100
PERIOD_S: Final = 7 * 86_400.0
"""After so many messages, or so many seconds, a room's outgoing key is replaced. A room can set less."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A message that cannot be read, because its key `session` is missing or, without one, for good."""

    event: RoomEvent
    session: str = ""
    unknown: bool = False
    """The key is there, but not the device that it belongs to."""


class MegolmRooms:
    """The keys of rooms, of others and of this device."""

    def __init__(self, store: KeyStore, user: str, device: str, curve: str, ed: str) -> None:
        self._store = store
        self._user = user
        self._device = device
        self._curve = curve
        self._ed = ed

    # Rooms

    def note_room(self, room: str, content: Mapping[str, Any]) -> None:
        """Record that a room is encrypted. It is for ever: nobody can undo it."""
        algorithm = text(content, "algorithm") or ""
        period, messages = content.get("rotation_period_ms"), content.get("rotation_period_msgs")
        period_s = period / 1000 if type(period) is int and 0 < period < 2**53 else PERIOD_S
        count = messages if type(messages) is int and 0 < messages < MESSAGES else MESSAGES
        self._store.change(
            "INSERT INTO rooms (room, algorithm, period, messages) VALUES (?, ?, ?, ?) ON CONFLICT (room) DO"
            " UPDATE SET period = min(period, excluded.period), messages = min(messages, excluded.messages)",
            *(room, algorithm, min(period_s, PERIOD_S), count),
        )

    def rooms(self) -> dict[str, str]:
        """Return the encrypted rooms with their algorithms."""
        return dict(self._store.rows("SELECT room, algorithm FROM rooms"))

    # Keys of others

    def take_key(self, user: str, curve: str, ed: str, content: Mapping[str, Any], now: float) -> None:
        """Store a room's key that a device has given to this one."""
        if text(content, "algorithm") != MEGOLM:
            return
        room, key = _id(content, "room_id"), text(content, "session_key") or ""
        session = vodozemac.InboundGroupSession(vodozemac.SessionKey(key))
        if session.session_id != text(content, "session_id"):
            raise ValueError("the key has another name")
        self._keep(room, user, curve, ed, session, now)

    def take_forwarded(self, user: str, curve: str, ed: str, content: Mapping[str, Any], now: float) -> None:
        """Store a key that this device had asked for. Only the device that made the key may give it again."""
        room, id = _id(content, "room_id"), _id(content, "session_id")
        wanted = any(one.session == id and one.user == user for one in self._store.waiting(room))
        if not wanted or text(content, "sender_key") != curve or text(content, "algorithm") != MEGOLM:
            return
        key = text(content, "session_key") or ""
        session = vodozemac.InboundGroupSession.import_session(vodozemac.ExportedSessionKey(key))
        if session.session_id != id:
            raise ValueError("the key has another name")
        self._keep(room, user, curve, ed, session, now)

    def _keep(
        self, room: str, user: str, curve: str, ed: str, session: vodozemac.InboundGroupSession, now: float
    ) -> None:
        """Store a key. A known one is replaced by the same device only, and only if it reads more."""
        found = self._store.rows(
            "SELECT curve, pickle FROM inbound WHERE room = ? AND id = ? AND user = ?",
            *(room, session.session_id, user),
        )
        if found:
            known = vodozemac.InboundGroupSession.from_pickle(found[0][1], self._store.key)
            if found[0][0] != curve or known.first_known_index <= session.first_known_index:
                return
        self._store.change(
            "INSERT OR REPLACE INTO inbound (room, id, user, curve, ed, pickle, came)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            *(room, session.session_id, user, curve, ed, session.pickle(self._store.key), now),
        )

    def read(self, room: str, event: RoomEvent) -> dict[str, Any] | Unread:
        """Return an encrypted event as the event that its sender wrote."""
        id = text(event.content, "session_id") or ""
        if text(event.content, "algorithm") != MEGOLM or not id or len(id) > MOST_ID:
            return Unread(event)
        found = self._store.rows(
            "SELECT curve, ed, pickle FROM inbound WHERE room = ? AND id = ? AND user = ?",
            *(room, id, event.sender),
        )
        if not found:
            return Unread(event, id)
        curve, ed, pickle = found[0]
        if event.sender != self._user or curve != self._curve:
            owner = self._store.rows(
                "SELECT 1 FROM devices WHERE user = ? AND curve = ? AND ed = ?", event.sender, curve, ed
            )
            if not owner:
                return Unread(event, id, unknown=True)
        session = vodozemac.InboundGroupSession.from_pickle(pickle, self._store.key)
        try:
            message = vodozemac.MegolmMessage.from_base64(text(event.content, "ciphertext") or "")
            if message.message_index() < session.first_known_index:
                return Unread(event, id)
            plain = session.decrypt(message)
            inner = json.loads(plain.plaintext)
        except (ValueError, RecursionError):
            return Unread(event)
        if not isinstance(inner, dict) or text(inner, "room_id") != room or not text(inner, "type"):
            return Unread(event)
        # A server could repeat an event under another name: each index of a key belongs to one event.
        self._store.change(
            "INSERT INTO indices VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            *(room, id, event.sender, plain.message_index, event.id),
        )
        ((owner_event,),) = self._store.rows(
            "SELECT event FROM indices WHERE room = ? AND id = ? AND user = ? AND number = ?",
            *(room, id, event.sender, plain.message_index),
        )
        if owner_event != event.id:
            return Unread(event)
        content = dict(fields(inner, "content"))
        content.pop("m.relates_to", None)
        if related := fields(event.content, "m.relates_to"):
            content["m.relates_to"] = related
        raw = {name: value for name, value in event.raw.items() if name != "state_key"}
        return {**raw, "type": inner["type"], "content": content}

    def late(self, room: str | None = None) -> list[tuple[WaitingEvent, dict[str, Any] | Unread]]:
        """Return messages that have waited for their keys, as they can be read now."""
        found = []
        for waiting in self._store.waiting(room):
            event = event_of(json.loads(waiting.raw))
            if event is not None:
                found.append((waiting, self.read(waiting.room, event)))
        return found

    # The outgoing key

    def prepare(
        self, room: str, devices: Sequence[Device], members: Sequence[str], now: float
    ) -> list[Device]:
        """Make sure that a room has an outgoing key; return the devices that do not have it yet."""
        self._end_if_due(room, devices, members, now)
        found = self._store.rows("SELECT id FROM outbound WHERE room = ?", room)
        if found:
            id = str(found[0][0])
        else:
            session = vodozemac.GroupSession()
            id = session.session_id
            self._store.change(
                "INSERT INTO outbound (room, id, pickle, made, messages) VALUES (?, ?, ?, ?, 0)",
                *(room, id, session.pickle(self._store.key), now),
            )
            own = vodozemac.InboundGroupSession(session.session_key)
            self._keep(room, self._user, self._curve, self._ed, own, now)
        sql = "SELECT user, device FROM shared WHERE id = ?"
        have = {(str(user), str(device)) for user, device in self._store.rows(sql, id)}
        return [one for one in devices if (one.user, one.id) not in have and one.curve != self._curve]

    def _end_if_due(self, room: str, devices: Sequence[Device], members: Sequence[str], now: float) -> None:
        found = self._store.rows(
            "SELECT outbound.id, made, outbound.messages, period, rooms.messages FROM outbound"
            " JOIN rooms USING (room) WHERE room = ?",
            room,
        )
        if not found:
            return
        id, made, messages, period, most = found[0]
        shared = self._store.rows("SELECT user, device FROM shared WHERE id = ?", id)
        present, inside = {(device.user, device.id) for device in devices}, set(members)
        left = any(user not in inside or (user, device) not in present for user, device in shared)
        if left or messages >= most or not made <= now < made + period:
            self.end(room)

    def end(self, room: str) -> None:
        """Forget the outgoing key of a room: the next message gets a new one."""
        for (id,) in self._store.rows("SELECT id FROM outbound WHERE room = ?", room):
            self._store.change("DELETE FROM shared WHERE id = ?", id)
        self._store.change("DELETE FROM outbound WHERE room = ?", room)

    def key_of(self, room: str) -> tuple[str, dict[str, Any]]:
        """Return the name of the outgoing key, and what other devices get: it reads from now on."""
        ((id, pickle),) = self._store.rows("SELECT id, pickle FROM outbound WHERE room = ?", room)
        session = vodozemac.GroupSession.from_pickle(pickle, self._store.key)
        key = session.session_key.to_base64()
        content = {"algorithm": MEGOLM, "room_id": room, "session_id": id, "session_key": key}
        return str(id), content

    def note_shared(self, id: str, devices: Sequence[Device]) -> None:
        """Record which devices have a key."""
        for device in devices:
            self._store.change(
                "INSERT INTO shared VALUES (?, ?, ?) ON CONFLICT DO NOTHING", id, device.user, device.id
            )

    def forget_shared(self, curve: str) -> None:
        """Give a device the outgoing keys again: it has lost its session."""
        self._store.change(
            "DELETE FROM shared WHERE (user, device) IN (SELECT user, device FROM devices WHERE curve = ?)",
            curve,
        )

    def encrypt(self, room: str, kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
        """Return a message as an encrypted one; the key's new state is stored first."""
        ((id, pickle),) = self._store.rows("SELECT id, pickle FROM outbound WHERE room = ?", room)
        session = vodozemac.GroupSession.from_pickle(pickle, self._store.key)
        inner = {name: value for name, value in content.items() if name != "m.relates_to"}
        whole = json.dumps({"type": kind, "content": inner, "room_id": room}, ensure_ascii=False)
        ciphertext = session.encrypt(whole.encode("utf-8", "replace")).to_base64()
        self._store.change(
            "UPDATE outbound SET pickle = ?, messages = messages + 1 WHERE room = ?",
            *(session.pickle(self._store.key), room),
        )
        sealed: dict[str, Any] = {
            "algorithm": MEGOLM,
            "sender_key": self._curve,
            "device_id": self._device,
            "session_id": id,
            "ciphertext": ciphertext,
        }
        if "m.relates_to" in content:  # servers group edits and threads by it, so it is not encrypted
            sealed["m.relates_to"] = content["m.relates_to"]
        return sealed


def _id(content: Mapping[str, Any], name: str) -> str:
    found = text(content, name)
    if not found or len(found) > MOST_ID:
        raise ValueError(f"{name} is missing")
    return found
