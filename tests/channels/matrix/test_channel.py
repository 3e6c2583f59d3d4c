"""The Matrix channel with a real homeserver."""

from pathlib import Path

import pytest

from rumi.channels.matrix.formatting import parts_of
from tests.channels.matrix.serving import in_thread, serving, until
from tests.matrix_server import Homeserver, User, printed


async def test_a_person_who_invites_rumi_gets_an_answer(tmp_path: Path, server: Homeserver) -> None:
    async with serving(tmp_path, server) as here:
        room = await here.room()
        await here.says(room, "hello there")
        (answer,) = await here.settled(room, 1)
        assert answer.startswith("Hello!")
        assert here.messages() == ["hello there"]


@pytest.mark.long
async def test_an_answer_is_formatted_and_mentions_nobody(tmp_path: Path, server: Homeserver) -> None:
    async with serving(tmp_path, server) as here:
        room = await here.room()
        await here.says(room, "run echo hi")
        await here.settled(room, 1)
        sent = [
            event["content"]
            for event in here.ana.events(room)
            if event["type"] == "m.room.message" and event["sender"] == here.rumi.id
        ]
        assert all(content["m.mentions"] == {} for content in sent)
        assert any("<code>" in content.get("formatted_body", "") for content in sent), sent


@pytest.mark.long
async def test_only_allowed_users_may_invite(tmp_path: Path, server: Homeserver) -> None:
    async with serving(tmp_path, server) as here:
        stranger = server.user()
        room = await in_thread(lambda: stranger.room(here.rumi.id, direct=True))
        await until(lambda: stranger.members(room).get(here.rumi.id) == "leave")
        mine = await here.room()
        await here.says(mine, "hello")
        await here.settled(mine, 1)


@pytest.mark.long
async def test_an_invitation_into_a_listed_room_is_followed(tmp_path: Path, server: Homeserver) -> None:
    stranger, found = server.user(), list[str]()

    async def before(rumi: User, ana: User) -> None:
        found.append(await in_thread(lambda: stranger.room(rumi.id, ana.id)))

    rumi, ana = server.user(), server.user()
    await before(rumi, ana)
    async with serving(tmp_path, server, rumi=rumi, ana=ana, more=f'rooms = ["{found[0]}"]\n') as here:
        await until(lambda: stranger.members(found[0]).get(here.rumi.id) == "join")


async def test_in_a_room_of_several_only_what_is_addressed_counts(tmp_path: Path, server: Homeserver) -> None:
    async with serving(tmp_path, server) as here:
        ben = server.user()
        room = await here.room(ben.id, direct=False)
        await in_thread(lambda: ben.join(room))
        await here.says(room, "nothing for rumi here")
        await in_thread(lambda: ben.send(room, f"{here.rumi.id}: may I?"))
        asked = await here.says(
            room, {"msgtype": "m.text", "body": "run date", "m.mentions": {"user_ids": [here.rumi.id]}}
        )
        await here.settled(room, 1)
        stranger, answer = await here.shown(room, 2)
        if not stranger.startswith("I don't know you"):
            stranger, answer = answer, stranger
        assert ben.id in stranger
        assert answer.startswith("Done.")
        events = await in_thread(lambda: here.ana.events(room))
        replied = [
            event["content"]["m.relates_to"]["m.in_reply_to"]["event_id"]
            for event in events
            if event["sender"] == here.rumi.id and "m.in_reply_to" in event["content"].get("m.relates_to", {})
        ]
        assert replied == [asked]
        own = next(
            event["event_id"]
            for event in events
            if event["sender"] == here.rumi.id and "m.in_reply_to" in event["content"].get("m.relates_to", {})
        )
        await here.says(
            room,
            {"msgtype": "m.text", "body": "run pwd", "m.relates_to": {"m.in_reply_to": {"event_id": own}}},
        )
        await here.settled(room, 2)
        await here.says(room, "!status")
        await here.settled(room, 3)
        assert here.messages() == ["run date", "run pwd", "/status"]
        assert {chat[:9] for (chat,) in here.ask("SELECT chat FROM messages")} == {"mx-home-r"}


