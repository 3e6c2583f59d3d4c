"""The encryption of an account: what the receiver gives it, and what the sender asks of it.

The receiver hands over each sync before it stores the position after it, so a key is never lost with a kill.
What comes again after one is recognised. All of the store's work is done in one thread.
"""

import json
import logging
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any, Final, TypeVar

import trio

from rumi.channels.matrix.api import MatrixApi, MatrixError
from rumi.channels.matrix.encryption.key_store import Device, KeyStore, KeysUnusable, WaitingEvent
from rumi.channels.matrix.encryption.megolm import MegolmRooms, Unread
from rumi.channels.matrix.encryption.olm import LEAST_KEYS, MEGOLM, OlmDevice, device_of, digest_of
from rumi.channels.matrix.reading import MOST_ID, RoomEvent, event_of, fields, items, text
from rumi.channels.matrix.rooms import Rooms
from rumi.errors import RumiError
from rumi.platform.threads import Threads

logger = logging.getLogger(__name__)
T = TypeVar("T")

LATE_S: Final = 120.0
"""For how long a message waits for its key, in seconds, before its room is told that it cannot be read."""

AGAIN_S: Final = 600.0
"""Pause before a device that has no one-time key is asked again, in seconds."""

HEAL_S: Final = 3600.0
"""A device whose messages cannot be decrypted gets a new session at most once in this time, in seconds."""

AT_ONCE: Final = 100
"""Number of devices that one request gives a key, and of users whose devices one request asks for."""

MOST_DEVICES: Final = 200
"""Maximum number of devices of a user. Further ones are not taken."""


