"""Live events of the whole house over the control socket."""

from pathlib import Path
from typing import Any

import pytest
import trio

from actors import TreeEvent
from rumi.channels.attach.wire import Wire, WireClosed
from rumi.channels.control import event_stream
from rumi.channels.control.event_stream import EventStream
from rumi.chats.events import ChatEvent, TurnStarted
from rumi.chats.hub import Hub
from rumi.models.model import Waiting
from rumi.platform.caller import TERMINAL
from tests.channels.attach.daemon import running_daemon


async def until(wire: Wire, event: str) -> list[dict[str, Any]]:
    """What is told until then."""
    told: list[dict[str, Any]] = []
    with trio.fail_after(60):
        while not told or told[-1].get("event") != event:
            told.append(dict(await wire.receive()))
    return told


async def test_a_turn_its_tools_and_what_is_no_chats_are_told_as_they_happen(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon, daemon.stream("events") as wire:
        assert (await wire.receive())["events"] == 1
        await daemon.home.ask("sleep 0")
        told = await until(wire, "replied")
        assert [event["event"] for event in told] == [
            "turn_started", "tool_started", "command", "turn_finished", "replied",
        ]  # fmt: skip
        assert {(event["chat"], event["turn"]) for event in told} == {("cli", "t1")}
        assert told[2]["exit_code"] == 0
        assert told[3]["stopped_reason"] == "complete"
        daemon.event_stream.tree_happened(
            TreeEvent("crashed", "rumi/sandboxes/sandbox:cli", 2, ValueError("no"))
        )
        daemon.event_stream.tree_happened(TreeEvent("started", "rumi/chats/x", 1))
        daemon.event_stream.tree_happened(TreeEvent("restarted", "rumi/models", 3))
        told = await until(wire, "restarted")
        assert [(event["event"], event["chat"], event["error"]) for event in told] == [
            ("crashed", "cli", "ValueError: no"), ("restarted", "", ""),
        ]  # fmt: skip


async def test_chats_and_events_are_chosen(tmp_path: Path) -> None:
    wanted = {"chats": ["one"], "events": ["waiting", "replied"]}
    async with running_daemon(tmp_path) as daemon, daemon.stream("events", **wanted) as wire:
        await wire.receive()
        for chat in ("two", "one"):
            daemon.home.services.hub.publish(ChatEvent(chat, "t9", 1.0, Waiting(2.5, "rate limit")))
            await daemon.home.ask("hello", chat)
        told = await until(wire, "replied")
        assert [(event["event"], event["chat"]) for event in told] == [("waiting", "one"), ("replied", "one")]
        assert (told[0]["seconds"], told[0]["why"]) == (2.5, "rate limit")


class Slow:
    """A reader that takes nothing until it is let."""

    def __init__(self) -> None:
        self.let = trio.Event()
        self.took: list[dict[str, Any]] = []

    async def send(self, message: Any) -> None:
        if self.took:
            await self.let.wait()
        self.took.append(dict(message))

    async def receive(self) -> dict[str, object]:
        await trio.sleep_forever()
        raise WireClosed


async def test_a_slow_reader_loses_the_oldest_and_is_told_how_many(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "MOST_WAITING", 10)
    hub, reader = Hub(), Slow()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(EventStream(hub).serve, TERMINAL, {}, reader)
        await trio.sleep(1)
        for number in range(100):
            hub.publish(ChatEvent("cli", f"t{number}", 1.0, TurnStarted("", number)))
            await trio.sleep(0.001)
        reader.let.set()
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    told = [event.get("message", event.get("count")) for event in reader.took[1:]]
    assert sum(event.get("count", 1) for event in reader.took[1:]) == 100
    assert told[-10:] == list(range(90, 100))


async def test_a_reader_that_never_takes_anything_is_let_go(autojump_clock: trio.testing.MockClock) -> None:
    hub = Hub()
    with trio.fail_after(2 * event_stream.STUCK_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(EventStream(hub).serve, TERMINAL, {}, Slow())
            await trio.sleep(1)
            hub.publish(ChatEvent("cli", "t1", 1.0, TurnStarted("", 1)))
