"""Keys of devices and rooms without a server: what is refused, what survives a kill, and damaged files."""

import base64
import json
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nio.crypto import decrypt_attachment, encrypt_attachment

from rumi.channels.matrix.channel import MatrixChannel
from rumi.channels.matrix.encrypted_files import (
    FileReader,
    encrypt_file,
    file_key_of,
    split_reference,
    with_key,
)
from rumi.channels.matrix.encryption.key_store import Device, KeyStore, KeysUnusable
from rumi.channels.matrix.encryption.megolm import MegolmRooms, Unread
from rumi.channels.matrix.encryption.olm import MEGOLM, OlmDevice, device_of
from rumi.channels.matrix.intake import MatrixPeople
from rumi.channels.matrix.reading import event_of, file_of
from rumi.platform.config.schema import MatrixSection
from rumi.platform.home import Home

ROOM = "!room:x.test"


class KeyHolder:
    """A device with its store."""

    def __init__(self, folder: Path, user: str, id: str, token: str = "syt_x") -> None:
        self.store = KeyStore(folder / f"{id}.db", token)
        self.olm = OlmDevice(self.store, user, id)
        self.rooms = MegolmRooms(self.store, user, id, self.olm.curve, self.olm.ed)
        self.rooms.note_room(ROOM, {"algorithm": MEGOLM})
        found = device_of(user, id, self.olm.described())
        assert found is not None
        self.device = found

    def knows(self, *devices: Device) -> None:
        for device in devices:
            change = self.store.stale([device.user]).get(device.user, 1)
            self.store.note_devices(device.user, [device], change, tell=True)

    def writes(self, text: str) -> dict[str, Any]:
        content = self.rooms.encrypt(ROOM, "m.room.message", {"msgtype": "m.text", "body": text})
        return {"type": "m.room.encrypted", "sender": self.olm.user, "event_id": "$1", "content": content}

    def reads(self, raw: dict[str, Any]) -> Any:
        event = event_of(raw)
        assert event is not None
        return self.rooms.read(ROOM, event)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[KeyHolder, KeyHolder]:
    """Ana and Rumi, who has the key of Ana's messages."""
    ana, rumi = KeyHolder(tmp_path, "@ana:x.test", "ANA"), KeyHolder(tmp_path, "@rumi:x.test", "RUMI")
    ana.knows(rumi.device)
    rumi.knows(ana.device)
    assert ana.rooms.prepare(ROOM, [rumi.device], ["@rumi:x.test"], 1.0) == [rumi.device]
    gives(ana, rumi)
    return ana, rumi


def gives(ana: KeyHolder, rumi: KeyHolder) -> dict[str, Any]:
    """Give the key of a room to the other device; return the event that carried it."""
    keys = rumi.olm.new_keys(0, fallback=True)["one_time_keys"]
    if ana.olm.without_session([rumi.device]):
        assert ana.olm.begin_session(rumi.device, next(iter(keys.values())), 1.0)
    _, key = ana.rooms.key_of(ROOM)
    event = {
        "type": "m.room.encrypted",
        "sender": ana.olm.user,
        "content": ana.olm.encrypt(rumi.device, "m.room_key", key, 1.0),
    }
    found = rumi.olm.decrypt(event, 1.0)
    assert found is not None
    curve, plain = found
    rumi.rooms.take_key(ana.olm.user, curve, plain["keys"]["ed25519"], plain["content"], 1.0)
    return event


def test_a_message_is_read_and_its_relation_is_the_outer_one(pair: tuple[KeyHolder, KeyHolder]) -> None:
    ana, rumi = pair
    raw = ana.writes("hello")
    raw["content"]["m.relates_to"] = {"rel_type": "m.thread", "event_id": "$0"}
    read = rumi.reads(raw)
    assert read["type"] == "m.room.message"
    assert read["content"]["body"] == "hello"
    assert read["content"]["m.relates_to"]["event_id"] == "$0"
    assert read["event_id"] == "$1"


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw.update(sender="@ben:x.test"),
        lambda raw: raw["content"].update(algorithm="m.other"),
        lambda raw: raw["content"].update(session_id="other"),
        lambda raw: raw["content"].update(ciphertext="AAAA"),
        lambda raw: raw["content"].update(ciphertext=7),
        lambda raw: raw["content"].update(ciphertext=raw["content"]["ciphertext"][:-4] + "AAAA"),
    ],
)
def test_a_changed_message_is_not_read(
    pair: tuple[KeyHolder, KeyHolder], change: Callable[[dict[str, Any]], object]
) -> None:
    ana, rumi = pair
    raw = ana.writes("hello")
    change(raw)
    assert isinstance(rumi.reads(raw), Unread)


