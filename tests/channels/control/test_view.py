"""The status tree as a person reads it."""

import io
from typing import Any

import pytest
from rich.console import Console

from rumi.channels.attach.activity_text import duration
from rumi.channels.attach.status_view import StatusFilter, chats_of, render, render_workers
from rumi.texts import Language


def item(id: str, *children: dict[str, Any], **changes: object) -> dict[str, Any]:
    return {
        "id": id, "kind": "actor", "state": "running", "incarnation": 1, "restarts": 0,
        "mailbox": {"depth": 0, "capacity": 64}, "dead_letters": 0, "doing": "", "age_s": 1.0,
        "last_error": None, "figures": {}, "children": list(children), **changes,
    }  # fmt: skip


def chat(id: str, **job: Any) -> dict[str, Any]:
    """A chat's actor; with `age_s` in a turn, with `tool` in a tool call as old as that."""
    metrics: dict[str, Any] = {"history": 3, "session": 1, "tainted": False, "container": None}
    if job:
        tools = [{"name": "bash", "what": job["tool"], "age_s": job["age_s"]}] if "tool" in job else []
        metrics |= {"job": "turn", "turn": "t7", "phase": "thinking", "question": False, "tools": tools}
        metrics |= {"age_s": job["age_s"], "queued": job.get("queued", 0)}
    return item(id, figures=metrics, doing="turn" if job else "")


def shown(tree: dict[str, Any], width: int = 80, choice: StatusFilter | None = None, **more: Any) -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    status = {
        "program": "1", "pid": 7, "uptime_s": 61, "model": "offline",
        "sandbox": {"engine": "bubblewrap", "degraded": ["no bound on memory"]}, "tree": tree,
        "databases": {"state.db": 152_448}, "outbox": 2, "failed": {}, **more,
    }  # fmt: skip
    console.print(render(status, choice))
    console.file.close()
    return console.export_text()


def test_the_tree_fits_into_eighty_columns_and_names_what_each_actor_does() -> None:
    long = "turn t3: bash " + "x" * 200
    text = shown(item("rumi", item("journal"), item("chats", item("a" * 64, doing=long), item("b"))))
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "turn t3: bash" in text
    assert "degraded: no bound on memory" in text
    assert "├ journal" in text
    assert "  └ b" in text


def test_what_one_actor_does_takes_no_room_from_names_and_states() -> None:
    text = shown(item("rumi", item("sandbox:tg123456", doing="x" * 200), item("sender", state="restarting")))
    assert "├ sandbox:tg123456 running " in text
    assert "└ sender           restarting " in text
    assert "…" in text


def test_restarts_mail_and_errors_are_shown_where_there_are_any() -> None:
    text = shown(item("rumi", restarts=3, last_error="ValueError: no", mailbox={"depth": 9, "capacity": 64}))
    row = text.splitlines()[-1]
    assert "3" in row
    assert "9" in row
    assert "ValueError: no" in row


@pytest.mark.parametrize(
    ("language", "works", "waits"),
    [
        ("en", "web of tg7 · running · 3 calls · 1 min 5 s · note tea", "repo of local · queued"),
        ("es", "web de tg7 · en curso · 3 llamadas · 1 min 5 s · note tea", "repo de local · en cola"),
    ],
)
def test_a_task_says_whose_it_is_what_it_has_spent_and_its_last_step(
    language: Language, works: str, waits: str
) -> None:
    first = {
        "kind": "web",
        "owner": "tg7",
        "state": "running",
        "calls": 3,
        "seconds": 65.2,
        "step": "note tea",
    }
    second = {"kind": "repo", "owner": "local", "state": "queued", "calls": 0, "seconds": 0.0, "step": ""}
    rows = [item(str(id), figures=figures, doing="busy") for id, figures in enumerate((first, second))]
    text = shown(item("rumi", item("tasks", *rows)), 120, StatusFilter(language=language))
    first_row, second_row = text.splitlines()[-2:]
    assert first_row.rstrip().endswith(f"  {works}")
    assert second_row.rstrip().endswith(f"  {waits}")


def house(*chats: dict[str, Any]) -> dict[str, Any]:
    return item("rumi", item("chats", *chats, kind="dynamic_supervisor"), kind="supervisor")


def test_of_many_chats_those_at_work_are_shown_the_slowest_first_and_the_others_counted() -> None:
    idle = [chat(f"idle{number}") for number in range(150)]
    busy = [chat(f"tg{number}", age_s=2.0 + number / 100) for number in range(50)]
    hangs = chat("tg666", age_s=754.0, tool="sleep 600; echo " + "x" * 100)
    lines = shown(house(*idle, *busy, hangs)).splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert len(lines) < 40
    row = next(place for place, line in enumerate(lines) if "chats" in line and "running" in line) + 1
    assert "├ tg666" in lines[row]
    assert "12 min 34 s in bash sleep 600" in lines[row]
    assert "└ … 21 more, 150 idle" in lines[-1]
    assert "201 chats, 51 in turns" in lines[1]


