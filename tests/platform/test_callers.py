"""Callers of control calls: what each sees and may change, in a whole process with rows of three owners."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import trio
from trio_websocket import WebSocketRequest

from rumi.app.app import App, open_app
from rumi.app.control_calls import DECLARED
from rumi.channels.attach.connection import OtherVersion, connect
from rumi.channels.attach.one_call import STATUS, line
from rumi.channels.attach.one_call import ask as ask_line
from rumi.channels.attach.wire import Wire, WireClosed
from rumi.channels.telegram import Telegram
from rumi.errors import RumiError
from rumi.platform.caller import PROGRAM, TERMINAL, WORKER, Caller
from rumi.platform.config.cascade import load_settings
from rumi.platform.home import Home, socket_path
from rumi.store.journal.records import TaskRecord
from rumi.store.journal.tasks import add_task, end_task
from tests import mypy_snippet
from tests.chats.house import reply_to
from tests.fakes.containers import FakeEngine

ENV = {"TELEGRAM_TOKEN": "11111:" + "x" * 35, "TELEGRAM_BASE_URL": "http://127.0.0.1:9"}

OWNERS = {"local": "Xanadu", "tg7": "Ruritania", "tg8": "Zembla"}
"""Each owner's word stands in all of its rows."""

CHATS = {"local": "cli", "tg7": "tg7", "tg8": "tg8"}

ALL = (TERMINAL, WORKER, Caller("page", "local", "all"), Caller("telegram", "tg7", "all"))
"""The terminal, another worker, the page's login, an admin at Telegram."""

OWN = (
    PROGRAM,
    Caller("page", "local", "own"),
    *(Caller("telegram", owner, "own") for owner in ("tg7", "tg8")),
)
"""A program at /mcp, a page among workers, a member and a guest at Telegram."""


@dataclass(frozen=True, slots=True)
class World:
    """The process, and the numbers of each owner's task and schedule."""

    app: App
    path: Path
    tasks: Mapping[str, int]
    schedules: Mapping[str, int]

    async def call(self, caller: Caller, name: str, /, **fields: object) -> object:
        async with connect(self.path, caller) as client:
            return await client.call(name, **fields)

    async def stream(self, caller: Caller, name: str, /, **fields: object) -> Mapping[str, object]:
        """Return the first thing that a stream says."""
        async with connect(self.path, caller) as client:
            wire = await client.stream(name, **fields)
            with trio.fail_after(30):
                return await wire.receive()


async def say(app: App, text: str, chat: str) -> str:
    with app.services.hub.listening(chat) as events:
        return await reply_to(events, await app.inbox.accept(chat, text, "en"))


@asynccontextmanager
async def world(tmp_path: Path) -> AsyncIterator[World]:
    home = Home(tmp_path / "home").make()
    loaded = load_settings(home.root, ENV, {"model.default": "offline"})
    with trio.fail_after(120):
        async with open_app(home, loaded, FakeEngine(), channels=(Telegram(),)) as app:
            app.attach_server.open()
            tasks = {}
            for owner, word in OWNERS.items():
                await say(app, f"remember city = {word}", CHATS[owner])
                await say(app, f"/remind in 20 minutes {word}", CHATS[owner])
                task = await app.services.journal.ask(add_task(TaskRecord("web", owner, f"Where is {word}?")))
                await app.services.journal.ask(end_task(task.id, "succeeded", f"{word} is there."))
                tasks[owner] = task.id
            schedules = {schedule.owner: schedule.id for schedule in await app.schedules.listed(None)}
            yield World(app, socket_path(home.run, home.installation()), tasks, schedules)


OF_THE_HOME: tuple[tuple[str, dict[str, object]], ...] = (
    ("settings", {"do": "list"}),
    ("people", {"do": "list"}),
    ("settings", {"do": "set", "name": "undo.turns", "value": 1}),
    ("settings", {"do": "unset", "name": "undo.turns"}),
    ("people", {"do": "add", "name": "ann", "telegram": [11]}),
    ("people", {"do": "set", "name": "ann", "role": "admin"}),
    ("people", {"do": "remove", "name": "ann"}),
    ("skills", {"do": "enable", "name": "explain"}),
    ("skills", {"do": "disable", "name": "explain"}),
    ("skills", {"do": "trust", "name": "explain", "project": "/"}),
    ("mcp", {"do": "accept", "name": "fake"}),
)
"""Requests that show or change the installation."""


