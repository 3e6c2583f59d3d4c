"""Encrypted rooms, with a real homeserver and matrix-nio's own client as the other side."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rumi.channels.matrix.encryption.megolm import MegolmRooms
from rumi.platform.home import Home
from tests.channels.matrix.serving import Serving, configure, in_thread, serving, until
from tests.cli.program import CORE
from tests.matrix_peer import NioClient, peer
from tests.matrix_server import Homeserver


async def encrypted_room(here: Serving, *others: str) -> str:
    room = await in_thread(lambda: here.ana.room(here.rumi.id, *others, direct=not others, encrypted=True))
    await here.came(room)
    return str(room)


async def shown(client: NioClient, room: str, user: str, beginning: str) -> None:
    """Wait until a client shows a text of a user that begins so."""
    await until(lambda: any(text.startswith(beginning) for text in client.shown(room, user)))


def sessions(here: Serving, room: str) -> list[str]:
    """The keys under which Rumi has encrypted, oldest first."""
    found = [
        event["content"]["session_id"]
        for event in here.ana.events(room)
        if event["type"] == "m.room.encrypted" and event["sender"] == here.rumi.id
    ]
    return list(dict.fromkeys(found))


async def test_an_encrypted_message_gets_an_encrypted_answer(tmp_path: Path, server: Homeserver) -> None:
    async with serving(tmp_path, server) as here:
        with peer(here.ana) as ana:
            room = await encrypted_room(here)
            await in_thread(lambda: ana.send(room, "hello there"))
            await shown(ana, room, here.rumi.id, "Hello!")
            assert here.messages() == ["hello there"]
            kinds = {
                event["type"]
                for event in here.ana.events(room)
                if event["sender"] == here.rumi.id and "state_key" not in event
            }
            assert kinds == {"m.room.encrypted"}, "nothing is sent in plain"
            assert not ana.sealed


@pytest.mark.long
async def test_growing_answers_threads_edits_files_and_questions(tmp_path: Path, server: Homeserver) -> None:
    async with serving(tmp_path, server) as here:
        with peer(here.ana) as ana:
            room, rumi = await encrypted_room(here), here.rumi.id
            first = await in_thread(lambda: ana.send(room, "run sleep 1"))
            await shown(ana, room, rumi, "Done.")
            contents = [content for _, content, _ in ana.contents(room, rumi)]
            edits = [one for one in contents if one.get("m.relates_to", {}).get("rel_type") == "m.replace"]
            assert edits
            assert len(ana.shown(room, rumi)) == 1, "the reply replaces the growing answer"
            related = {"rel_type": "m.thread", "event_id": first, "is_falling_back": True}
            await in_thread(
                lambda: ana.send(room, {"msgtype": "m.text", "body": "run pwd", "m.relates_to": related})
            )
            await until(lambda: len(ana.shown(room, rumi)) == 2)
            threads = [content.get("m.relates_to", {}) for _, content, _ in ana.contents(room, rumi)]
            assert first in [one["event_id"] for one in threads if one.get("rel_type") == "m.thread"]
            await in_thread(lambda: ana.edit(room, first, "run date"))
            await shown(ana, room, rumi, "✏️ The edit came too late")
            await in_thread(lambda: ana.send_file(room, "notes.txt", b"words of a file"))
            await until(lambda: bool(list((here.home / "workspace").rglob("notes.txt"))))
            await until(lambda: not here.unfinished())
            (path,) = (here.home / "workspace").rglob("notes.txt")
            assert path.read_bytes() == b"words of a file"
            (path.parent / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
            chat = here.ask("SELECT chat FROM messages ORDER BY id")[0][0]
            await here.channel.show(chat, ["picture.png"])

            def picture() -> list[dict[str, Any]]:
                found = [content for _, content, _ in ana.contents(room, rumi)]
                return [content for content in found if content.get("msgtype") == "m.image"]

            await until(lambda: len(picture()) == 1)
            assert "url" not in picture()[0]
            assert await in_thread(lambda: ana.read_file(picture()[0])) == b"\x89PNG\r\n\x1a\n" + bytes(40)
            assert b"PNG" not in here.ana.download(picture()[0]["file"]["url"])
            await in_thread(lambda: ana.send(room, "remember that my cat is called Tom"))

            def reactions() -> list[str]:
                return [
                    event["content"]["m.relates_to"]["event_id"]
                    for event in here.ana.events(room)
                    if event["type"] == "m.reaction" and event["sender"] == rumi
                ]

            await until(lambda: len(reactions()) == 2)
            await in_thread(lambda: here.ana.react(room, reactions()[0], "✅"))

            def verdict() -> bool:
                return any("value: Tom" in text and text.endswith("Yes.") for text in ana.shown(room, rumi))

            await until(verdict)
            assert not ana.sealed


@pytest.mark.long
async def test_a_key_that_comes_late_and_a_new_device(tmp_path: Path, server: Homeserver) -> None:
    async with serving(tmp_path, server) as here:
        with peer(here.ana) as ana:
            room, rumi = await encrypted_room(here), here.rumi.id
            await in_thread(lambda: ana.send(room, "hello there"))
            await shown(ana, room, rumi, "Hello!")
            give = await in_thread(lambda: ana.send_without_key(room, "run date"))
            await until(lambda: any(type(e).__name__ == "RoomKeyRequest" for e in ana.to_device))
            assert here.messages() == ["hello there"]
            with peer(await in_thread(lambda: server.again(here.ana))) as second:
                await in_thread(lambda: give(rumi))
                await shown(ana, room, rumi, "Done.")
                assert here.messages() == ["hello there", "run date"]
                await shown(second, room, rumi, f"🔑 {here.ana.id} has a new device")
                await in_thread(lambda: second.send(room, "run pwd"))
                await until(lambda: here.messages()[2:] == ["run pwd"])
                await until(lambda: not here.unfinished())
                told = [text for text in ana.shown(room, rumi) if "has a new device" in text]
                assert len(told) == 1


@pytest.mark.long
async def test_a_key_that_never_comes_is_told_once(tmp_path: Path, server: Homeserver) -> None:
    async with serving(tmp_path, server, late_s=0.5) as here:
        with peer(here.ana) as ana:
            room = await encrypted_room(here)
            await in_thread(lambda: ana.send(room, "hello there"))
            await shown(ana, room, here.rumi.id, "Hello!")
            await in_thread(lambda: ana.send_without_key(room, "run date"))
            await shown(ana, room, here.rumi.id, "🔑 I couldn't read a message")
            assert here.messages() == ["hello there"]


async def leave(tmp_path: Path, server: Homeserver) -> tuple[list[str], list[str]]:
    """Ben leaves a room between two answers: the keys of the answers, and who has the last one."""
    async with serving(tmp_path, server) as here:
        ben_user, eve = server.user(), server.user()
        with peer(here.ana) as ana, peer(ben_user) as ben, peer(eve) as outside:
            room = await encrypted_room(here, ben_user.id)
            await in_thread(lambda: ben_user.join(room))
            await in_thread(lambda: ana.send(room, f"{here.rumi.id}: hello there"))
            await shown(ben, room, here.rumi.id, "Hello!")
            await in_thread(lambda: ben_user.call("POST", f"/rooms/{room}/leave", json={}))
            await in_thread(lambda: ana.send(room, f"{here.rumi.id}: run date"))
            await shown(ana, room, here.rumi.id, "Done.")
            assert not outside.to_device, "only members get keys"
            found = await in_thread(lambda: sessions(here, room))
            with_keys = await in_thread(lambda: holders(here.home, found[-1]))
            return found, [user for user in with_keys if user == ben_user.id]


def holders(home: Path, key: str) -> list[str]:
    with closing(sqlite3.connect(f"file:{home}/matrix/home.db?mode=ro", uri=True)) as db:
        return [user for (user,) in db.execute("SELECT user FROM shared WHERE id = ?", (key,))]


@pytest.mark.long
async def test_a_new_key_follows_when_a_member_leaves(tmp_path: Path, server: Homeserver) -> None:
    keys, has_last = await leave(tmp_path, server)
    assert len(keys) == 2
    assert has_last == []


@pytest.mark.long
async def test_a_key_that_outlives_a_member_is_found(
    tmp_path: Path, server: Homeserver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MegolmRooms, "_end_if_due", lambda *more: None)
    keys, has_last = await leave(tmp_path, server)
    assert len(keys) == 1
    assert has_last


KILLED = """
import os, signal, sys
from rumi.channels.matrix.encryption.encryption import RoomEncryption as E
take, read, done = E.take, E.read, E.done
async def killed_read(self, timelines):
    if self.counts["keys"] and {once!r}:
        os.kill(os.getpid(), signal.SIGKILL)
    return await read(self, timelines)