def test_a_repeated_message_counts_only_as_the_same_event(pair: tuple[KeyHolder, KeyHolder]) -> None:
    ana, rumi = pair
    raw = ana.writes("run date")
    assert not isinstance(rumi.reads(raw), Unread)
    assert not isinstance(rumi.reads(raw), Unread), "the same batch again, after a kill"
    assert isinstance(rumi.reads({**raw, "event_id": "$2"}), Unread)


def test_a_key_of_an_unknown_device_waits_for_the_device(
    tmp_path: Path, pair: tuple[KeyHolder, KeyHolder]
) -> None:
    ana, rumi = pair
    rumi.store.change("DELETE FROM devices")
    raw = ana.writes("hello")
    read = rumi.reads(raw)
    assert isinstance(read, Unread)
    assert read.unknown
    rumi.knows(ana.device)
    assert not isinstance(rumi.reads(raw), Unread)


def test_the_first_keys_of_a_device_count_for_ever(tmp_path: Path, pair: tuple[KeyHolder, KeyHolder]) -> None:
    _, rumi = pair
    other = KeyHolder(tmp_path / "..", "@ana:x.test", f"ANA{tmp_path.name}")
    forged = Device("@ana:x.test", "ANA", other.device.curve, other.device.ed)
    assert rumi.store.note_devices("@ana:x.test", [forged], 1, tell=True) == [forged]
    assert forged not in rumi.store.devices(["@ana:x.test"])


def test_a_device_with_a_wrong_signature_is_refused(pair: tuple[KeyHolder, KeyHolder]) -> None:
    described = pair[0].olm.described()
    assert device_of("@ana:x.test", "ANA", described) is not None
    assert device_of("@ana:x.test", "OTHER", described) is None
    assert device_of("@ben:x.test", "ANA", described) is None
    described["keys"]["curve25519:ANA"] = pair[1].olm.curve
    assert device_of("@ana:x.test", "ANA", described) is None
    for odd in (None, [], {}, {"keys": 7}, {"keys": {}, "signatures": []}):
        assert device_of("@ana:x.test", "ANA", odd) is None


@pytest.mark.parametrize("size", [0, 1, 31, 33, 64])
def test_a_key_of_a_wrong_length_is_refused_without_a_panic(
    pair: tuple[KeyHolder, KeyHolder], size: int
) -> None:
    ana, rumi = pair
    odd = base64.b64encode(bytes(size)).decode().rstrip("=")
    for name in ("ed25519:ANA", "curve25519:ANA"):
        described = ana.olm.described()
        described["keys"][name] = odd
        assert device_of("@ana:x.test", "ANA", described) is None
    assert not rumi.olm.begin_session(ana.device, {"key": odd, "signatures": {}}, 1.0)
    event = {"sender": "@ana:x.test", "content": ana.olm.encrypt(rumi.device, "m.dummy", {}, 1.0)}
    event["content"]["sender_key"] = odd
    if odd:
        with pytest.raises(ValueError, match=r"\S"):
            rumi.olm.decrypt(event, 1.0)


def test_an_event_between_devices_names_its_sender_and_its_reader(pair: tuple[KeyHolder, KeyHolder]) -> None:
    ana, rumi = pair
    _, key = ana.rooms.key_of(ROOM)
    content = ana.olm.encrypt(rumi.device, "m.room_key", key, 1.0)
    with pytest.raises(ValueError, match="does not fit"):
        rumi.olm.decrypt({"sender": "@ben:x.test", "content": content}, 1.0)


def test_no_state_of_a_key_is_used_twice_though_the_program_is_killed(
    tmp_path: Path, pair: tuple[KeyHolder, KeyHolder]
) -> None:
    ana, rumi = pair
    first = ana.writes("one")
    ana.store.close()  # nothing else is stored after the message
    again = KeyHolder(tmp_path, "@ana:x.test", "ANA")
    second = {**again.writes("two"), "event_id": "$2"}
    assert [rumi.reads(raw)["content"]["body"] for raw in (first, second)] == ["one", "two"]