def looks(world: World) -> list[tuple[str, dict[str, object]]]:
    """Every request that only looks, for each owner that it may name."""
    requests: list[tuple[str, dict[str, object]]] = [
        ("status", {}),
        ("mcp", {"do": "list"}),
        ("bots", {"do": "list"}),
        ("tasks", {"do": "list"}),
        ("schedules", {"do": "list"}),
        ("triggers", {"do": "list"}),
        ("chats", {"do": "list"}),
        ("chats", {"do": "sessions"}),
        ("memory", {"do": "list"}),
        ("memory", {"do": "history", "key": "city"}),
        ("usage", {}),
        ("usage", {"by": "chat"}),
        ("budgets", {"do": "list"}),
        ("approvals", {"do": "list"}),
        ("skills", {"do": "list"}),
    ]
    for owner, word in OWNERS.items():
        requests += [
            ("tasks", {"do": "list", "owner": owner}),
            ("tasks", {"do": "show", "id": world.tasks[owner]}),
            ("schedules", {"do": "list", "owner": owner}),
            ("schedules", {"do": "show", "id": world.schedules[owner]}),
            ("chats", {"do": "show", "chat": CHATS[owner]}),
            ("chats", {"do": "sessions", "chat": CHATS[owner]}),
            ("chats", {"do": "sessions", "owner": owner}),
            ("chats", {"do": "search", "words": word}),
            ("chats", {"do": "export", "chat": CHATS[owner]}),
            ("chats", {"do": "list", "limit": 9, "archived": False}),
            ("chats", {"do": "search", "words": word, "chat": CHATS[owner]}),
            ("recall", {"query": word}),
            ("recall", {"query": word, "owner": owner}),
            ("memory", {"do": "list", "owner": owner}),
            ("memory", {"do": "search", "owner": owner, "words": word}),
            ("budgets", {"do": "list", "chat": CHATS[owner]}),
            ("memory", {"do": "history", "owner": owner, "key": "city"}),
            ("usage", {"by": "chat", "owner": owner}),
            ("usage", {"by": "chat", "chat": CHATS[owner]}),
        ]
    return requests


def changes(world: World, owner: str) -> list[tuple[str, dict[str, object]]]:
    """Every request that would change something of an owner, or of all."""
    task, schedule, chat = world.tasks[owner], world.schedules[owner], CHATS[owner]
    return [
        *(("schedules", {"do": do, "id": schedule}) for do in ("pause", "resume", "run", "delete", "revoke")),
        ("schedules", {"do": "edit", "id": schedule, "text": "x"}),
        ("schedules", {"do": "approve", "id": schedule, "hosts": ["a.example"]}),
        ("schedules", {"do": "add", "when": "in 5 minutes", "text": "x", "chat": chat}),
        *(("tasks", {"do": do, "id": task}) for do in ("stop", "delete")),
        ("tasks", {"do": "begin", "kind": "web", "question": "x", "chat": chat}),
        ("memory", {"do": "set", "owner": owner, "key": "city", "value": "changed"}),
        ("memory", {"do": "forget", "owner": owner, "key": "city"}),
        ("memory", {"do": "extract", "owner": owner}),
        ("memory", {"do": "forget_everything", "owner": owner}),
        ("chats", {"do": "delete", "chat": chat}),
        ("chats", {"do": "rename", "chat": chat, "title": "x"}),
        *(("chats", {"do": do, "chat": chat}) for do in ("pin", "archive")),
        *(("chats", {"do": do, "chat": chat, "message": 1}) for do in ("branch", "drop")),
        *((command, {"chat": chat}) for command in ("stop", "reset", "undo")),
        ("answer", {"chat": chat, "id": "x", "yes": True}),
        ("stop", {"all": True}),
        ("make_way", {}),
        ("bots", {"do": "create", "name": "tidy"}),
        ("bots", {"do": "stop", "name": "tidy"}),
        ("bots", {"do": "apply", "name": "tidy", "token": "x"}),
        ("approvals", {"do": "answer", "chat": chat, "number": 1, "yes": True}),
        ("budgets", {"do": "allow", "amount": "1 usd", "chat": chat}),
        ("models", {"do": "check"}),
        *OF_THE_HOME,
        ("triggers", {"do": "fire", "name": "alarm", "text": "x"}),
        ("page", {"do": "link"}),
        ("page", {"do": "revoke", "id": "all"}),
    ]


async def check_that_rows_of_others_are_not_shown(world: World, caller: Caller) -> None:
    """Make each request that looks; no word of another owner comes back."""
    for name, fields in looks(world):
        try:
            answer = json.dumps(await world.call(caller, name, **fields))
        except RumiError as error:
            answer = str(error)
        for owner, word in OWNERS.items():
            hidden = answer.replace(str(fields.get("words") or fields.get("query") or "\0"), "")
            assert owner == caller.owner or word not in hidden, (caller, name, fields)
            if name == "usage" and owner != caller.owner:
                assert f'"{CHATS[owner]}"' not in answer, (caller, fields)


