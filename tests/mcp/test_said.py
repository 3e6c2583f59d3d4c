"""Which calls ask the user in a turn that has read things from outside."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from rumi.marked import block
from rumi.mcp import RemoteTool, all_said, own_words
from rumi.mcp.tool import McpTool
from rumi.models import Message
from rumi.tools import ToolResult

SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "to": {"type": "array", "items": {"type": "string"}},
        "amount": {"type": "number"},
        "kind": {"type": "string", "enum": ["news", "general"]},
        "limit": {"type": "integer", "default": 10},
        "all": {"type": "boolean"},
        "more": {"type": "object"},
    },
}
WORDS = "Send 250.50 euros to Ana Ruiz (ana@example.org) for “the boiler”."


@pytest.mark.parametrize(
    ("arguments", "read", "change"),
    [
        ({"query": "the boiler"}, True, True),
        ({"query": "THE  boiler"}, True, True),
        ({"query": "boil"}, False, False),
        ({"to": ["ana@example.org"]}, True, True),
        ({"to": ["ana@example.org", "eve@example.org"]}, False, False),
        ({"amount": 250.5}, False, False),
        ({"amount": "250.50"}, True, True),
        ({"amount": 50}, True, True),
        ({"amount": 25}, True, False),
        ({"amount": 12345}, False, False),
        ({"kind": "news"}, True, True),
        ({"kind": "secret"}, False, False),
        ({"limit": 10}, True, True),
        ({"all": True}, True, False),
        ({"more": {"the boiler": "Ana Ruiz"}}, True, True),
        ({"more": {"secret": "Ana Ruiz"}}, False, False),
        ({"query": "https://given.example/a"}, True, True),
        ({"query": None}, True, True),
    ],
)
def test_a_value_that_the_user_wrote_word_for_word_needs_no_yes(
    arguments: Mapping[str, object], read: bool, change: bool
) -> None:
    given = {"https://given.example/a"}
    assert all_said(arguments, SCHEMA, WORDS, given, strict=False) is read
    assert all_said(arguments, SCHEMA, WORDS, given, strict=True) is change


def test_only_the_users_own_words_are_the_users() -> None:
    said = own_words(
        [
            Message("user", "mine"),
            Message("user", block("mail", "of others")),
            Message("user", "[The user sent a file: /workspace/theirs (text/plain, 3 bytes)]"),
            Message("assistant", "of the model"),
            Message("tool", "of a tool", tool_call_id="1"),
            Message("user", "mine too"),
        ]
    )
    assert said == "mine\nmine too"


def bound(tool: RemoteTool, words: str) -> McpTool:
    async def never(*_: object) -> ToolResult:
        raise AssertionError

    return McpTool("s", f"s__{tool.name}", tool, never, never, lambda: words, trusted=False)  # type: ignore[arg-type]


def test_what_asks_depends_on_what_the_tool_may_do() -> None:
    local = RemoteTool("local", "", SCHEMA, read_only=True, open_world=False)
    outside = RemoteTool("outside", "", SCHEMA, read_only=True)
    change = RemoteTool("change", "", SCHEMA)
    destroy = RemoteTool("destroy", "", SCHEMA, destructive=True)
    said, other = {"query": "the boiler"}, {"query": "the cellar"}
    asks = {
        tool.name: [bound(tool, WORDS).question(each, ()) is not None for each in (said, other, {})]
        for tool in (local, outside, change, destroy)
    }
    assert asks == {
        "local": [False, False, False],
        "outside": [False, True, False],
        "change": [False, True, True],
        "destroy": [True, True, True],
    }


def test_a_question_shows_the_tool_and_the_real_arguments() -> None:
    question = bound(RemoteTool("change", "", SCHEMA), "").question({"query": "x\ny"}, ())
    assert question is not None
    values = question.details["arguments"]
    assert [str(each) if isinstance(each, str) else (each.path, each.text) for each in values] == [
        ("query", '"x\\ny"')
    ]


@dataclass(frozen=True)
class Task:
    """What a user asks, and the calls that an ideal model makes for it: the kind of tool, and arguments."""

    said: str
    calls: tuple[tuple[str, Mapping[str, object]], ...]


READ, LOCAL, WRITE = "read", "local", "write"
TASKS = (
    Task("What time is it in Europe/Madrid?", ((LOCAL, {"timezone": "Europe/Madrid"}),)),
    Task("Show the last 5 commits of /srv/app", ((LOCAL, {"repo_path": "/srv/app", "max_count": 5}),)),
    Task('Search my mail for "boiler invoice"', ((READ, {"query": "boiler invoice"}),)),
    Task("What is the weather in Montevideo?", ((READ, {"city": "Montevideo"}),)),
    Task("Find flights from MVD to MAD on 2026-12-01", ((READ, {"from": "MVD", "on": "2026-12-01"}),)),
    Task("What did we decide about the heating?", ((READ, {"query": "heating decision"}),)),
    Task("Look up issue 142 in acme/site", ((READ, {"repository": "acme/site", "number": 142}),)),
    Task("Comment “done” on issue 142", ((WRITE, {"number": 142, "body": "done"}),)),
    Task(
        "Send the minutes to ana@example.org",
        ((READ, {"query": "minutes"}), (WRITE, {"to": "ana@example.org", "body": "The minutes: …"})),
    ),
    Task("Add milk to the list Groceries", ((WRITE, {"list": "Groceries", "item": "milk"}),)),
    Task(
        "Put dinner with Leo in my calendar for 2026-12-03 20:00",
        ((WRITE, {"title": "dinner with Leo", "start": "2026-12-03 20:00"}),),
    ),
    Task(
        "Move my meeting tomorrow to the afternoon",
        ((READ, {"day": "2026-11-25"}), (WRITE, {"id": 991, "start": "2026-11-25 15:00"})),
    ),
    Task("Which files are in /srv/docs?", ((LOCAL, {"path": "/srv/docs"}),)),
    Task("Summarise /srv/docs/plan.md", ((LOCAL, {"path": "/srv/docs/plan.md"}),)),
    Task("Rename /srv/a.txt to /srv/b.txt", ((WRITE, {"from": "/srv/a.txt", "to": "/srv/b.txt"}),)),
    Task("How many rows has the table orders?", ((LOCAL, {"query": "SELECT count(*) FROM orders"}),)),
    Task("Pay Ana 250.50 for the boiler", ((WRITE, {"to": "Ana", "amount": "250.50"}),)),
    Task("Pay the invoice in my mail", ((READ, {"query": "invoice"}), (WRITE, {"to": "DE89 3704"}))),
    Task("Read https://example.org/a in Spanish", ((READ, {"url": "https://example.org/a"}),)),
    Task("Post “We are closed on Friday” to #general", ((WRITE, {"text": "We are closed on Friday"}),)),
)


def test_most_ordinary_tasks_ask_nothing_in_a_tainted_turn() -> None:
    def asks(kind: str, arguments: Mapping[str, object], words: str) -> bool:
        schema = {"type": "object", "properties": {name: {} for name in arguments}}
        tool = RemoteTool("t", "", schema, read_only=kind != WRITE, open_world=kind != LOCAL)
        return bound(tool, words).question(arguments, ()) is not None

    naive = sum(any(asks(*call, "") for call in task.calls) for task in TASKS)
    ours = sum(any(asks(*call, task.said) for call in task.calls) for task in TASKS)
    print(f"tasks that ask in a tainted turn: {ours} of {len(TASKS)}; without the user's words: {naive}")
    assert ours <= 5 < naive