def test_a_key_that_is_not_stored_before_the_message_is_found(
    tmp_path: Path, pair: tuple[KeyHolder, KeyHolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KeyStore, "change", lambda self, sql, *values: 0)
    ana, rumi = pair
    first = ana.writes("one")
    monkeypatch.undo()
    second = {**ana.writes("two"), "event_id": "$2"}
    rumi.reads(first)
    assert isinstance(rumi.reads(second), Unread)


def test_a_new_key_comes_after_messages_time_and_a_missing_device(pair: tuple[KeyHolder, KeyHolder]) -> None:
    ana, rumi = pair
    inside = ["@rumi:x.test"]

    def key() -> str:
        return ana.rooms.key_of(ROOM)[0]

    def prepared(devices: list[Device], members: list[str], now: float) -> bool:
        before = key()
        ana.rooms.note_shared(before, [rumi.device])
        ana.rooms.prepare(ROOM, devices, members, now)
        return key() != before

    assert not prepared([rumi.device], inside, 2.0)
    assert prepared([rumi.device], [], 2.0), "somebody left"
    assert prepared([], inside, 2.0), "a device is gone"
    assert prepared([rumi.device], inside, 8 * 86_400.0), "a week"
    assert prepared([rumi.device], inside, 0.0), "the clock went back"
    for _ in range(100):
        ana.writes("x")
    assert prepared([rumi.device], inside, 1.0), "a hundred messages"


def test_the_file_is_private_and_needs_the_token(tmp_path: Path, pair: tuple[KeyHolder, KeyHolder]) -> None:
    pair[1].store.close()
    path = tmp_path / "RUMI.db"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(KeysUnusable):
        OlmDevice(KeyStore(path, "syt_other"), "@rumi:x.test", "RUMI")
    assert OlmDevice(KeyStore(path, "syt_x"), "@rumi:x.test", "RUMI").curve == pair[1].olm.curve
    new = OlmDevice(KeyStore(path, "syt_other"), "@rumi:x.test", "RUMI2")
    assert new.curve != pair[1].olm.curve, "another device begins with new keys"


def test_files_are_those_of_other_clients_and_damage_is_found() -> None:
    words = bytes(range(256)) * 50
    sealed, file = encrypt_file(words)
    key = file["key"]["k"]
    assert decrypt_attachment(sealed, key, file["hashes"]["sha256"], file["iv"]) == words
    theirs, described = encrypt_attachment(words)
    content = {"msgtype": "m.file", "body": "a.bin", "file": {**described, "url": "mxc://x.test/abc"}}
    event = event_of({"event_id": "$1", "sender": "@a:x", "type": "m.room.message", "content": content})
    assert event is not None
    found = file_of(event)
    assert found is not None
    assert found.attachment is not None
    address, file_key = split_reference(found.attachment.reference)
    assert address == "mxc://x.test/abc"
    assert file_key is not None
    reader = FileReader(file_key)
    assert b"".join(reader.read(theirs[at : at + 1000]) for at in range(0, len(theirs), 1000)) == words
    assert reader.is_whole
    damaged = FileReader(file_key)
    damaged.read(theirs[:-1] + b"x")
    assert not damaged.is_whole
    assert split_reference("mxc://x.test/abc") == ("mxc://x.test/abc", None)
    assert split_reference(with_key(address, file_key)) == (address, file_key)


@pytest.mark.parametrize(
    "file",
    [
        {},
        {"v": "v2"},
        {"v": "v2", "key": 7, "iv": "", "hashes": {}},
        {"v": "v2", "key": {"k": "é", "alg": "A256CTR"}, "iv": "AA", "hashes": {"sha256": "AA"}},
        {"v": "v1", **{name: value for name, value in encrypt_file(b"x")[1].items() if name != "v"}},
        {**encrypt_file(b"x")[1], "iv": base64.b64encode(bytes(8)).decode()},
    ],
)
def test_an_odd_key_of_a_file_is_refused(file: dict[str, Any]) -> None:
    assert file_key_of(json.loads(json.dumps(file))) is None


@pytest.mark.parametrize(("workers", "installed"), [(True, True), (False, False), (False, True)])
def test_several_workers_and_a_missing_extra_have_no_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: bool, installed: bool
) -> None:
    monkeypatch.setattr("rumi.channels.matrix.channel.is_installed", lambda name: installed)
    section = MatrixSection.model_validate({"homeserver": "https://x.test", "user": "@rumi:x.test"})
    store = SimpleNamespace(url="postgresql://x" if workers else None)
    process = SimpleNamespace(
        home=Home(tmp_path), loaded=SimpleNamespace(settings=SimpleNamespace(store=store))
    )
    channel = MatrixChannel("home")
    api: Any = None
    files: Any = None
    channel.connect(api, MatrixPeople({}, section), files)
    given: Any = process
    assert (channel._encryption(given, "syt_x") is not None) == (installed and not workers)
    assert ("several workers" in channel._wire.unreadable("en")) == workers
    assert not (tmp_path / "matrix").exists(), "nothing is written before it is used"
