"""Budgets hold: calls at the same time, calls that are cut off, kills, refusals, notices and grants."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from actors import ChildSpec, Supervisor
from rumi.app.budget_calls import UsageCalls
from rumi.chats.budgets.meter import Budgets, Rules
from rumi.chats.budgets.prices import Price, prices_source
from rumi.models.chain import Chain, ChainStep
from rumi.models.fitting import request_tokens
from rumi.models.metering import Account, Limit
from rumi.models.model import Emit, Message, ModelError, ModelRequest, Reply, TextDelta, ToolCall, Usage, Used
from rumi.platform.caller import TERMINAL
from rumi.platform.chat_ids import BUILT_IN
from rumi.platform.config.schema import TasksSection
from rumi.store.journal.actor import Journal, open_journal
from rumi.store.journal.forgetting import delete_chat
from rumi.store.journal.records import TaskRecord
from rumi.store.journal.spending import Bound, UsageRow, read_usage, reserve_call, settle_call, settle_left
from rumi.store.journal.store import Store
from tests.chats.house import InlineOffload, house, reasons, reply_to
from tests.tasks.kinds import Looking, looks

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()
HELLO = ModelRequest((Message("user", "hello"),))
MODEL = "groq:tested"
TOKENS = Limit("owner", "tokens", "day", 1000)


class Priced:
    """A model that uses so many tokens a call."""

    name = MODEL

    def __init__(self, usage: Usage | None = None, seconds: float = 1.0) -> None:
        self.usage = usage or Usage(10, 10)
        self.seconds = seconds
        self.calls = 0
        self.requests: list[ModelRequest] = []

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        self.calls += 1
        self.requests.append(request)
        emit(TextDelta("an"))
        await trio.sleep(self.seconds)
        return Reply("answer", usage=self.usage)


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path / "state.db")) as db:
        return db.execute(query).fetchall()


def tokens(most: int, **more: object) -> Rules:
    limit = replace(TOKENS, most=most, **more)  # type: ignore[arg-type]
    return Rules({MODEL: Price.per_million(1.0, 2.0)}, (limit,), reply_tokens=90)


async def test_of_100_parallel_calls_a_budget_for_40_allows_40(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    model = Priced()
    errors: list[ModelError] = []
    call_tokens = request_tokens(HELLO) + 90
    root = Supervisor("test")
    journal = root.add(
        ChildSpec("journal", lambda: Journal(tmp_path / "state.db", InlineOffload(), lambda: NOON))
    )
    ask = journal.ask
    async with root.running():
        budgets = Budgets(ask, tokens(40 * call_tokens), lambda: NOON, UTC)
        model.usage = Usage(call_tokens - 90, 90)

        async def call(chat: str) -> None:
            chain = Chain([ChainStep(model)], chat=chat, account=Account(chat, "local"), meter=budgets)
            try:
                await chain.reply(HELLO, lambda event: None)
            except ModelError as error:
                errors.append(error)

        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(call, f"c{number}")
        assert (model.calls, len(errors)) == (40, 60)
        assert {error.kind for error in errors} == {"budget"}
        (row,) = await ask(read_usage("all", "", "9999"))
        assert (row.calls, row.prompt + row.completion) == (40, 40 * call_tokens)
    assert rows(tmp_path, "SELECT * FROM reservations") == []


async def test_a_call_that_is_cut_off_counts_as_reserved(tmp_path: Path, autojump_clock: MockClock) -> None:
    model = Priced(seconds=100)
    async with house(tmp_path, model, rules=tokens(100_000), now=lambda: NOON) as home:
        await home.inbox.accept("cli", "hello")
        await trio.sleep(5)
        assert len(rows(tmp_path, "SELECT key FROM reservations")) == 1
        assert await home.ask("/stop") == "⏹ Stopped."
        await trio.sleep(5)
        assert rows(tmp_path, "SELECT key FROM reservations") == []
        assert rows(tmp_path, "SELECT calls, completion, estimated FROM usage") == [(1, 90, 1)]


def test_what_a_killed_process_reserved_is_settled_by_its_reservation_once(tmp_path: Path) -> None:
    account = Account("cli", "local")
    bounds = (Bound(TOKENS, "2026-11-23", "2026-11-23"),)
    store = Store(tmp_path / "state.db", lambda: NOON)
    reserve = reserve_call("k", account, MODEL, "2026-11-23", 100, 200, 500, True, bounds)
    assert store.run([reserve]) == [None]
    assert store.has_reservations()
    store.close()
    store = Store(tmp_path / "state.db", lambda: NOON)
    late = settle_call(
        "k", account, (UsageRow("2026-11-23", "local", "cli", model=MODEL, calls=1, prompt=9),)
    )
    assert store.run([settle_left(), late, settle_left()]) == [1, (), 0]
    ((row,),) = store.run([read_usage("all", "", "9999")])  # type: ignore[misc]
    assert (row.calls, row.prompt, row.completion, row.nano, row.estimated) == (1, 100, 200, 500, 1)
    store.close()


async def test_the_next_start_settles_what_a_killed_process_left(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    store = Store(tmp_path / "state.db", lambda: NOON)
    reserve = reserve_call("k", Account("cli", "local"), MODEL, "2026-11-23", 100, 200, 500, True, ())
    store.run([reserve])
    store.close()
    async with house(tmp_path, Priced(), rules=tokens(100_000), now=lambda: NOON) as home:
        assert "answer" in await home.ask("hello")
    assert rows(tmp_path, "SELECT * FROM reservations") == []
    assert rows(tmp_path, "SELECT sum(calls) FROM usage") == [(2,)]


def test_a_reservation_is_settled_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "state.db", lambda: NOON)
    account, day = Account("cli", "local"), "2026-11-23"
    row = UsageRow(day, "local", "cli", model=MODEL, calls=1, prompt=10, completion=5)
    store.run([reserve_call("k", account, MODEL, day, 100, 200, 0, False, ())])
    store.run([settle_call("k", account, (row,)), settle_call("k", account, (row,))])
    store.run([settle_call("k", account, None)])
    ((found,),) = store.run([read_usage("all", "", "9999")])  # type: ignore[misc]
    assert (found.calls, found.prompt, found.completion) == (1, 10, 5)
    store.close()


async def test_a_spent_budget_ends_the_turn_with_a_sentence_and_a_grant_goes_on(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    model = Priced(Usage(800, 400))
    async with house(tmp_path, model, rules=tokens(1200), now=lambda: NOON) as home:
        with home.services.hub.listening("cli") as events:
            first = await home.ask("one")
            assert first.startswith(
                "answer\n\n⚠️ 100 % of this user's budget for today is used: 1,200 tokens of 1,200"
            )
            second = await home.ask("two")
            assert second.startswith(
                "⛔ This user's budget for today is used up: 1,200 tokens of 1,200 tokens is used"
            )
            assert "It is renewed on 24 November at 00:00." in second
            assert model.calls == 1
            assert (
                await home.ask("/allow 5000 tokens today")
                == "✅ The chat cli may use 5,000 tokens more today."
            )
            assert "answer" in await home.ask("three")
            seen = [event async for event in _so_far(events)]
        assert reasons(seen) == ["complete", "budget", "complete"]
        assert [event.what.usage.nano_usd for event in seen if isinstance(event.what, Used)] == [
            1_600_000
        ] * 2
        assert await home.open_chats() == ()
        assert "Today: 2 model calls, 2,400 tokens, 0.0032 USD" in await home.ask("/usage")


async def _so_far(events: object):  # type: ignore[no-untyped-def]
    with trio.move_on_after(0.01):
        while True:
            yield await events.receive()  # type: ignore[attr-defined]


async def test_the_notice_at_80_percent_comes_once_a_period(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    time = [NOON]
    model = Priced(Usage(4000, 4100))
    async with house(tmp_path, model, rules=tokens(10_000), now=lambda: time[0]) as home:
        assert "81 %" in await home.ask("one")
    async with house(tmp_path, model, rules=tokens(10_000), now=lambda: time[0]) as home:
        model.usage = Usage(1, 1)
        assert await home.ask("two") == "answer"  # told already, in another process
        time[0] += 86_400
        model.usage = Usage(4000, 4900)
        assert "89 %" in await home.ask("three")


async def test_the_refusal_is_spanish_for_who_reads_spanish(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with house(tmp_path, Priced(), rules=tokens(10), now=lambda: NOON) as home:
        with home.services.hub.listening("cli") as events:
            number = await home.inbox.accept("cli", "hola", language="es")
            said = await reply_to(events, number)
        assert said.startswith(
            "⛔ El presupuesto de este usuario de hoy se agotó: se usó 0 tokens de 10 tokens,"
        )
        assert "Se renueva el 24 de noviembre a las 00:00." in said


async def test_a_budget_in_money_refuses_a_model_without_a_price(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    model = Priced()
    rules = Rules({}, (Limit("total", "usd", "month", 10**9),))
    async with house(tmp_path, model, rules=rules, now=lambda: NOON) as home:
        said = await home.ask("hello")
        assert '[prices."groq:tested"] input = 0.15, output = 0.60' in said
        assert model.calls == 0


async def test_without_a_budget_a_model_without_a_price_counts_in_tokens(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with house(tmp_path, Priced(), rules=Rules({}), now=lambda: NOON) as home:
        assert await home.ask("hello") == "answer"
        await trio.sleep(3)
        assert rows(tmp_path, "SELECT calls, prompt, completion, nano, unpriced FROM usage") == [
            (1, 10, 10, 0, 20)
        ]
        assert model_limit(home) is None


def model_limit(home: object) -> int | None:
    model = home.services.context.model_for("cli", "en", "")  # type: ignore[attr-defined]
    return model._steps[0].model.requests[-1].max_output_tokens  # type: ignore[no-any-return]


async def test_a_refusal_tries_no_other_model_and_each_attempt_is_settled(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    class Failing(Priced):
        async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
            self.calls += 1
            if self.calls == 1:
                raise ModelError("server", "It failed.", model=MODEL)
            if self.calls == 2:
                emit(TextDelta("half"))
                raise ModelError("unreachable", "It was cut.", model=MODEL)
            return Reply(
                "answer", (ToolCall("1", "bash", "{}"), ToolCall("2", "look", "{}")), usage=Usage(11, 4)
            )

    async with open_journal(tmp_path / "state.db") as ask:
        budgets = Budgets(ask, tokens(10_000), lambda: NOON, UTC)
        account = Account("cli", "local")
        chain = Chain([ChainStep(Failing())], chat="cli", account=account, meter=budgets)
        reply = await chain.reply(HELLO, lambda event: None)
        assert reply.usage == Usage(11, 4, 0, 19_000)
        by_tool = await ask(read_usage("tool", "", "9999"))
        assert {(row.tool, row.calls, row.tool_calls) for row in by_tool} == {
            ("", 1, 0),  # the attempt that was cut: as reserved
            ("bash", 1, 1),
            ("look", 0, 1),
        }
        assert sum(row.prompt for row in by_tool if row.tool) == 11
        spent, other = Priced(), Priced()
        few = Budgets(ask, tokens(1), lambda: NOON, UTC)
        chain = Chain([ChainStep(spent), ChainStep(other)], chat="cli", account=account, meter=few)
        with pytest.raises(ModelError, match="used up"):
            await chain.reply(HELLO, lambda event: None)
        assert spent.calls == other.calls == 0


async def test_what_is_settled_later_waits_for_the_next_write_when_one_is_cut_off(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_journal(tmp_path / "state.db") as ask:
        answers = trio.Event()

        async def slow(request: Any) -> Any:
            await answers.wait()
            return await ask(request)

        budgets = Budgets(slow, tokens(10_000), lambda: NOON, UTC)
        account = Account("cli", "local")
        for key in ("one", "two", "three"):
            assert await ask(reserve_call(key, account, MODEL, "2026-11-23", 10, 90, 0, True, ())) is None
            budgets.settle_later(account, settle_call(key, account, ()))
        with trio.move_on_after(1):
            await budgets.write(0.0)
        answers.set()
        await budgets.write()
        assert rows(tmp_path, "SELECT key FROM reservations") == []


async def test_only_admins_allow_more(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with house(tmp_path, Priced(), rules=tokens(10), now=lambda: NOON) as home:
        assert await home.ask("/allow 1 USD today", chat="tg7") == "⛔ Only an admin can allow more."
        assert "like this" in await home.ask("/allow much")
        assert "is not an amount" in await home.ask("/allow much today")
        assert "answer" not in await home.ask("hello", chat="tg7")
        assert (
            await home.ask("/allow 5000 tokens today tg7")
            == "✅ The chat tg7 may use 5,000 tokens more today."
        )
        assert "answer" in await home.ask("hello", chat="tg7")
    assert rows(tmp_path, "SELECT day, owner, chat, tokens FROM grants") == [
        ("2026-11-23", "tg7", "tg7", 5000)
    ]
    log = (tmp_path / "logs" / "audit.jsonl").read_text()
    assert [json.loads(line)["amount"] for line in log.splitlines() if "budget_allowed" in line] == [
        "5,000 tokens"
    ]


async def test_a_task_out_of_money_gives_what_it_found(tmp_path: Path, autojump_clock: MockClock) -> None:
    rules = Rules({"house": Price.per_million(1.0, 1.0), "": Price.per_million(1.0, 1.0)})
    limits = TasksSection(max_turns=100, max_usd=0.000_22)
    async with house(tmp_path, looks(1000), kinds={"web": Looking(2)}, tasks_section=limits) as home:
        name = home.services.context.model_for("cli", "en", "").name
    rules = Rules({name: Price.per_million(1.0, 1.0)}, reply_tokens=1)
    (tmp_path / "b").mkdir()
    async with house(
        tmp_path / "b", looks(1000), kinds={"web": Looking(2)}, tasks_section=limits, rules=rules
    ) as home:
        done = await home.tasks.run(TaskRecord("web", "local", "why?", "cli"), str)
        assert done.state == "out_of_budget"
        assert 220_000 <= done.spent.nano_usd <= 440_000
        assert "⚠️" in done.answer


async def test_the_usage_of_a_deleted_chat_stays_its_owners(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with house(tmp_path, Priced(), rules=tokens(10_000), now=lambda: NOON) as home:
        await home.ask("hello", chat="a")
        await home.ask("hello", chat="b")
        for chat in ("a", "b"):
            while await home.services.journal.ask(delete_chat(chat)):
                pass
    assert rows(tmp_path, "SELECT owner, chat, calls FROM usage") == [("local", "", 2)]


async def test_the_report_is_one_document(tmp_path: Path, autojump_clock: MockClock) -> None:
    rules = tokens(10_000)
    async with house(tmp_path, Priced(), rules=rules, now=lambda: NOON) as home:
        await home.ask("hello")
    async with open_journal(tmp_path / "state.db") as ask:
        found = await UsageCalls(Budgets(ask, rules, lambda: NOON, UTC), BUILT_IN).usage(TERMINAL, by="chat")
    counts = {
        "calls": 1,
        "tool_calls": 0,
        "prompt_tokens": 10,
        "cached_tokens": 0,
        "completion_tokens": 10,
        "usd": 0.00003,
        "unpriced_tokens": 0,
        "estimated_calls": 0,
    }
    assert found == {
        "from": "2026-11-01",
        "to": "2026-11-30",
        "by": "chat",
        "total": counts,
        "rows": [{"chat": "cli", **counts}],
        "budgets": [
            {
                "budget": "owner_tokens_per_day",
                "of": "local",
                "limit": 10_000,
                "granted": 0,
                "used": 20,
                "reserved": 0,
                "share": 0.002,
                "renews": "2026-11-24T00:00:00+00:00",
            }
        ],
        "prices_of": prices_source(),
    }