async def test_a_caller_of_one_owner_sees_no_row_of_another(tmp_path: Path) -> None:
    async with world(tmp_path) as home:
        for caller in OWN:
            await check_that_rows_of_others_are_not_shown(home, caller)
            word = OWNERS[caller.owner]
            for name in ("tasks", "schedules", "memory"):
                assert word in json.dumps(await home.call(caller, name, do="list")), name
            for name in ("status", "mcp"):
                with pytest.raises(RumiError, match="only for the owner of this installation"):
                    await home.call(caller, name, do="list")


async def test_the_check_finds_a_caller_whose_owner_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path) as home:
        monkeypatch.setattr(Caller, "scope", property(lambda self: None))
        for caller in OWN:
            with pytest.raises(AssertionError):
                await check_that_rows_of_others_are_not_shown(home, caller)


async def test_a_caller_of_one_owner_changes_nothing_of_another(tmp_path: Path) -> None:
    async with world(tmp_path) as home:
        before = [await home.call(TERMINAL, name, **fields) for name, fields in looks(home)[2:]]
        for caller in OWN:
            for owner in OWNERS.keys() - {caller.owner}:
                for name, fields in changes(home, owner):
                    with pytest.raises(RumiError):
                        await home.call(caller, name, **fields)
        after = [await home.call(TERMINAL, name, **fields) for name, fields in looks(home)[2:]]
        assert after == before


async def test_the_homes_owner_sees_the_rows_of_all_by_each_channel(tmp_path: Path) -> None:
    async with world(tmp_path) as home:
        for caller in ALL:
            for name in ("tasks", "schedules"):
                shown = json.dumps(await home.call(caller, name, do="list"))
                assert all(word in shown for word in OWNERS.values())
            listed = json.dumps(await home.call(caller, "chats", do="list"))
            assert all(f'"{chat}"' in listed for chat in CHATS.values())
            for owner, word in OWNERS.items():
                assert word in json.dumps(await home.call(caller, "memory", do="list", owner=owner))


async def test_each_call_of_the_process_is_among_those_that_are_tried(tmp_path: Path) -> None:
    async with world(tmp_path) as home:
        answer = json.loads(await trio.to_thread.run_sync(ask_line, home.path, b'{"call":"none"}'))
        known = set(answer["error"].partition("calls: ")[2].split(", "))
        tried = {name for name, _ in (*looks(home), *changes(home, "tg7"))}
        assert tried == known
        assert known == {name.partition(".")[0] for name, call in DECLARED.items() if not call.stream}


async def test_what_is_declared_for_the_homes_owner_is_refused_to_all_others(tmp_path: Path) -> None:
    async with world(tmp_path) as home:
        for name, declared in DECLARED.items():
            request, _, do = name.partition(".")
            if declared.rights == "all" and not declared.stream:
                for caller in OWN:
                    with pytest.raises(RumiError, match="only for the owner of this installation"):
                        await home.call(caller, request, do=do)


async def test_an_admin_of_another_channel_does_not_change_the_installation(tmp_path: Path) -> None:
    async with world(tmp_path) as home:
        admin = Caller("telegram", "tg7", "all")
        for name, fields in OF_THE_HOME:
            with pytest.raises(RumiError, match="only for the owner of this installation"):
                await home.call(admin, name, **fields)
        with pytest.raises(RumiError, match="only for the owner of this installation"):
            await home.call(admin, "approvals", do="answer", chat="cli", number=1, yes=True)
        assert not (home.path.parents[1] / "config.toml").exists()


async def test_streams_are_served_to_those_who_may_have_them(tmp_path: Path) -> None:
    async with world(tmp_path) as home:
        refused = "only for the owner of this installation"
        for caller in OWN:
            assert refused in str((await home.stream(caller, "events"))["error"])
            bot = await home.stream(caller, "task", do="bot", name="tidy", goal="x")
            assert refused in str(bot["error"])
            for owner in OWNERS:
                told = await home.stream(caller, "task", do="follow", id=home.tasks[owner])
                assert ("ended" in told) == (owner == caller.owner), told
            window = await home.stream(caller, "window", version=1, chat="cli")
            file = (
                await home.stream(caller, "file", chat="cli", name="a.txt") if caller.owner != "local" else {}
            )
            assert caller.owner == "local" or (refused in str(file["error"]) and "error" in window)
        assert "events" in await home.stream(TERMINAL, "events")