kept = []
async def no_take(self, sync):
    await self.begin()
    await self._take_rooms(sync.get("rooms", {{}}).get("join", {{}}))
    await self._keep_keys(sync)
    kept.append(sync)
async def late_done(self, events):
    await done(self, events)
    for sync in kept:
        if sync.get("to_device", {{}}).get("events") and {once!r}:
            os.kill(os.getpid(), signal.SIGKILL)
        await take(self, sync)
    kept.clear()
if {late!r}:
    E.take, E.done = no_take, late_done
else:
    E.read = killed_read
from rumi.cli import main
sys.argv = ["rumi", "serve"]
main()
"""


def answered_after_kill(tmp_path: Path, server: Homeserver, *, late: bool) -> list[str]:
    """Kill Rumi between the keys of a message and the position after it; return the answers.

    With `late`, the position is stored before the keys are.
    """
    rumi, user = server.user(), server.user()
    home = Home(tmp_path / "home").make()
    configure(home, server, rumi, [user.id])
    own = {"RUMI_HOME": str(home.root), "MATRIX_TOKEN": rumi.token, "LANG": "C.UTF-8"}
    env = {**os.environ, **CORE, "RUMI_SANDBOX__BACKEND": "bubblewrap", **own}

    def start(once: bool) -> "subprocess.Popen[bytes]":
        code = KILLED.format(once=once, late=late)
        return subprocess.Popen(
            [sys.executable, "-c", code], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    process = start(once=True)
    try:
        with peer(user) as ana:
            room = user.room(rumi.id, direct=True, encrypted=True)
            wait(lambda: user.members(room).get(rumi.id) == "join")
            ana.send(room, "hello there")
            assert process.wait(30) == -signal.SIGKILL
            process = start(once=False)
            answers = list[str]()

            def answered() -> bool:
                answers[:] = ana.shown(room, rumi.id)
                return bool(answers)

            wait(answered, 4.0 if late else 20.0, must=not late)
            return answers
    finally:
        process.terminate()
        process.wait(20)


def wait(there: Callable[[], bool], within_s: float = 20.0, *, must: bool = True) -> None:
    until_s = time.monotonic() + within_s
    while not there():
        if time.monotonic() > until_s:
            assert not must, "it took too long"
            return
        time.sleep(0.1)


@pytest.mark.bubblewrap
@pytest.mark.long
def test_a_kill_between_the_keys_and_the_position_loses_nothing(tmp_path: Path, server: Homeserver) -> None:
    (answer,) = answered_after_kill(tmp_path, server, late=False)
    assert answer.startswith("Hello!")


@pytest.mark.more
@pytest.mark.long
def test_keys_that_are_stored_after_the_position_are_found(tmp_path: Path, server: Homeserver) -> None:
    assert answered_after_kill(tmp_path, server, late=True) == []
