"""`[chat] when_busy = "steer"`: what the user says during a turn reaches the model at its next step."""

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

from rumi.agent.prompts.message_entries import MEANWHILE
from rumi.models.model import Emit, ModelRequest, Reply, ToolCall
from rumi.platform.config.schema import ChatSection
from rumi.store.journal.records import Attachment, Incoming
from tests.chats.test_pieces import FORWARD, REPORT, rows, talk

STEER = ChatSection(when_busy="steer")
GO = Incoming(text="count them all")


def steps(most: int, requests: list[ModelRequest]) -> Any:
    """Return a model that makes `most` calls, one each second, and then says what it was told."""

    async def answer(request: ModelRequest, emit: Emit) -> Reply:
        requests.append(request)
        await trio.sleep(1)
        done = sum(m.role == "assistant" and bool(m.tool_calls) for m in request.messages)
        if done < most:
            return Reply("", (ToolCall(f"c{done}", "bash", f'{{"command": "echo {done}"}}'),))
        return Reply(" | ".join(m.content for m in request.messages if m.role == "user"))

    return answer


def said_in(request: ModelRequest) -> list[tuple[str, str]]:
    return [(m.role, m.content.splitlines()[0]) for m in request.messages if m.role in ("user", "tool")]


async def test_what_is_said_during_a_turn_reaches_the_model_at_its_next_step(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    requests: list[ModelRequest] = []
    async with talk(tmp_path, section=STEER, model=steps(3, requests)) as talked:
        await talked.send(GO)
        await trio.sleep(1.5)
        await talked.send(Incoming(text="only the hidden ones"))
        await talked.settled()
        assert talked.answered("tg1") == [(1, 2)]
        assert talked.replies[0].text == f"count them all | {MEANWHILE} | only the hidden ones"
        assert [len(said_in(request)) for request in requests] == [1, 2, 5, 6]
        assert said_in(requests[2])[-2:] == [("user", MEANWHILE), ("user", "only the hidden ones")]
        stored = [(n, part_of) for n, _, part_of, _ in rows(tmp_path)]
        assert stored == [(1, None), (2, 1)]
        with sqlite3.connect(tmp_path / "state.db") as database:
            (turns,) = database.execute("SELECT count(DISTINCT turn) FROM history").fetchone()
        assert turns == 1


async def test_forwards_and_files_that_steer_keep_their_taint(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    requests: list[ModelRequest] = []
    async with talk(tmp_path, section=STEER, model=steps(2, requests)) as talked:
        await talked.send(GO)
        await trio.sleep(1.2)
        await talked.send(Incoming(text="this one too", attachments=(FORWARD,)))
        await talked.send(Incoming(attachments=(REPORT,)))
        await talked.settled()
        assert talked.answered("tg1") == [(1, 2, 3)]
        told = "\n".join(m.content for m in requests[-1].messages if m.role == "user")
        assert FORWARD.text in told
        assert "contents of F1" in told
        with sqlite3.connect(tmp_path / "state.db") as database:
            entries = database.execute("SELECT message, tainted FROM history ORDER BY id").fetchall()
        tainted = {text: bool(mark) for text, mark in entries}
        assert all(mark for text, mark in tainted.items() if "ferry" in text or "contents of F1" in text)
        own = next(mark for text, mark in tainted.items() if "this one too" in text)
        assert not own


async def test_what_comes_too_late_for_the_turn_is_a_turn_of_its_own(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    requests: list[ModelRequest] = []
    async with talk(tmp_path, section=STEER, model=steps(1, requests)) as talked:
        await talked.send(GO)
        await trio.sleep(1.8)
        await talked.send(Incoming(text="and the folders"))
        await talked.settled()
        assert talked.answered("tg1") == [(1,), (2,)]
        assert requests[-1].messages[-1].content == "and the folders"


OTHERS = {
    "of another person": Incoming(text="and mine", user=8),
    "for another model": Incoming(text="and mine", model="other"),
    "of a schedule": Incoming(text="and mine", schedule=4),
    "of a program": Incoming(text="and mine", tainted=True),
    "with a history of its own": Incoming(text="and mine", apart=True),
}


@pytest.mark.parametrize("name", OTHERS)
async def test_a_message_that_is_not_of_the_same_kind_waits_for_its_own_turn(
    autojump_clock: MockClock, tmp_path: Path, name: str
) -> None:
    requests: list[ModelRequest] = []
    async with talk(tmp_path, section=STEER, model=steps(3, requests)) as talked:
        await talked.send(GO)
        await trio.sleep(1.5)
        await talked.send(OTHERS[name])
        await talked.settled()
        assert talked.answered("tg1") == [(1,), (2,)]
        assert "and mine" not in talked.replies[0].text


@pytest.mark.parametrize("command", ["/stop", "/stop all", "/queue drop 1"])
async def test_commands_act_on_what_waits_to_steer(
    autojump_clock: MockClock, tmp_path: Path, command: str
) -> None:
    requests: list[ModelRequest] = []
    async with talk(tmp_path, section=STEER, model=steps(1, requests)) as talked:
        await talked.send(GO)
        await trio.sleep(1.2)
        await talked.send(Incoming(text="later"), Incoming(text=command))
        await talked.settled()
        expected = {
            "/stop": [(1, 3), (2,)],
            "/stop all": [(1, 2, 3)],
            "/queue drop 1": [(2, 3), (1,)],
        }
        assert talked.answered("tg1") == expected[command]


async def test_a_file_that_cannot_be_fetched_is_reported_by_its_own_turn(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    from rumi.errors import RumiError

    async def bring(chat: str, attachment: Attachment) -> str:
        await trio.lowlevel.checkpoint()
        raise RumiError("it is gone", "send it again")

    requests: list[ModelRequest] = []
    async with talk(tmp_path, section=STEER, model=steps(2, requests), bring=bring) as talked:
        await talked.send(GO)
        await trio.sleep(1.2)
        await talked.send(Incoming(text="with that", attachments=(replace(REPORT, source="Ben"),)))
        await talked.settled()
        assert talked.answered("tg1") == [(1,), (2,)]
        assert "it is gone" in talked.replies[-1].text


async def test_a_retry_of_a_steered_turn_says_all_again(autojump_clock: MockClock, tmp_path: Path) -> None:
    requests: list[ModelRequest] = []
    async with talk(tmp_path, section=STEER, model=steps(5, requests)) as talked:
        await talked.send(GO)
        await trio.sleep(1.5)
        await talked.send(Incoming(text="only the hidden ones"))
        await trio.sleep(2)
        await talked.send(Incoming(text="/stop"))
        await talked.settled()
        await talked.send(Incoming(text="/retry"))
        await talked.settled()
        own = [m.content for m in requests[-1].messages if m.role == "user"]
        assert own[-1] == "count them all\nonly the hidden ones"