class RoomEncryption:
    """The device of one account. Outlives restarts of the receiver and the sender.

    `may_talk` says whose messages wait for their keys, and whose new devices are told. `tell` is called with
    a room and the new device of a member; `unread` with a room whose message stays unread.
    """

    def __init__(
        self,
        api: MatrixApi,
        rooms: Rooms,
        path: Path,
        token: str,
        may_talk: Callable[[str], bool],
        *,
        now: Callable[[], float] = time.time,
        late_s: float = LATE_S,
    ) -> None:
        self.tell: Callable[[str, Device], object] = lambda room, device: None
        self.unread: Callable[[str], object] = lambda room: None
        self.fault: KeysUnusable | None = None
        self.counts: dict[str, int] = {"decrypted": 0, "undecryptable": 0, "keys": 0}
        self._api = api
        self._members = rooms
        self._store = KeyStore(path, token)
        self._may_talk = may_talk
        self._now = now
        self._late_s = late_s
        self._offload = Threads(1)
        self._ready = False
        self._beginning = trio.Lock()
        self._lines: defaultdict[str, trio.Lock] = defaultdict(trio.Lock)
        self._claiming = trio.Lock()
        self._encrypted: dict[str, str] = {}
        self._plain: set[str] = set()
        self._unclaimed: dict[str, float] = {}
        self._healed: dict[str, float] = {}
        self._olm: OlmDevice
        self._megolm: MegolmRooms

    async def close(self) -> None:
        """Close the store."""
        with trio.CancelScope(shield=True):
            await self._offload(self._store.close)

    async def _do(self, work: Callable[[], T]) -> T:
        """Run work on the store as one transaction, in the store's thread."""

        def run() -> T:
            try:
                with self._store.transaction():
                    return work()
            except BaseException as error:
                if self._ready:
                    self._olm.reload()
                if type(error).__name__ == "PanicException":  # of vodozemac; it would end the process
                    raise RumiError("The keys of encrypted rooms cannot be used now.") from None
                raise

        try:
            return await self._offload(run)
        except (sqlite3.Error, OSError) as error:
            logger.warning("the keys cannot be stored: %s", error)
            raise MatrixError("The keys of encrypted rooms cannot be stored.", kind="unreachable") from None

    # The device

    async def begin(self) -> None:
        """Read or make the device's keys, and give them to the server. Further calls do nothing.

        If they cannot be used, `fault` says why from then on.

        Raises:
            MatrixError: The server does not answer now.
        """
        async with self._beginning:
            if self._ready or self.fault is not None:
                return
            user, device = await self._api.whoami()
            try:
                if not device:
                    raise KeysUnusable("The token of {user} belongs to no device.", user=user)
                await self._offload(partial(self._open, user, device))
                await self._check(user, device)
                await self._api.upload_keys({"device_keys": self._olm.described()})
            except KeysUnusable as fault:
                logger.error("encrypted rooms cannot be read: %s %s", fault.message, fault.advice or "")
                self.fault = fault
                return
            self._encrypted = await self._offload(self._megolm.rooms)
            self._ready = True

    def _open(self, user: str, device: str) -> None:
        self._olm = OlmDevice(self._store, user, device)
        self._megolm = MegolmRooms(self._store, user, device, self._olm.curve, self._olm.ed)

    async def _check(self, user: str, device: str) -> None:
        """Refuse to replace other keys of this device at the server: nobody would believe the new ones."""
        found = await self._api.query_keys([user])
        known = fields(fields(fields(found, "device_keys"), user), device)
        curve = text(fields(known, "keys"), f"curve25519:{device}")
        if curve and curve != self._olm.curve:
            raise KeysUnusable(
                "The keys of {user} are not in this home, but its device has some already.",
                "Make a new token with: rumi setup",
                user=user,
            )

    # Receiving

    async def take(self, sync: Mapping[str, Any]) -> None:
        """Take the keys of a sync, before the position after it is stored.

        Raises:
            MatrixError: The server does not answer now.
        """
        await self.begin()
        if self.fault is not None:
            return
        lists = fields(sync, "device_lists")
        changed = [user for name in ("changed", "left") for user in items(lists, name) if _usable(user)]
        events = [event for event in items(fields(sync, "to_device"), "events") if isinstance(event, dict)]
        await self._take_rooms(fields(fields(sync, "rooms"), "join"))
        unfit = await self._do(partial(self._take, events, changed)) if events or changed else []
        self.counts["keys"] += len(events)
        await self._keep_keys(sync)
        for sender, curve in unfit:
            await self._heal(sender, curve)

    async def _take_rooms(self, joined: Mapping[str, Any]) -> None:
        found = [
            (room, fields(raw, "content"))
            for room in filter(_usable, joined)
            for name in ("state", "timeline")
            for raw in items(fields(fields(joined, room), name), "events")
            if text(raw, "type") == "m.room.encryption" and text(raw, "state_key") == ""
        ]
        if found:
            await self._note_rooms(found)

    async def _note_rooms(self, found: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        def note() -> dict[str, str]:
            for room, content in found:
                self._megolm.note_room(room, content)
            return self._megolm.rooms()

        self._encrypted = await self._do(note)
        self._plain -= {room for room, _ in found}

    def _take(self, events: Sequence[dict[str, Any]], changed: Sequence[str]) -> list[tuple[str, str]]:
        """Take events between devices; return the senders and devices whose session is of no use."""
        now, unfit = self._now(), []
        self._store.note_stale(changed)
        self._store.forget_old(now)
        for event in events:
            try:
                if text(event, "type") != "m.room.encrypted" or not self._store.is_new(digest_of(event), now):
                    continue
                found = self._olm.decrypt(event, now)
                if found is not None:
                    self._take_one(text(event, "sender") or "", *found, now)
            except (ValueError, RecursionError) as error:  # one odd event must not stop the others
                logger.info("an event between devices was not read: %s", error)
                curve = text(fields(event, "content"), "sender_key") or ""
                unfit.append((text(event, "sender") or "", curve))
        return unfit

    def _take_one(self, sender: str, curve: str, found: Mapping[str, Any], now: float) -> None:
        content, ed = fields(found, "content"), text(fields(found, "keys"), "ed25519") or ""
        match text(found, "type"):
            case "m.room_key":
                self._megolm.take_key(sender, curve, ed, content, now)
            case "m.forwarded_room_key":
                self._megolm.take_forwarded(sender, curve, ed, content, now)
            case "m.dummy":
                self._megolm.forget_shared(curve)
            case _:
                pass

    async def _keep_keys(self, sync: Mapping[str, Any]) -> None:
        """Give the server further one-time keys if it has few."""
        counts = sync.get("device_one_time_keys_count")
        if not isinstance(counts, dict):
            return
        count = counts.get("signed_curve25519", 0)
        unused = sync.get("device_unused_fallback_key_types")
        fallback = isinstance(unused, list) and "signed_curve25519" not in unused
        if type(count) is int and (0 <= count < LEAST_KEYS or fallback):
            keys = await self._do(partial(self._olm.new_keys, count, fallback=fallback))
            try:
                await self._api.upload_keys(keys)
            except MatrixError as error:
                if error.kind != "refused":
                    raise
                logger.warning("the homeserver refuses one-time keys; new ones follow: %s", error.message)
            await self._do(self._olm.keys_arrived)

    async def _heal(self, user: str, curve: str) -> None:
        """Begin a new session with a device whose messages cannot be decrypted any more."""
        now = trio.current_time()
        if now - self._healed.get(curve, -HEAL_S) < HEAL_S or not self._may_talk(user):
            return
        self._healed[curve] = now
        try:
            await self._refresh([user])
            devices = await self._offload(partial(self._store.devices, [user]))
            devices = [device for device in devices if device.curve == curve]
            await self._claim(devices, renew=True)
            await self._send_to(devices, "m.dummy", {})
        except MatrixError as error:
            logger.info("a session was not renewed: %s", error.message)

    async def read(
        self, timelines: Sequence[tuple[str, Sequence[object]]]
    ) -> tuple[list[tuple[str, Sequence[object]]], list[str]]:
        """Return the events of rooms with the encrypted ones as they were written, and late ones first.

        Messages without a key are left out. They are kept until it comes. `done` takes the ids returned
        second, after the events were stored.

        Raises:
            MatrixError: The server does not answer now.
        """
        if not self._ready:
            return list(timelines), []
        senders = {
            event.sender
            for _, events in timelines
            for raw in events
            if (event := event_of(raw)) is not None and event.kind == "m.room.encrypted"
        }
        waiting = await self._offload(self._store.waiting)
        if not senders and not waiting:
            return list(timelines), []
        try:
            await self._refresh(sorted(filter(_usable, senders | {one.user for one in waiting})))
        except MatrixError as error:
            if error.kind != "refused":
                raise
            logger.warning("the homeserver refuses to name devices: %s", error.message)
        found, done = await self._do(partial(self._read, timelines))
        await self._ask_for_keys()
        return found, done

    def _read(
        self, timelines: Sequence[tuple[str, Sequence[object]]]
    ) -> tuple[list[tuple[str, Sequence[object]]], list[str]]:
        found: dict[str, list[object]] = {}
        done = list[str]()
        removed = {
            text(fields(raw, "content"), "redacts") or text(raw, "redacts")
            for _, events in timelines
            for raw in events
            if text(raw, "type") == "m.room.redaction"
        }
        for waiting, read in self._megolm.late():
            if waiting.event in removed:
                done.append(waiting.event)
            elif not isinstance(read, Unread):
                self.counts["decrypted"] += 1
                found.setdefault(waiting.room, []).append(read)
                done.append(waiting.event)
        for room, events in timelines:
            read_events = found.setdefault(room, [])
            for raw in events:
                event = event_of(raw)
                if event is None or event.kind != "m.room.encrypted" or event.state_key is not None:
                    read_events.append(raw)
                elif (read_event := self._read_one(room, event)) is not None:
                    read_events.append(read_event)
        return list(found.items()), done

    def _read_one(self, room: str, event: RoomEvent) -> object | None:
        if not fields(event.raw, "content"):  # it was removed
            return None
        try:
            read = self._megolm.read(room, event)
            if not isinstance(read, Unread):
                self.counts["decrypted"] += 1
                return read
            if event.sender != self._olm.user and self._may_talk(event.sender):
                self.counts["undecryptable"] += 1
                raw = json.dumps(dict(event.raw))
                self._store.wait(WaitingEvent(event.id, room, read.session, event.sender, raw), self._now())
        except (ValueError, RecursionError) as error:
            logger.info("an encrypted event is odd: %s", error)
        return None

    async def _ask_for_keys(self) -> None:
        for waiting in await self._offload(self._store.unasked):
            body = {"algorithm": MEGOLM, "room_id": waiting.room, "session_id": waiting.session}
            # No longer of use, but older clients ignore a request without it.
            body["sender_key"] = text(fields(json.loads(waiting.raw), "content"), "sender_key") or ""
            content = {
                "action": "request",
                "body": body,
                "request_id": token_hex(12),
                "requesting_device_id": self._olm.id,
            }
            messages = {waiting.user: {"*": content}}
            try:
                if waiting.session:
                    await self._api.to_device("m.room_key_request", messages, token_hex(12))
            except MatrixError as error:
                logger.info("a key was not asked for: %s", error.message)
                return
            await self._do(partial(self._store.note_asked, waiting))

    async def done(self, events: Sequence[str]) -> None:
        """Forget kept messages that were stored; give up those whose key has not come in time."""
        if not self._ready:
            return
        if events:
            await self._do(partial(self._store.drop_waiting, events))
        overdue = await self._offload(partial(self._store.overdue, self._now() - self._late_s))
        for room in dict.fromkeys(waiting.room for waiting in overdue):
            self.unread(room)
        if overdue:
            await self._do(partial(self._store.drop_waiting, [waiting.event for waiting in overdue]))

    async def read_event(self, room: str, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return one event as it was written, or as it is if it cannot be read."""
        event = event_of(raw)
        if not self._ready or event is None or event.kind != "m.room.encrypted":
            return raw
        read = await self._do(partial(self._megolm.read, room, event))
        return raw if isinstance(read, Unread) else read

    # Sending

    async def is_encrypted(self, room: str) -> bool:
        """Return True if a room is encrypted. It is asked for once.

        Raises:
            MatrixError: The server does not answer now.
        """
        if room in self._encrypted:
            return True
        if room in self._plain:
            return False
        await self.begin()
        state = await self._api.state(room, "m.room.encryption")
        if not state:
            self._plain.add(room)
        elif self.fault is None:
            await self._note_rooms([(room, state)])
        return bool(state)

    async def encrypt(
        self, room: str, kind: str, content: Mapping[str, Any]
    ) -> tuple[str, Mapping[str, Any]]:
        """Return the kind and the content of a message as it goes into the room; each member can read it.

        Raises:
            MatrixError: The message cannot be encrypted, or not now.
        """
        if not await self.is_encrypted(room):
            return kind, content
        await self.begin()
        if self.fault is not None or self._encrypted.get(room) != MEGOLM:
            if text(content, "msgtype") == "m.notice":  # it says so, and nothing that anybody has written
                return kind, content
            raise MatrixError("The room is encrypted in a way that I cannot use.", kind="refused")
        async with self._lines[room]:
            members = (await self._members.know(room)).members
            if members is None:
                raise MatrixError("The members of the room are unknown.", kind="refused")
            users = sorted(filter(_usable, members))
            await self._refresh(users)
            devices = await self._offload(partial(self._store.devices, users))
            without = await self._do(partial(self._megolm.prepare, room, devices, users, self._now()))
            if without:
                await self._share(room, without)
            return "m.room.encrypted", await self._do(partial(self._megolm.encrypt, room, kind, content))

    async def _refresh(self, users: Sequence[str]) -> None:
        """Ask for the devices of users of whom they are not known."""
        stale = list((await self._do(partial(self._store.stale, users))).items())
        for start in range(0, len(stale), AT_ONCE):
            some = dict(stale[start : start + AT_ONCE])
            found = fields(await self._api.query_keys(list(some)), "device_keys")
            await self._do(partial(self._note_devices, some, found))

    def _note_devices(self, users: Mapping[str, int], found: Mapping[str, Any]) -> None:
        for user, change in users.items():
            if user not in found:  # its server does not answer
                continue
            listed = list(fields(found, user).items())[:MOST_DEVICES]
            devices = [
                device
                for id, content in listed
                if _usable(id) and (device := device_of(user, id, content)) is not None
            ]
            for device in self._store.note_devices(user, devices, change, tell=self._may_talk(user)):
                logger.warning("the keys of %s's device %s have changed; it is ignored", user, device.id)

    async def _share(self, room: str, devices: Sequence[Device]) -> None:
        """Give the outgoing key of a room to devices. Those that cannot be reached get it later."""
        await self._claim(devices)
        id, content = await self._offload(partial(self._megolm.key_of, room))
        for start in range(0, len(devices), AT_ONCE):
            sent = await self._send_to(devices[start : start + AT_ONCE], "m.room_key", content)
            await self._do(partial(self._megolm.note_shared, id, sent))
            for device in sent:
                if await self._do(partial(self._store.untold, device.user, device.id)):
                    self.tell(room, device)

    async def _claim(self, devices: Sequence[Device], *, renew: bool = False) -> None:
        """Begin sessions with the devices that have none; with `renew`, with all of them."""
        async with self._claiming:
            now = trio.current_time()
            wanted = defaultdict[str, list[str]](list)
            found = devices
            if not renew:
                found = await self._offload(partial(self._olm.without_session, devices))
            missing = [device for device in found if self._unclaimed.get(device.curve, 0.0) <= now]
            for device in missing:
                wanted[device.user].append(device.id)
            if not wanted:
                return
            keys = fields(await self._api.claim_keys(wanted), "one_time_keys")

            def begin() -> None:
                for device in missing:
                    given = list(fields(fields(keys, device.user), device.id).values())
                    if not given or not self._olm.begin_session(device, given[0], self._now()):
                        self._unclaimed[device.curve] = now + AGAIN_S

            await self._do(begin)

    async def _send_to(
        self, devices: Sequence[Device], kind: str, content: Mapping[str, Any]
    ) -> list[Device]:
        """Send an event to each device with which there is a session; return these devices."""
        messages = defaultdict[str, dict[str, Any]](dict)

        def encrypt() -> list[Device]:
            without = set(self._olm.without_session(devices))
            reached = [device for device in devices if device not in without]
            for device in reached:
                messages[device.user][device.id] = self._olm.encrypt(device, kind, content, self._now())
            return reached

        reached = await self._do(encrypt)
        if messages:
            await self._api.to_device("m.room.encrypted", messages, token_hex(12))
        return reached


def _usable(name: object) -> bool:
    """Return True if a name can be stored."""
    if not isinstance(name, str) or not 0 < len(name) <= MOST_ID:
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
