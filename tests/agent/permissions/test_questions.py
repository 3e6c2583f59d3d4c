"""What people see before they say yes: every value of the call, in every kind of question, on every channel.

`unseen` reads what a channel shows and names the values that nobody could see. The planted faults are ways in
which questions were cut, summed up or left out.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from html import unescape
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rumi.agent.events import ConfirmationAsked
from rumi.agent.mcp.described import values_of
from rumi.agent.mcp.messages import RemoteTool
from rumi.agent.permissions.parking import MOST_CALL_CHARS, ParkedCalls
from rumi.agent.tool import Question
from rumi.agent.tools.forget import ForgetTool
from rumi.agent.tools.remember import RememberTool
from rumi.agent.tools.send_file import SendFile
from rumi.agent.tools.web_fetch import WebFetch
from rumi.channels.page.rendering.blocks import to_html
from rumi.channels.page.transcript import Transcript
from rumi.channels.telegram.formatting.reply import format_reply
from rumi.channels.telegram.formatting.spans import LIMIT_UNITS, units
from rumi.channels.telegram.sending.questions import VERDICT_UNITS, question_file, question_part
from rumi.channels.terminal.jsonl import JsonView
from rumi.channels.terminal.live import LiveView
from rumi.channels.terminal.paint import Painter
from rumi.channels.terminal.plain import PlainView
from rumi.channels.terminal.words import Reader
from rumi.chats.events import ChatEvent, TurnStarted, from_json, to_json
from rumi.platform.texts import bots as bot_texts
from rumi.platform.texts import parked as parked_texts
from rumi.platform.texts import questions as question_texts
from rumi.platform.texts.questions import Detail, QuestionText, Value
from rumi.tasks.bots.bots import StartBot
from rumi.tasks.bots.plans import ProposePlan
from rumi.tasks.bots.tools import WriteSkill
from rumi.tasks.research.tool import RepositoryTool, ResearchTool
from rumi.tasks.schedules.tools import CancelScheduleTool, RemindTool, ScheduleTool
from rumi.texts import Language
from tests.channels.terminal.scripted import Page
from tests.channels.terminal.test_live import Sheet

LONG = "word " * 1_999 + "END"
READER = Reader("en")
ANY: Any = None

HOSTS = [{"host": f"{'sub.' * 40}n{number}.example", "count": 1000} for number in range(9)]
MAIL = {
    "body": LONG,
    "subject": "Hello",
    "to": ["ana@example.org", *(f"leo{number}@example.org" for number in range(60)), "eve@evil.example"],
    "options": {"reply_to": "mallory@evil.example", "note": LONG, "x": {"bcc": [["hidden@evil.example"]]}},
}


def _mcp(arguments: Mapping[str, object]) -> Question:
    tool = RemoteTool(
        "send", "Sends.", {"type": "object", "properties": {"body": {}, "subject": {}, "to": {}}}
    )
    return Question("mcp", {"tool": "mail__send", "arguments": values_of(arguments, tool.parameters)})


def _made(tool: Any, **arguments: object) -> Question:
    question = tool.question(arguments, ())
    assert isinstance(question, Question)
    return question


def _bare(kind: type[Any], **fields: object) -> Any:
    tool = object.__new__(kind)
    for name, value in fields.items():
        setattr(tool, name, value)
    return tool


KINDS: dict[str, tuple[Callable[[], Question], tuple[str, ...]]] = {
    "mcp": (
        lambda: _mcp(MAIL),
        ("eve@evil.example", "mallory@evil.example", "hidden@evil.example", "END", "leo31@"),
    ),
    "web_fetch": (
        lambda: _made(WebFetch(ANY), url=f"https://a.example/?q={'x' * 8000}END"),
        ("END", "a.example"),
    ),
    "remember": (
        lambda: _made(_bare(RememberTool), key="boss", value="Eve END", also=True),
        ("boss", "END", "true"),
    ),
    "forget": (lambda: _made(_bare(ForgetTool), key="boss"), ("boss",)),
    "send_file": (
        lambda: _made(_bare(SendFile, _shows=False), path=f"/workspace/{'d/' * 2000}END"),
        ("END",),
    ),
    "remind": (lambda: _made(_bare(RemindTool), text=LONG, in_minutes=5), ("END", "5")),
    "schedule": (
        lambda: _made(
            _bare(ScheduleTool),
            prompt=LONG,
            cron="0 9 * * 1",
            research=True,
            if_changed=f"https://watched.example/{'y' * 900}LAST",
        ),
        ("END", "0 9 * * 1", "true", "https://watched.example/", "LAST"),
    ),
    "unschedule": (lambda: _made(_bare(CancelScheduleTool), id=77), ("77",)),
    "research": (
        lambda: _made(
            _bare(ResearchTool),
            question=LONG,
            urls=[f"https://{n}.example/{'y' * 900}END" for n in range(9)],
            background=True,
        ),
        ("END", "https://8.example/", "true"),
    ),
    "research_repo": (
        lambda: _made(_bare(RepositoryTool), question=LONG, uri="https://git.example/a", ref="evil"),
        ("END", "https://git.example/a", "evil"),
    ),
    "start_bot": (lambda: _made(_bare(StartBot), name="watcher", goal=LONG), ("watcher", "END")),
    "write_skill": (
        lambda: _made(WriteSkill(ANY), name="tidy", description="About END", text=LONG), ("tidy", "END")
    ),
    "propose_plan": (
        lambda: _made(
            ProposePlan("tg5"), steps=[f"{'s' * 150} {number} END" for number in range(20)], fetches=HOSTS,
            model_calls=70, usd=3, hours=5,
        ),
        (HOSTS[7]["host"] + ": 1000", HOSTS[8]["host"] + ": 1000", "19 END", "tg5", "70"),
    ),
}  # fmt: skip


# The channels: each returns all that a person can read before they answer


def _telegram(asks: QuestionText) -> str:
    asked = ConfirmationAsked("q", asks.text, asks.whole)
    message = question_part(asked.text, "en").text
    assert units(message) <= LIMIT_UNITS - VERDICT_UNITS
    return f"{message}\n{question_file(asked).decode()}"


def _page(asks: QuestionText) -> str:
    transcript = Transcript()
    for what in (TurnStarted("hi", 1), ConfirmationAsked("q", asks.text, asks.whole)):
        transcript.happened(ChatEvent("web", "t1", 1.0, what))
    (part,) = transcript.entries["t1"].parts
    return f"{part.data['text']}\n{part.data['whole']}"


def _plain(asks: QuestionText) -> str:
    output, errors = Page(), Page()
    _tell(PlainView(output, errors, READER), asks)
    return errors.text


def _live(asks: QuestionText) -> str:
    sheet = Sheet(columns=20_000)
    _tell(LiveView(sheet, Painter({"TERM": "dumb"}), READER), asks)
    return "\n".join(sheet.printed)


def _json(asks: QuestionText) -> str:
    output = Page()
    _tell(JsonView(output, Page(), READER), asks)
    event = json.loads(output.text)
    return f"{event['text']}\n{event.get('whole', '')}"


def _window(asks: QuestionText) -> str:
    """Over the control socket, to the terminal of another process."""
    asked = ConfirmationAsked("q", asks.text, asks.whole)
    event = from_json(json.loads(json.dumps(to_json(ChatEvent("cli", "t1", 1.0, asked)))))
    assert isinstance(event.what, ConfirmationAsked)
    return _plain(QuestionText(event.what.text, event.what.whole))


def _tell(view: Any, asks: QuestionText) -> None:
    async def tell() -> None:
        await view.event(ChatEvent("cli", "t1", 1.0, ConfirmationAsked("q", asks.text, asks.whole)))

    trio.run(tell)


Channel = Callable[[QuestionText], str]
CHANNELS: dict[str, Channel] = {
    "telegram": _telegram, "page": _page, "plain": _plain, "live": _live, "json": _json, "window": _window,
}  # fmt: skip


def unseen(question: Question, shown: str) -> list[str]:
    """Return the values of a question that the shown text does not have, whole and on one line."""
    missing = []
    for name, value in question.details.items():
        values: Sequence[Value] = (Value(name, value),) if isinstance(value, str) else value
        for shown_value in values:
            whole = question_texts.visible(shown_value.text)
            if not re.search(rf"(?m): {re.escape(whole)}$", shown):
                missing.append(f"{name} {shown_value.path}: {whole[:40]}")
    return missing


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("language", ["es", "en"])
def test_every_value_is_seen_on_every_channel(kind: str, channel: str, language: Language) -> None:
    made, marks = KINDS[kind]
    question = made()
    shown = CHANNELS[channel](question_texts.question(language, question.action, question.details))
    assert unseen(question, shown) == []
    for mark in marks:
        assert mark in shown


def _as_it_was_cut(asks: QuestionText) -> QuestionText:
    lines = [line if len(line) < 1500 else f"{line[:1500]}… (and more)" for line in asks.text.split("\n")]
    return QuestionText("\n".join(lines))


def _summed_up(asks: QuestionText) -> QuestionText:
    lines = asks.text.split("\n")
    return QuestionText("\n".join([*lines[:9], f"… and {len(lines) - 9} more"]))


PLANTED: dict[str, Callable[[QuestionText], QuestionText]] = {
    "the rest of a value is cut": _as_it_was_cut,
    "the whole question is not shown": lambda asks: replace(asks, whole=""),
    "lines are summed up": _summed_up,
    "the end is left out": lambda asks: QuestionText(asks.text.rpartition("\n")[0]),
}


@pytest.mark.parametrize("planted", PLANTED)
@pytest.mark.parametrize("channel", CHANNELS)
def test_the_check_finds_each_planted_fault(planted: str, channel: str) -> None:
    question = _mcp(MAIL)
    asks = PLANTED[planted](question_texts.question("en", question.action, question.details))
    assert unseen(question, CHANNELS[channel](asks))


# What a question looks like


def test_destinations_come_first_and_long_content_shows_head_length_and_tail() -> None:
    question = _mcp(
        {"body": LONG, "subject": "Hi", "to": "ana@example.org", "opts": {"cc": ["leo@example.org"]}}
    )
    first, *lines = question_texts.question(
        "en", question.action, question.details, tainted=False
    ).text.split("\n")
    assert first == "May I call this tool of another program?"
    assert lines[:4] == [
        "  tool: mail__send",
        "  arguments:",
        '    to: "ana@example.org"',
        '    opts.cc[1]: "leo@example.org"',
    ]
    body = next(line for line in lines if line.strip().startswith("body"))
    assert body.startswith('    body: "word word')
    assert "… (9,400 of 10,000 characters) …" in body
    assert body.endswith('word END"')
    assert len(body) < 700


@pytest.mark.parametrize("name", ["to", "url", "path", "account", "recipients", "unknown_name"])
def test_a_destination_is_never_shortened(name: str) -> None:
    question = _mcp({"body": LONG, name: f"{'x' * 9000}evil"})
    text = question_texts.question("en", question.action, question.details).text
    assert f'{name}: "{"x" * 9000}evil"' in text


@pytest.mark.parametrize(
    "hidden",
    ["\u202e", "\u200b", "\u2066", "\x1b", "\r", "\n", "\u3164", "\ufe01", "\U000e0041", "\u00ad", "\x9b"],
)
@pytest.mark.parametrize("place", ["key", "value"])
def test_what_hides_or_moves_is_made_visible(hidden: str, place: str) -> None:
    arguments = {f"to{hidden}": "x"} if place == "key" else {"to": f"a{hidden}b"}
    mcp = _mcp(arguments)
    own = Question("remember", {"key": "k", "value": f"a{hidden}b"})
    for question, lines in ((mcp, 4), (own, 3)):
        asks = question_texts.question("en", question.action, question.details)
        assert asks.text.count("\n") == lines - 1
        for channel in CHANNELS.values():
            shown = channel(asks)
            assert hidden == "\n" or hidden not in shown
            assert "\\" in shown


def test_a_value_cannot_look_like_another_argument() -> None:
    question = _mcp({"body": 'hi"\n    to: "friend@example.org', "to": "eve@evil.example"})
    lines = question_texts.question("en", question.action, question.details).text.split("\n")
    assert [line for line in lines if line.startswith("    to:")] == ['    to: "eve@evil.example"']


# Where nobody is there, and where it is too much


async def _parked(calls: ParkedCalls, question: Question, call: str) -> str:
    asks = question_texts.question("en", question.action, question.details)
    return await calls.park(call, asks.whole or asks.text)


async def test_a_parked_call_is_asked_about_whole_or_refused_with_the_reason(
    autojump_clock: MockClock,
) -> None:
    async def keep(parked: object) -> None:
        await trio.lowlevel.checkpoint()

    calls = ParkedCalls((), keep)
    question = _mcp({"body": LONG, "to": "eve@evil.example"})
    assert "not done yet" in await _parked(calls, question, f"mail__send {LONG}")
    ((number, text),) = calls.to_ask()
    reply = parked_texts.chat_needs_yes("en", [(number, text)])
    assert unseen(question, reply) == []
    refused = await _parked(calls, question, "x" * (MOST_CALL_CHARS + 1))
    assert f"more than {MOST_CALL_CHARS} characters" in refused
    for number in range(5):
        said = await _parked(calls, question, f"mail__send {number} {LONG}")
    assert "too much waits" in said
    assert sum(len(text) for _, text in calls.waiting()) < 60_000


@pytest.mark.parametrize(
    "value",
    ["[ana@example.org](https://evil.example/x)", "*a* `b` ~~c~~ ![d](e)", "```", "<!-- x --> <b>", "|a|b|"],
)
def test_no_formatting_hides_a_value_of_a_parked_call(value: str) -> None:
    question = Question("remember", {"key": value, "value": f"{value} end"})
    text = question_texts.question("en", question.action, question.details).text
    for reply in (
        parked_texts.chat_needs_yes("en", [(1, text)]),
        bot_texts.bot_unanswered("en", "Done.", [(1, text)]),
    ):
        assert unseen(question, "\n".join(part.text for part in format_reply(reply))) == []
        lines = re.sub("</?(?:li|ol|p|pre)[^>]*>", "\n", to_html(reply))
        assert unseen(question, unescape(re.sub("<[^>]*>", "", lines))) == []


def test_a_detail_that_has_no_values_is_still_a_line() -> None:
    details: dict[str, Detail] = {"hosts": ()}
    assert question_texts.question("en", "propose_plan", details).text.endswith(
        "hosts, and how often at most: -"
    )