def test_a_chat_that_gave_up_is_marked_also_where_it_is_in_memory_no_more() -> None:
    failed = {"tg1": {"time": 0.0, "error": "ValueError: no"}, "tg2": {"time": 0.0, "error": "OSError: disk"}}
    lines = shown(house(chat("tg1"), chat("tg3")), failed=failed).splitlines()
    assert any("tg1" in line and "failed" in line and "gave up: ValueError: no" in line for line in lines)
    assert lines[-1] == "tg2 failed: OSError: disk"


def test_the_selected_chat_is_shown_and_the_order_is_the_persons() -> None:
    chats = [chat(f"c{number:02}") for number in range(20)] + [chat("z", age_s=1.0), chat("y", age_s=9.0)]
    status = {"tree": house(*chats)}
    assert [shown_chat["id"] for shown_chat in chats_of(status, StatusFilter())] == ["y", "z"]
    assert [shown_chat["id"] for shown_chat in chats_of(status, StatusFilter("name", selected="c07"))] == [
        "c07",
        "y",
        "z",
    ]


def test_where_there_is_little_room_chats_and_trouble_stay_and_the_selected_one_is_in_sight() -> None:
    chats = [chat(f"c{number:02}", age_s=60.0 - number) for number in range(20)]
    containers = item("sandboxes", item("sandbox:c01", doing="running sleep"), kind="dynamic_supervisor")
    ill = item("poller", restarts=2)
    tree = item(
        "rumi", item("journal"), containers, item("chats", *chats, kind="dynamic_supervisor"), ill,
        kind="supervisor",
    )  # fmt: skip
    lines = shown(tree, choice=StatusFilter(terse=True, many=3, most=3, selected="c07")).splitlines()[4:]
    assert [line.split(" running")[0].strip("│├└ ") for line in lines] == [
        "rumi", "chats", "c05", "c06", "c07", "… 17 more", "poller", "… 2 at rest",
    ]  # fmt: skip


def test_what_is_left_of_a_models_budget_is_told() -> None:
    budget = {"limit": 8000, "remaining": 420.0, "full_in_s": 55.0}
    models = {"gpt": {"running": 1, "cool_down_s": 0.0, "requests": None, "tokens": budget}}
    text = shown(item("rumi", item("models", doing="1 running", figures={"models": models})), 100)
    assert "1 running · gpt 420/8000 tokens" in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (42, "42 s"),
        (185, "3 min 5 s"),
        (120, "2 min"),
        (7800, "2 h 10 min"),
        (349_200, "4 d 1 h"),
    ],
)
def test_durations_are_told_in_their_largest_two_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_what_waits_for_a_turn_stands_before_what_the_turn_does() -> None:
    text = shown(house(chat("a", age_s=3.0, queued=2), chat("b", age_s=5.0, tool="x" * 200, queued=1)))
    assert "2 queued · t7 thinking · 3 s" in text
    assert "1 queued · 5 s in bash xxx" in text
    assert "0 queued" not in shown(house(chat("a", age_s=3.0)))
    spanish = shown(house(chat("a", age_s=3.0, queued=2)), choice=StatusFilter(language="es"))
    assert "2 en cola · t7" in spanish


def test_the_workers_stand_in_a_table_with_what_none_of_them_serves() -> None:
    worker = {
        "name": "box-1", "version": "0.1.0", "address": "10.0.0.5:7410", "state": "running",
        "partitions": 128, "turns": 3, "queued": 4, "undelivered": 5, "lease_left_s": 14.2,
        "lag_s": 0.8, "trouble": "away",
    }  # fmt: skip
    ended = {**worker, "name": "box-2", "state": "ended", "turns": None, "lag_s": None, "trouble": None}
    found = {"workers": [worker, ended], "unserved": {"queued": 7, "undelivered": 0}}
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(render_workers(found))
    said = console.export_text()
    assert ["box-1", "0.1.0", "running", "128", "3", "4", "5", "14", "s", "1", "s"] in [
        line.split() for line in said.splitlines()
    ]
    assert "box-1: the database does not answer" in said
    assert "no worker serves: 7 queued, 0 undelivered" in said
    spanish = Console(width=100, record=True, file=io.StringIO())
    spanish.print(render_workers(found, "es"))
    assert "nadie atiende: 7 en cola, 0 sin entregar" in spanish.export_text()
