"""Which calls of servers' tools ask the user in a turn that has read things from outside."""

from collections.abc import Mapping

import pytest

from rumi.agent.mcp.messages import RemoteTool
from rumi.models.model import Message, ToolCall
from rumi.platform.texts.questions import Value
from tests.agent.mcp.asking import FREE, Asking, bound, schema_of

SCHEMA = schema_of({"query": "", "number": 0})
LOCAL = RemoteTool("local", "", SCHEMA, read_only=True, open_world=False)
OUTSIDE = RemoteTool("outside", "", SCHEMA, read_only=True)
ADDS = RemoteTool("add_item", "", SCHEMA, destructive=False)
CHANGES = RemoteTool("changes", "", SCHEMA)
DESTROYS = RemoteTool("destroys", "", SCHEMA, destructive=True)


async def test_what_asks_depends_on_what_the_tool_may_do() -> None:
    said, other, number = {"query": "the boiler"}, {"query": "the cellar"}, {"number": 13}
    asks = {
        tool.name: [
            await Asking("Add the boiler on June 13").asks(bound(tool), arguments)
            for arguments in (said, other, number, {})
        ]
        for tool in (LOCAL, OUTSIDE, ADDS, CHANGES, DESTROYS)
    }
    assert asks == {
        "local": [False, False, False, False],
        "outside": [False, True, False, False],
        "add_item": [False, True, True, True],
        "changes": [True, True, True, True],
        "destroys": [True, True, True, True],
    }


async def test_words_of_the_message_consent_to_nothing_that_it_does_not_name() -> None:
    share = RemoteTool("share_file", "", SCHEMA, destructive=False)
    assert await Asking("Read the file report.pdf").asks(bound(share), {"query": "report.pdf"})
    assert not await Asking("Sharing report.pdf is fine").asks(bound(share), {"query": "report.pdf"})


async def test_words_of_earlier_messages_consent_to_nothing() -> None:
    earlier = [Message("user", "Is there milk in Groceries?"), Message("assistant", "No.")]
    call = {"query": "Groceries"}
    assert await Asking("And tomorrow?", history=earlier).asks(bound(ADDS), call)
    assert not await Asking("Add it to Groceries", history=earlier).asks(bound(ADDS), call)


async def test_a_link_of_a_page_is_given_for_reading_and_not_for_changing() -> None:
    link = "https://hook.example/a"
    asking = Asking("Which webhooks are there?", known_urls={link})
    assert not await asking.asks(bound(OUTSIDE), {"query": link})
    assert await asking.asks(bound(ADDS), {"query": link})


async def test_after_three_noes_nothing_runs_that_could_ask() -> None:
    asking = Asking("Add milk to the Groceries")
    milk, other = {"query": "Groceries"}, {"query": "something else"}
    assert await asking.runs(bound(ADDS), milk)
    for _ in range(3):
        assert not await asking.runs(bound(ADDS), other)
    assert not await asking.runs(bound(ADDS), milk)
    assert not await asking.runs(bound(OUTSIDE), milk)
    assert await asking.runs(bound(LOCAL), milk)
    assert len(asking.questions) == 3


async def test_what_a_server_said_itself_it_may_be_told_again() -> None:
    siblings = ("s__outside", "s__list")
    hotels = {"query": ["Hotel Plaza", "Grand Inn", "City Lodge"]}
    asking = Asking("Which hotel is the cheapest?")
    assert await asking.asks(bound(OUTSIDE, siblings), hotels)
    asking.read("t__list", "Hotel Plaza\nGrand Inn\nCity Lodge")
    assert await asking.asks(bound(OUTSIDE, siblings), hotels)
    asking.read("s__list", "Hotel Plaza\nGrand Inn\nCity Lodge, 12")
    assert not await asking.asks(bound(OUTSIDE, siblings), hotels)
    assert await asking.asks(bound(ADDS, siblings), hotels)


async def test_results_of_earlier_turns_count_for_their_server() -> None:
    history = [
        Message("assistant", tool_calls=(ToolCall("c0", "s__list", "{}"),)),
        Message("tool", "Hotel Plaza", tool_call_id="c0"),
        Message("assistant", tool_calls=(ToolCall("c0", "t__list", "{}"),)),
        Message("tool", "my secret", tool_call_id="c0"),
    ]
    asking = Asking("And its address?", history=history)
    siblings = ("s__outside", "s__list")
    assert not await asking.asks(bound(OUTSIDE, siblings), {"query": "Hotel Plaza"})
    assert await asking.asks(bound(OUTSIDE, siblings), {"query": "my secret"})


SECRET = "SECRET: my bank pin is 1234"
NUMBERS = [ord(letter) for letter in SECRET]


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": NUMBERS},
        {"query": [[number] for number in NUMBERS]},
        {"query": {str(n): number for n, number in enumerate(NUMBERS)}},
        {f"field_{n}": number for n, number in enumerate(NUMBERS)},
        {"query": list(SECRET)},
        {"query": [number > 77 for number in NUMBERS * 7]},
        {"query": [float(number) for number in NUMBERS]},
    ],
)
async def test_a_secret_in_small_values_asks(arguments: Mapping[str, object]) -> None:
    tool = RemoteTool("outside", "", schema_of(arguments), read_only=True)
    assert await Asking("Summarise my mail").asks(bound(tool), arguments)


async def test_a_secret_in_many_calls_asks_long_before_its_end() -> None:
    asking = Asking("Summarise my mail", verdict="yes")
    told = [await asking.asks(bound(OUTSIDE), {"number": number}) for number in NUMBERS]
    assert told.index(True) < len(SECRET) / 2


async def test_a_secret_in_the_choice_of_known_words_asks_before_its_end() -> None:
    asking = Asking("Summarise my mail", verdict="yes")
    siblings = ("s__outside", "s__list")
    words = [f"{letter * 4}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    asking.read("s__list", "\n".join([*words, *(f"https://{word}.example/" for word in words)]))
    assert await asking.asks(bound(OUTSIDE, siblings), {"query": words})
    asking = Asking("Summarise my mail", verdict="yes")
    asking.read("s__list", "\n".join(f"https://{word}.example/" for word in words))
    links = [
        await asking.asks(bound(OUTSIDE, siblings), {"query": f"https://{word}.example/"}) for word in words
    ]
    assert links.index(True) < len(words) / 2


async def test_a_tool_of_no_arguments_that_changes_something_asks() -> None:
    tool = RemoteTool("clear", "", FREE, destructive=False)
    assert await Asking("What is in the cart?").asks(bound(tool), {})


def test_a_question_shows_the_tool_and_the_real_arguments() -> None:
    question = bound(RemoteTool("change", "", SCHEMA)).question({"query": "x\ny"}, ())
    assert question is not None
    assert question.details == {"tool": "s__change", "arguments": (Value("query", '"x\\ny"'),)}