@pytest.mark.long
async def test_a_thread_is_a_chat_of_its_own(tmp_path: Path, server: Homeserver) -> None:
    async with serving(tmp_path, server) as here:
        room = await here.room()
        first = await here.says(room, "run date")
        await here.settled(room, 1)
        await here.says(
            room,
            {
                "msgtype": "m.text",
                "body": "run pwd",
                "m.relates_to": {"rel_type": "m.thread", "event_id": first, "is_falling_back": True},
            },
        )
        await here.settled(room, 2)
        chats = [chat for (chat,) in here.ask("SELECT chat FROM messages ORDER BY id")]
        assert len(set(chats)) == 2
        assert len({chat.partition("_")[0] for chat in chats}) == 1, "the memory is the person's"
        answers = [
            event["content"].get("m.relates_to", {})
            for event in here.ana.events(room)
            if event["sender"] == here.rumi.id and event["type"] == "m.room.message"
        ]
        assert answers[-1].get("rel_type") in ("m.thread", "m.replace")
        threads = [one for one in answers if one.get("rel_type") == "m.thread"]
        assert [one["event_id"] for one in threads] == [first]


async def test_a_growing_answer_becomes_the_reply(tmp_path: Path, server: Homeserver) -> None:
    async with serving(tmp_path, server) as here:
        room = await here.room()
        await here.says(room, "run sleep 1")
        (answer,) = await here.settled(room, 1)
        events = [e for e in here.ana.events(room) if e["sender"] == here.rumi.id]
        edits = [e for e in events if e["content"].get("m.relates_to", {}).get("rel_type") == "m.replace"]
        assert edits, [printed(event) for event in events]
        assert "m.new_content" in edits[-1]["content"]
        assert answer.startswith("Done.")
        assert here.ask("SELECT count(*) FROM outbox WHERE failure IS NOT NULL") == [(0,)]


@pytest.mark.long
@pytest.mark.parametrize("how", ["✅", "yes", "👎"])
async def test_a_question_is_answered_by_a_reaction_or_by_words(
    tmp_path: Path, server: Homeserver, how: str
) -> None:
    async with serving(tmp_path, server) as here:
        room = await here.room()
        address = await in_thread(lambda: here.ana.upload("notes.txt", b"words", "text/plain"))
        await here.says(room, {"msgtype": "m.file", "body": "notes.txt", "url": address})
        await here.settled(room, 1)
        await here.says(room, "remember that my cat is called Tom")
        asked = list[str]()

        def question() -> bool:
            asked[:] = [
                e["content"]["m.relates_to"]["event_id"]
                for e in here.ana.events(room)
                if e["type"] == "m.reaction" and e["sender"] == here.rumi.id
            ]
            return len(asked) == 2

        await until(question)
        assert len(set(asked)) == 1
        if how == "yes":
            await here.says(room, how)
        else:
            await in_thread(lambda: here.ana.react(room, asked[0], how))
        await here.settled(room, 2)

        def verdict() -> bool:
            (question,) = [text for text in here.ana.shown(room, here.rumi.id) if "value: Tom" in text]
            return question.endswith("No." if how == "👎" else "Yes.")

        await until(verdict)


@pytest.mark.long
async def test_an_edit_of_an_answered_message_is_told_to_be_late(tmp_path: Path, server: Homeserver) -> None:
    async with serving(tmp_path, server) as here:
        room = await here.room()
        first = await here.says(room, "run date")
        await here.settled(room, 1)
        await in_thread(lambda: here.ana.edit(room, first, "run pwd"))
        await here.settled(room, 2)
        assert here.messages() == ["run date", "run pwd"]
        assert (await here.shown(room, 2))[1].startswith("✏️ The edit came too late")


@pytest.mark.long
async def test_a_removed_message_that_waits_is_dropped(tmp_path: Path, server: Homeserver) -> None:
    async with serving(tmp_path, server, more='[chat]\nwhen_busy = "queue"\ntogether_s = 0\n') as here:
        room = await here.room()
        await here.says(room, "run sleep 3")
        await until(lambda: here.messages() == ["run sleep 3"])
        waiting = await here.says(room, "run pwd")
        await until(lambda: len(here.messages()) == 2)
        await in_thread(lambda: here.ana.redact(room, waiting))
        await until(lambda: len(here.ask("SELECT 1 FROM messages WHERE reply IS NOT NULL")) >= 1)
        await here.settled(room, 1)
        assert [command for _, command in here.engine.commands] == ["sleep"]


