"""What all views of the status dump count and walk alike, and the outline of `/status`."""

from typing import Any

from actors import DynamicSupervisor, Supervisor, TreeEvent
from rumi.agent.events import ToolFinished, TurnFinished
from rumi.agent.tool import ToolResult
from rumi.app.status import MOST_CHILDREN, outline
from rumi.channels.counters import Counts
from rumi.channels.status_dump import below, chats, figures, rows, trouble
from rumi.chats.events import ChatEvent, TurnStarted
from rumi.models.model import ToolCall, Usage
from tests.fakes.actors import House


def node(id: str, *children: dict[str, Any], **of: object) -> dict[str, Any]:
    return {"id": id, "figures": of, "children": list(children)}


def test_chats_and_figures_are_read_and_missing_actors_are_none() -> None:
    idle, busy = node("a", history=3), node("b", history=0, job="turn")
    dump = {"tree": node("rumi", node("journal", waiting=2), node("chats", idle, busy))}
    assert chats(dump) == ([idle, busy], 1)
    assert (below(dump, "tasks"), figures(dump, "budgets"), trouble(dump)) == ([], {}, "")
    assert figures(dump, "journal") == {"waiting": 2}
    assert trouble({**dump, "storage": {"trouble": "full"}}) == "full"


def test_the_rows_of_a_tree_draw_its_branches_and_name_what_they_leave_out() -> None:
    tree = node("rumi", node("a", node("x"), node("y"), node("z")), node("b"))

    def shown(item: Any) -> tuple[list[Any], str]:
        children = item["children"]
        return children[:2], "… more" if len(children) > 2 else ""

    drawn = [
        (depth, lead + (at if isinstance(at, str) else at["id"])) for depth, lead, at in rows(tree, shown)
    ]
    assert drawn == [(0, "rumi"), (1, "├ a"), (2, "│ ├ x"), (2, "│ ├ y"), (2, "│ └ … more"), (1, "└ b")]


async def test_the_outline_of_many_actors_shows_some_and_counts_the_others() -> None:
    root = Supervisor("rumi")
    house = House(root)
    house.add("journal")
    chats_of_house = root.add_supervisor(DynamicSupervisor("chats", house.spec))
    async with root.running():
        for number in range(MOST_CHILDREN + 2):
            await chats_of_house.get_or_start(f"c{number}")
        lines = outline(root.status()).splitlines()
        assert lines[:4] == ["rumi", "├ journal", "└ chats", "  ├ c0"]
        assert lines[-1] == "  └ … +2"


def test_the_latest_turns_and_restarts_are_kept_with_what_they_used() -> None:
    counts = Counts()
    call, result = ToolCall("c1", "bash", "{}"), ToolResult(True, "")
    for at, what in (
        (1.0, TurnStarted("go", 1)),
        (2.0, ToolFinished(call, result)),
        (4.5, TurnFinished("complete", "", Usage(10, 5))),
    ):
        counts.chat_happened(ChatEvent("a", "t1", at, what))
    counts.chat_happened(ChatEvent("b", "t9", 5.0, TurnFinished("complete", "")))  # begun elsewhere
    counts.tree_happened(TreeEvent("restarted", "rumi/chats/a", 2, None))
    history: Any = counts.history()
    assert history["turns"] == [
        {
            "chat": "a",
            "turn": "t1",
            "began": 1.0,
            "seconds": 3.5,
            "reason": "complete",
            "tools": 1,
            "tokens": 15,
        }
    ]
    assert [restart["path"] for restart in history["restarts"]] == ["rumi/chats/a"]
    assert (sum(history["minutes"]), len(history["minutes"])) == (1, 60)
    dump: Any = counts.dump()
    assert (dump["turns"]["complete"], dump["restarts"], dump["turn_seconds"]) == (2, {"chats": 1}, 3.5)
