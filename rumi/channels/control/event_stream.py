"""Live events of the whole process, for programs that follow it over the control socket.

`docs/status.md` describes the format. An event that is also in the audit log has the same name and fields in
the log.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import trio

from actors import TreeEvent
from rumi import __version__
from rumi.channels.attach.wire import Wire, WireClosed, when_closed
from rumi.chats.hub import Hub, HubSubscription
from rumi.chats.publishing import recorded
from rumi.errors import RumiError, answer_of
from rumi.platform.caller import Caller
from rumi.platform.calls import answer, call
from rumi.platform.texts.translation import error_text
from rumi.platform.topic import Backlog, Subscription, Topic

VERSION = 1
"""Version of the event format. It is raised when a field is removed or changes its meaning."""

MOST_WAITING = 2000
"""Maximum number of buffered events per reader; beyond it, the oldest events are dropped and counted."""

STUCK_S = 300.0
"""A reader that has read nothing for this many seconds is disconnected."""

Item = dict[str, Any]


class EventStream:
    """The stream `events` of the control socket: `serve` handles one reader."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._topic: Topic[str, Item] = Topic(Backlog(most=MOST_WAITING))

    def tree_happened(self, event: TreeEvent) -> None:
        """Publish an event of the supervision tree. Must be fast: the tree waits for this call.

        Events of kinds that are not published are ignored.
        """
        row = tree_item(event)
        if row is not None:
            name, chat, more = row
            self._topic.publish(chat, _item(time.time(), name, chat, "", **more))

    def storage_changed(self, trouble: str | None) -> None:
        """Publish why the databases cannot be written; None means that they can be written again."""
        self._topic.publish("", _item(time.time(), "storage", "", "", trouble=trouble))

    async def serve(self, caller: Caller, request: Mapping[str, object], wire: Wire) -> None:
        """Serve one reader until it disconnects."""
        try:
            await answer(self, "events", caller, request, wire)
        except RumiError as error:
            await wire.send(answer_of(error))

    @call("events", rights="all", stream=True)
    async def follow(
        self, caller: Caller, wire: Wire, *, chats: Sequence[str] = (), events: Sequence[str] = ()
    ) -> None:
        """Send all events from now on, or only those of these `chats` and with these names."""

        def wanted(item: Item) -> bool:
            return (not chats or item["chat"] in chats) and (not events or item["event"] in events)

        # Subscribed before the greeting is sent: a program that has read it misses no later event.
        with self._hub.listening() as happened, self._topic.listening(wants=wanted) as reader:
            await wire.send({"events": VERSION, "program": __version__})
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_collect, happened, reader)
                # Only a receive notices that the reader has disconnected; there may be no event to send.
                nursery.start_soon(when_closed, wire, nursery.cancel_scope.cancel)
                await _send(reader, wire)
                nursery.cancel_scope.cancel()


async def _collect(events: HubSubscription, reader: Subscription[Item]) -> None:
    while True:
        item = recorded(await events.receive())
        if item is not None:
            reader.put(item | {"time": round(item["time"], 3)})


async def _send(reader: Subscription[Item], wire: Wire) -> None:
    """Send buffered events until the reader disconnects, or does not read for too long."""
    try:
        while True:
            item = await reader.receive()
            with trio.fail_after(STUCK_S):
                # Reset before sending: events that are dropped during the send belong to the next report.
                if reader.lost:
                    lost, reader.lost = reader.lost, 0
                    await wire.send(_item(time.time(), "lost", "", "", count=lost))
                await wire.send(item)
    except (WireClosed, trio.TooSlowError):
        return


def tree_item(event: TreeEvent) -> tuple[str, str, Item] | None:
    """Return the name, chat and fields of a supervision tree event; None for kinds that are not published."""
    names = {"crashed": "crashed", "restarted": "restarted", "limit_reached": "failed"}
    name = names.get(event.kind)
    if name is None:
        return None
    more = {
        "actor": event.path,
        "incarnation": event.incarnation,
        "error": error_text("en", event.error) if event.error else "",
    }
    return name, _chat_of(event.path), more


def _chat_of(path: str) -> str:
    """Return the chat that an actor belongs to; an empty string for actors of the whole process."""
    match path.split("/")[1:]:
        case ["chats", chat]:
            return chat
        case ["sandboxes", sandbox]:
            return sandbox.removeprefix("sandbox:")
        case _:
            return ""


def _item(at: float, name: str, chat: str, turn: str, **more: object) -> Item:
    return {"time": round(at, 3), "event": name, "chat": chat, "turn": turn, **more}