async def test_a_session_of_another_owner_is_not_shown_woken_or_stopped(tmp_path: Path) -> None:
    async with world(tmp_path) as home:
        await home.call(TERMINAL, "bots", do="create", name="tidy")
        new = TaskRecord("bot", "local", "find Xanadu", attached=True, bot="tidy")
        session = await home.app.services.journal.ask(add_task(new))
        home.app.tasks._open[session.id] = session  # as one that sleeps
        shown = await say(home.app, "/bots", "tg7")
        assert "tidy" in shown
        assert "Xanadu" not in shown
        for command in ("/wake tidy", "/stop tidy", "/bot tidy go to Zembla"):
            assert "at work for someone else" in await say(home.app, command, "tg7")
        assert (await home.app.tasks.show(session.id, None)).state == session.state
        assert "Xanadu" in await say(home.app, "/bots", "cli")
        assert "at work for someone else" not in await say(home.app, "/stop tidy", "cli")


async def test_what_names_no_caller_is_not_answered(tmp_path: Path) -> None:
    async with world(tmp_path) as home:
        bad = (None, "terminal", {}, {"channel": "x", "owner": "local"}, {"channel": "x", "rights": "all"})
        more = (
            {"channel": "x", "owner": "", "rights": "own"},
            {"channel": "x", "owner": "l", "rights": "root"},
        )
        for caller in (*bad, *more):
            named = {} if caller is None else {"caller": caller}
            for name, fields in (*looks(home), *changes(home, "tg7")):
                request = json.dumps({"call": name, **fields, **named}).encode()
                answer = json.loads(await trio.to_thread.run_sync(ask_line, home.path, request))
                assert answer["ok"] is False
                assert "names no caller" in answer["error"], (caller, name)
        async with connect(home.path, TERMINAL) as client:
            for name in ("events", "task", "window", "file"):
                await client._wire.send({"stream": name, "do": "follow", "id": 1})
                assert "names no caller" in str((await client._wire.receive())["error"])
        assert json.loads(await trio.to_thread.run_sync(ask_line, home.path, STATUS))["ok"] is True
        assert line(TERMINAL, "status") == STATUS


async def test_an_earlier_process_is_not_asked_for_one_owner_whom_it_would_ignore(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"

    async def earlier(request: WebSocketRequest) -> None:
        wire = Wire(await request.accept())
        with suppress(WireClosed):
            while True:
                await wire.receive()
                await wire.send({"ok": True, "result": "the rows of all"})

    sock = trio.socket.socket(trio.socket.AF_UNIX)
    await sock.bind(str(path))
    sock.listen()
    async with trio.open_nursery() as nursery:
        listener = trio.SocketListener(sock)
        nursery.start_soon(partial(_serve, earlier, listener))
        with pytest.raises(OtherVersion, match="another version"):
            async with connect(path, PROGRAM):
                pass
        async with connect(path, TERMINAL) as client:
            assert await client.call("tasks", do="list") == "the rows of all"
        nursery.cancel_scope.cancel()


async def _serve(handler: object, listener: trio.SocketListener) -> None:
    from trio_websocket import wrap_server_stream

    async def one(stream: trio.SocketStream) -> None:
        async with trio.open_nursery() as nursery:
            await handler(await wrap_server_stream(nursery, stream))  # type: ignore[operator]

    await trio.serve_listeners(one, [listener])


SNIPPET = """
from pathlib import Path
from rumi.platform.caller import TERMINAL, Caller, ControlCall
from rumi.platform.calls import call
from rumi.channels.attach.connection import connect
from rumi.tasks.tasks import StoredTasks
from collections.abc import Mapping

async def without(request: Mapping[str, object]) -> object: ...

served: ControlCall = without  # expected: assignment

class Calls:
    @call("x.with")
    async def with_caller(self, caller: Caller, *, id: int) -> object: ...

    @call("x.without")  # expected: type-var
    async def without_caller(self, *, id: int) -> object: ...

async def main(tasks: StoredTasks, serve: ControlCall) -> None:
    async with connect(Path("x")) as client:  # expected: call-arg
        await client.call("tasks", do="list")
    async with connect(Path("x"), TERMINAL) as client:
        await client.call("tasks", do="list")
    await serve()  # expected: call-arg
    await tasks.listed()  # expected: call-arg
    await tasks.show(1)  # expected: call-arg
    await tasks.delete(1)  # expected: call-arg
"""


@pytest.mark.long
def test_a_call_without_its_caller_is_a_type_error(tmp_path: Path) -> None:
    mypy_snippet.check(SNIPPET, tmp_path)