@pytest.mark.long
async def test_files_come_and_go(tmp_path: Path, server: Homeserver) -> None:
    async with serving(tmp_path, server) as here:
        room = await here.room()
        address = await in_thread(lambda: here.ana.upload("notes.txt", b"words of a file", "text/plain"))
        await here.says(
            room,
            {
                "msgtype": "m.file",
                "body": "read it",
                "filename": "../../no tes\u202e.txt",
                "url": address,
                "info": {"mimetype": "text/plain", "size": 15},
            },
        )
        await here.settled(room, 1)
        (chat,) = {chat for (chat,) in here.ask("SELECT chat FROM messages")}
        files = list((here.home / "workspace").rglob("*.txt"))
        assert [path.read_bytes() for path in files] == [b"words of a file"], chat
        (files[0].parent / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
        await here.channel.show(chat, ["picture.png"])
        events = await in_thread(lambda: here.ana.events(room))
        (picture,) = [e["content"] for e in events if e["content"].get("msgtype") == "m.image"]
        assert await in_thread(lambda: here.ana.download(picture["url"])) == b"\x89PNG\r\n\x1a\n" + bytes(40)
        assert picture["body"] == "picture.png"


@pytest.mark.long
async def test_a_read_marker_follows_a_stored_message(tmp_path: Path, server: Homeserver) -> None:
    async with serving(tmp_path, server) as here:
        room = await here.room()
        event = await here.says(room, "hello")
        await here.settled(room, 1)

        def read() -> bool:
            found = here.ana.call("GET", "/sync", params={"timeout": "0"})["rooms"]["join"][room]
            receipts = [e["content"] for e in found["ephemeral"]["events"] if e["type"] == "m.receipt"]
            return any(here.rumi.id in str(content.get(event)) for content in receipts)

        await until(read)


@pytest.mark.long
async def test_an_encrypted_room_gets_one_clear_sentence_without_the_extra(
    tmp_path: Path, server: Homeserver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rumi.channels.matrix.channel.is_installed", lambda name: False)
    async with serving(tmp_path, server) as here:
        room = await in_thread(lambda: here.ana.room(here.rumi.id, direct=True, encrypted=True))
        await here.came(room)
        sealed = {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "AAAA", "session_id": "x"}
        for _ in range(3):
            await in_thread(lambda: here.ana.send(room, sealed, "m.room.encrypted"))
        (said,) = await here.shown(room, 1)
        assert said.startswith("I can't read this room")
        other = await here.room()
        await here.says(other, "hello")
        await here.settled(other, 1)
        assert len(here.ana.shown(room, here.rumi.id)) == 1


@pytest.mark.long
async def test_messages_from_before_the_first_start_do_not_count(tmp_path: Path, server: Homeserver) -> None:
    async def before(rumi: User, ana: User) -> None:
        room = await in_thread(lambda: ana.room(rumi.id, direct=True))
        await in_thread(lambda: rumi.join(room))
        await in_thread(lambda: ana.send(room, "long ago"))
        rooms.append(room)

    rooms = list[str]()
    async with serving(tmp_path, server, before=before) as here:
        await here.says(rooms[0], "hello now")
        await here.settled(rooms[0], 1)
        assert here.messages() == ["hello now"]


@pytest.mark.long
async def test_what_came_while_nobody_synced_is_answered_even_if_it_is_much(
    tmp_path: Path, server: Homeserver
) -> None:
    async with serving(tmp_path, server) as here:
        room = await here.room()
        await here.says(room, "hello")
        await here.settled(room, 1)
        rumi, ana = here.rumi, here.ana

    def write() -> None:
        for number in range(110):
            ana.send(room, {"msgtype": "m.notice", "body": f"program {number}"})
            if number in (0, 109):
                ana.send(room, f"run echo {number}")

    await in_thread(write)
    async with serving(tmp_path, server, rumi=rumi, ana=ana) as here:
        await until(lambda: len(here.messages()) == 3)
        assert here.messages()[1:] == ["run echo 0", "run echo 109"]
        await here.settled(room, 3)


@pytest.mark.long
async def test_a_room_that_removes_rumi_is_unreachable(tmp_path: Path, server: Homeserver) -> None:
    async with serving(tmp_path, server) as here:
        room = await here.room()
        await here.says(room, "hello")
        await here.settled(room, 1)
        kick = {"user_id": here.rumi.id}
        await in_thread(lambda: here.ana.call("POST", f"/rooms/{room}/kick", json=kick))
        await until(lambda: bool(here.ask("SELECT 1 FROM unreachable WHERE back = 0")))


@pytest.mark.long
async def test_a_long_reply_comes_in_parts_that_lose_nothing(tmp_path: Path, server: Homeserver) -> None:
    async with serving(tmp_path, server) as here:
        room = await here.room()
        text = "".join(f"word{number} " for number in range(4000))
        await here.says(room, "hello")
        await here.settled(room, 1)
        (chat,) = {chat for (chat,) in here.ask("SELECT chat FROM messages")}
        parts = parts_of(text)
        assert len(parts) > 1
        assert " ".join(parts).split() == text.split()
        assert chat
