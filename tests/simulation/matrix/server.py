"""A homeserver of the simulation, behind httpx: rooms, edits, limits and faults drawn by the world.

It recognises a request that is repeated under the same transaction id, as the specification demands.
"""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import unquote

import httpx
import trio

from tests.simulation.ports import Life
from tests.simulation.world import World

RUMI = "@rumi:sim.test"
BATCH = 4
"""Most events of a room in one sync."""


@dataclass
class Room:
    members: list[str]
    events: list[dict[str, Any]] = field(default_factory=list)


class SimServer:
    """What lasts longer than a process. Positions are numbers of events, over all rooms."""

    def __init__(self, world: World, random: Random, rooms: dict[str, list[str]]) -> None:
        self.world = world
        self.random = random
        self.rooms = {id: Room(members) for id, members in rooms.items()}
        self.closed_until = 0.0
        self._told_at = -1.0
        self._last = 0
        self._txns: dict[tuple[str, str], str] = {}
        self._tokens = float(self.random.choice((4, 10, 1000)))
        self._most = self._tokens
        self._refill = self.random.choice((0.3, 2.0, 1000.0))
        self._filled_at = 0.0
        self._came = trio.Event()
        self.sends: dict[str, int] = defaultdict(int)

    def put(self, room: str, sender: str, kind: str, content: dict[str, Any], txn: str = "") -> str:
        """An event comes into a room."""
        self._last += 1
        event = {
            "event_id": f"$e{self._last}",
            "sender": sender,
            "type": kind,
            "origin_server_ts": int(self.world.now() * 1000),
            "content": content,
            "position": self._last,
        }
        if txn:
            event["unsigned"] = {"transaction_id": txn}
        self.rooms[room].events.append(event)
        self._came.set()
        self._came = trio.Event()
        return str(event["event_id"])

    def shown(self, room: str) -> list[str]:
        """What a client shows of Rumi's messages: their last versions, without notices."""
        texts = dict[str, str]()
        for event in self.rooms[room].events:
            content = event["content"]
            if event["type"] != "m.room.message" or event["sender"] != RUMI or content["msgtype"] != "m.text":
                continue
            related = content.get("m.relates_to", {})
            if related.get("rel_type") == "m.replace":
                texts[related["event_id"]] = content["m.new_content"]["body"]
            else:
                texts[event["event_id"]] = content["body"]
        return list(texts.values())

    def fails(self, what: str, chance: float) -> bool:
        """Whether something goes wrong now."""
        if self.world.calm or self.random.random() >= chance:
            return False
        self.world.counts[what] += 1
        self.world.note("server", what)
        return True

    # Requests

    async def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        parts = [unquote(part) for part in path.removeprefix("/_matrix/client/v3/").split("/")]
        match method, parts:
            case "GET", ["sync"]:
                return 200, await self._sync(query)
            case "GET", ["rooms", room, "joined_members"]:
                members = self.rooms[room].members
                return 200, {"joined": {member: {"display_name": member[1:4]} for member in members}}
            case "GET", ["rooms", room, "messages"]:
                return 200, self._messages(room, int(query["from"]), int(query["to"]))
            case "PUT", ["rooms", room, "send", kind, txn]:
                return self._send(room, kind, txn, body)
            case "PUT", ["rooms", room, "typing", _]:
                return 200, {}
            case "POST", ["rooms", room, "read_markers"]:
                return 200, {}
            case _:
                return 404, {"errcode": "M_UNRECOGNIZED", "error": path}

    def _send(self, room: str, kind: str, txn: str, body: Any) -> tuple[int, Any]:
        key = (room, txn)
        if key in self._txns:
            self.world.counts["repeated"] += 1
            return 200, {"event_id": self._txns[key]}
        now = trio.current_time()
        self._tokens = min(self._most, self._tokens + (now - self._filled_at) * self._refill)
        self._filled_at = now
        if self._tokens < 1:
            wait_s = (1 - self._tokens) / self._refill + self.random.choice((0.1, 3.0))
            self.world.counts["limits"] += 1
            if not txn.startswith(("g", "s")) and self._told_at < now < self.closed_until - 1e-6:
                self.world.counts["pressed"] += 1
            self.closed_until, self._told_at = now + wait_s, now
            return 429, {"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": int(wait_s * 1000)}
        self._tokens -= 1
        self._txns[key] = self.put(room, RUMI, kind, body, txn)
        self.world.note("server", f"{txn} in {room}", lambda: repr(body.get("body", ""))[:100])
        return 200, {"event_id": self._txns[key]}

    async def _sync(self, query: dict[str, str]) -> Any:
        since = int(query.get("since") or self._last)
        if since >= self._last:
            with trio.move_on_after(int(query["timeout"]) / 1000):
                while since >= self._last:
                    await self._came.wait()
        if since and "since" in query and self.fails("duplicated", 0.1):
            since = max(0, since - self.random.choice((1, 2, 5)))
        if self.fails("odd", 0.05):
            self._last += 1
            odd = {"type": 7, "event_id": ["x"], "content": None, "position": self._last}
            self.random.choice(list(self.rooms.values())).events.append(odd)
        joined = {}
        for id, room in self.rooms.items():
            new = [event for event in room.events if event["position"] > since]
            if new:
                last = new[-BATCH:]
                timeline = {
                    "events": last,
                    "limited": len(new) > BATCH,
                    "prev_batch": str(last[0]["position"] - 1),
                }
                joined[id] = {"timeline": timeline}
                if len(new) > BATCH:
                    self.world.counts["limited"] += 1
        return {"next_batch": str(self._last), "rooms": {"join": joined}}

    def _messages(self, room: str, start: int, end: int) -> Any:
        older = [event for event in self.rooms[room].events if end < event["position"] <= start]
        chunk = older[-3:][::-1]
        more = {"end": str(chunk[-1]["position"] - 1)} if chunk else {}
        return {"chunk": chunk, **more}


