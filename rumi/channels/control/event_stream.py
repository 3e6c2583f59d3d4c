"""Live events: what happens in the whole process, for programs that follow it over the control socket.

`docs/status.md` describes the shape. Names and fields are those of the audit log, where it has them.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import trio

from actors import TreeEvent
from rumi import __version__
from rumi.channels.attach.wire import Wire, WireClosed, when_closed
from rumi.chats.hub import Hub, HubSubscription
from rumi.chats.publishing import recorded
from rumi.errors import RumiError, answer_of
from rumi.platform.caller import Caller
from rumi.platform.texts.translation import error_text
from rumi.platform.topic import Backlog, Subscription, Topic

VERSION = 1
"""Goes up when a field goes or means something else, not when one is added."""

MOST_WAITING = 2000
"""Events that a reader may be behind; of one that is further behind the oldest are lost, and counted."""

STUCK_S = 300.0
"""A reader that takes nothing for so long is disconnected."""

Item = dict[str, Any]


def _wanted(request: Mapping[str, object]) -> Callable[[Item], bool]:
    """Return a function that is True for what a reader wants to hear of."""
    chats, events = _names(request.get("chats")), _names(request.get("events"))
    return lambda item: (not chats or item["chat"] in chats) and (not events or item["event"] in events)


class EventStream:
    """Serves readers: `serve` is the stream `events` of the control socket."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._topic: Topic[str, Item] = Topic(Backlog(most=MOST_WAITING))

    def tree_happened(self, event: TreeEvent) -> None:
        """Tell an event of the tree, if it is worth it. Quickly: the tree is in the middle of its work."""
        row = tree_item(event)
        if row is not None:
            name, chat, more = row
            self._topic.publish(chat, _item(time.time(), name, chat, "", **more))

    def storage_changed(self, trouble: str | None) -> None:
        """Tell what keeps the databases from being written; None when they are written again."""
        self._topic.publish("", _item(time.time(), "storage", "", "", trouble=trouble))

    async def serve(self, caller: Caller, request: Mapping[str, object], wire: Wire) -> None:
        """Send what happens in all chats from now on, until the reader goes."""
        try:
            caller.check_all()
        except RumiError as error:
            await wire.send(answer_of(error))
            return
        with self._hub.listening() as events, self._topic.listening(wants=_wanted(request)) as reader:
            await wire.send({"events": VERSION, "program": __version__})
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_collect, events, reader)
                nursery.start_soon(when_closed, wire, nursery.cancel_scope.cancel)
                await _send(reader, wire)
                nursery.cancel_scope.cancel()


async def _collect(events: HubSubscription, reader: Subscription[Item]) -> None:
    while True:
        item = recorded(await events.receive())
        if item is not None:
            reader.put(item | {"time": round(item["time"], 3)})


async def _send(reader: Subscription[Item], wire: Wire) -> None:
    """Return when the reader takes nothing any more, or is gone."""
    try:
        while True:
            item = await reader.receive()
            with trio.fail_after(STUCK_S):
                if reader.lost:
                    lost, reader.lost = reader.lost, 0
                    await wire.send(_item(time.time(), "lost", "", "", count=lost))
                await wire.send(item)
    except (WireClosed, trio.TooSlowError):
        return


def tree_item(event: TreeEvent) -> tuple[str, str, Item] | None:
    """Return the name, the chat and the fields of an event of the tree; None if it is not worth telling."""
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
    """Return the chat that an actor belongs to, empty for those of the whole process."""
    match path.split("/")[1:]:
        case ["chats", chat]:
            return chat
        case ["sandboxes", sandbox]:
            return sandbox.removeprefix("sandbox:")
        case _:
            return ""


def _item(at: float, name: str, chat: str, turn: str, **more: object) -> Item:
    return {"time": round(at, 3), "event": name, "chat": chat, "turn": turn, **more}


def _names(found: object) -> frozenset[str]:
    return frozenset(str(name) for name in found) if isinstance(found, list) else frozenset()
