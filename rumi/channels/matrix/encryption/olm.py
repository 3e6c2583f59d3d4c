"""Sessions between devices: they carry the keys of rooms. All functions block, inside a transaction.

Every plaintext names its sender, its recipient and both devices' keys; one that does not fit is refused.
"""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

import vodozemac

from rumi.channels.matrix.encryption.key_store import MOST_SESSIONS, Device, KeyStore, KeysUnusable
from rumi.channels.matrix.reading import fields, text

logger = logging.getLogger(__name__)

OLM: Final = "m.olm.v1.curve25519-aes-sha2"
MEGOLM: Final = "m.megolm.v1.aes-sha2"

LEAST_KEYS: Final = 25
"""Number of one-time keys at the server below which more are made."""


def canonical(content: Mapping[str, Any]) -> bytes:
    """Return an object as the bytes that are signed."""
    bare = {name: value for name, value in content.items() if name not in ("signatures", "unsigned")}
    return json.dumps(bare, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def signed_by(content: Mapping[str, Any], user: str, device: str, ed: str) -> bool:
    """Return True if a device has signed an object."""
    signature = text(fields(fields(content, "signatures"), user), f"ed25519:{device}")
    try:
        vodozemac.Ed25519PublicKey.from_base64(_key(ed)).verify_signature(
            canonical(content), vodozemac.Ed25519Signature.from_base64(signature or "")
        )
    except ValueError:  # all errors of vodozemac are
        return False
    return True


def device_of(user: str, id: str, content: object) -> Device | None:
    """Return a device that a server describes; None if its keys or its signature are wrong."""
    if not isinstance(content, Mapping):
        return None
    keys = fields(content, "keys")
    curve, ed = text(keys, f"curve25519:{id}"), text(keys, f"ed25519:{id}")
    if text(content, "user_id") != user or text(content, "device_id") != id or not curve or not ed:
        return None
    if not signed_by(content, user, id, ed):
        return None
    name = text(fields(content, "unsigned"), "device_display_name") or ""
    return Device(user, id, curve, ed, name[:200])


class OlmDevice:
    """The account's own device, and its sessions with other devices."""

    def __init__(self, store: KeyStore, user: str, device: str) -> None:
        """Read the device's keys, or make them. An earlier device's keys are deleted.

        Raises:
            KeysUnusable: They were stored under another token.
        """
        self._store = store
        self.user = user
        self.id = device
        found = store.rows("SELECT user, device, account FROM own")
        if found and (found[0][0], found[0][1]) != (user, device):
            store.start_over()
            found = []
        if found:
            try:
                self._account = vodozemac.Account.from_pickle(found[0][2], store.key)
            except ValueError:
                raise KeysUnusable(
                    "The keys of {user} were stored under another token.",
                    "Make a new token with: rumi setup",
                    user=user,
                ) from None
        else:
            self._account = vodozemac.Account()
            self._save()
        self.curve = self._account.curve25519_key.to_base64()
        self.ed = self._account.ed25519_key.to_base64()

    def reload(self) -> None:
        """Read the keys again, after a transaction that was undone."""
        ((pickle,),) = self._store.rows("SELECT account FROM own")
        self._account = vodozemac.Account.from_pickle(pickle, self._store.key)

    def _save(self) -> None:
        self._store.change(
            "INSERT OR REPLACE INTO own (one, user, device, account) VALUES (1, ?, ?, ?)",
            *(self.user, self.id, self._account.pickle(self._store.key)),
        )

    # Keys for the server

    def _signed(self, content: dict[str, Any]) -> dict[str, Any]:
        signature = self._account.sign(canonical(content)).to_base64()
        return {**content, "signatures": {self.user: {f"ed25519:{self.id}": signature}}}

    def described(self) -> dict[str, Any]:
        """Return the device as the server gives it to others."""
        keys = {f"curve25519:{self.id}": self.curve, f"ed25519:{self.id}": self.ed}
        return self._signed(
            {"user_id": self.user, "device_id": self.id, "algorithms": [OLM, MEGOLM], "keys": keys}
        )

    def new_keys(self, count: int, *, fallback: bool) -> dict[str, Any]:
        """Return the keys to upload if the server has `count` one-time keys; empty if it has enough.

        Keys that may not have arrived come again: servers take the same ones twice.
        """
        if count < LEAST_KEYS and not self._account.one_time_keys:
            self._account.generate_one_time_keys(self._account.max_number_of_one_time_keys - count)
        if fallback and not self._account.fallback_key:  # type: ignore[attr-defined]  # the stubs lack it
            self._account.generate_fallback_key()  # type: ignore[attr-defined]
        self._save()
        found: dict[str, Any] = {}
        if one_time := self._account.one_time_keys:
            found["one_time_keys"] = {
                f"signed_curve25519:{id}": self._signed({"key": key.to_base64()})
                for id, key in one_time.items()
            }
        if spare := self._account.fallback_key:  # type: ignore[attr-defined]
            found["fallback_keys"] = {
                f"signed_curve25519:{id}": self._signed({"key": key.to_base64(), "fallback": True})
                for id, key in spare.items()
            }
        return found

    def keys_arrived(self) -> None:
        """Record that the server has the keys."""
        self._account.mark_keys_as_published()
        self._save()

    # Sessions

    def _sessions(self, curve: str) -> list[vodozemac.Session]:
        rows = self._store.rows("SELECT pickle FROM sessions WHERE curve = ? ORDER BY used DESC", curve)
        return [vodozemac.Session.from_pickle(pickle, self._store.key) for (pickle,) in rows]

    def _keep(self, curve: str, session: vodozemac.Session, now: float) -> None:
        self._store.change(
            "INSERT OR REPLACE INTO sessions (curve, id, pickle, used) VALUES (?, ?, ?, ?)",
            *(curve, session.session_id, session.pickle(self._store.key), now),
        )
        self._store.change(
            "DELETE FROM sessions WHERE curve = ? AND id NOT IN"
            " (SELECT id FROM sessions WHERE curve = ? ORDER BY used DESC LIMIT ?)",
            *(curve, curve, MOST_SESSIONS),
        )

    def without_session(self, devices: Sequence[Device]) -> list[Device]:
        """Return the devices to which nothing can be sent yet."""
        known = {curve for (curve,) in self._store.rows("SELECT DISTINCT curve FROM sessions")}
        return [device for device in devices if device.curve not in known]

    def begin_session(self, device: Device, key: object, now: float) -> bool:
        """Begin a session with a one-time key of a device; return False if the key is not the device's."""
        if not isinstance(key, Mapping) or not signed_by(key, device.user, device.id, device.ed):
            return False
        try:
            session = self._account.create_outbound_session(
                vodozemac.Curve25519PublicKey.from_base64(_key(device.curve)),
                vodozemac.Curve25519PublicKey.from_base64(_key(text(key, "key") or "")),
            )
        except ValueError:
            return False
        self._keep(device.curve, session, now)
        return True

    def encrypt(self, device: Device, kind: str, content: Mapping[str, Any], now: float) -> dict[str, Any]:
        """Return an event that only a device can read. A session with it must exist."""
        session = self._sessions(device.curve)[0]
        whole = {
            "sender": self.user,
            "sender_device": self.id,
            "keys": {"ed25519": self.ed},
            "recipient": device.user,
            "recipient_keys": {"ed25519": device.ed},
            "type": kind,
            "content": dict(content),
        }
        kind_number, sealed = session.encrypt(json.dumps(whole).encode()).to_parts()
        self._keep(device.curve, session, now)
        body = {"type": kind_number, "body": _base64(sealed)}
        return {"algorithm": OLM, "sender_key": self.curve, "ciphertext": {device.curve: body}}

    def decrypt(self, event: Mapping[str, Any], now: float) -> tuple[str, dict[str, Any]] | None:
        """Return the sending device's key and the plaintext of an event; None if it is not for this device.

        Raises:
            ValueError: It cannot be decrypted, or its plaintext says something else than the event.
        """
        content, sender = fields(event, "content"), text(event, "sender") or ""
        curve = text(content, "sender_key") or ""
        sealed = fields(fields(content, "ciphertext"), self.curve)
        if text(content, "algorithm") != OLM or not sealed or not curve or curve == self.curve:
            return None
        body, kind = text(sealed, "body") or "", sealed.get("type")
        plaintext = self._decrypt(curve, kind, body, now)
        found = json.loads(plaintext)
        fits = (
            isinstance(found, dict)
            and text(found, "sender") == sender
            and text(found, "recipient") == self.user
            and text(fields(found, "recipient_keys"), "ed25519") == self.ed
            and text(fields(found, "keys"), "ed25519") is not None
        )
        if not fits:
            raise ValueError("the plaintext does not fit its event")
        return curve, found

    def _decrypt(self, curve: str, kind: object, body: str, now: float) -> bytes:
        if kind == 0:
            first = vodozemac.PreKeyMessage.from_base64(body)
            for session in self._sessions(curve):
                if session.session_matches(first):
                    plaintext = session.decrypt(first.to_any())
                    self._keep(curve, session, now)
                    return plaintext
            key = vodozemac.Curve25519PublicKey.from_base64(_key(curve))
            session, plaintext = self._account.create_inbound_session(key, first)
            self._save()
            self._keep(curve, session, now)
            return plaintext
        message = vodozemac.AnyOlmMessage.from_parts(1, _bytes(body))
        for session in self._sessions(curve):
            try:
                plaintext = session.decrypt(message)
            except ValueError:
                continue
            self._keep(curve, session, now)
            return plaintext
        raise ValueError("no session fits")


def digest_of(event: Mapping[str, Any]) -> str:
    """Return what an event between devices is recognised by, if it comes again."""
    whole = json.dumps([event.get("sender"), event.get("type"), event.get("content")], sort_keys=True)
    return hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()


def _base64(content: bytes) -> str:
    from base64 import b64encode

    return b64encode(content).decode().rstrip("=")


def _key(name: str) -> str:
    """Return a public key if it has 32 bytes: with others vodozemac panics, which ends the process."""
    if len(_bytes(name)) != 32:
        raise ValueError("a key has a wrong length")
    return name


def _bytes(content: str) -> bytes:
    from base64 import b64decode

    plain = content.rstrip("=")
    return b64decode(plain + "=" * (-len(plain) % 4), validate=True)