class SimLine(httpx.AsyncBaseTransport):
    """A process's line to the server. Once the process is dead, nothing gets through any more."""

    def __init__(self, server: SimServer, life: Life) -> None:
        self._server = server
        self._life = life

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        server, life = self._server, self._life
        await trio.sleep(0.01 if server.world.calm else server.random.choice((0.01, 0.05, 0.1, 2)))
        if life.dead:
            await trio.sleep_forever()
        path = request.url.raw_path.decode().partition("?")[0]
        sends = "/send/" in path
        if server.fails("no line", 0.04):
            raise httpx.ConnectError("no route")
        if server.fails("502", 0.03):
            return httpx.Response(502, html="<html>Bad gateway</html>")
        if sends:
            life.moment("asks")
        if life.dead:
            await trio.sleep_forever()
        body = json.loads(request.content) if request.content else {}
        query = dict(request.url.params)
        if sends and server.fails("late", 0.04):
            trio.lowlevel.spawn_system_task(self._late, request.method, path, body)
            await trio.sleep(0.1)
            raise httpx.ReadTimeout("no answer yet")
        status, answer = await server.answer(request.method, path, query, body)
        if sends and status == 200:
            life.moment("did")
        if "/sync" in path:
            life.moment("synced")
        if life.dead:
            await trio.sleep_forever()
        if server.fails("lost answer", 0.06 if sends else 0.02):
            await trio.sleep(server.random.choice((0.1, 20)))
            raise httpx.ReadTimeout("no answer")
        await trio.sleep(0.01)
        if life.dead:
            await trio.sleep_forever()
        return httpx.Response(status, json=answer)

    async def _late(self, method: str, path: str, body: Any) -> None:
        """The server does what it was asked for when nobody waits for it any more."""
        await trio.sleep(self._server.random.choice((0.5, 5, 30)))
        if not self._life.dead:
            await self._server.answer(method, path, {}, body)
