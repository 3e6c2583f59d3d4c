"""The conversation of the page: in Chromium as a person uses it, and what the socket sends of it."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from rumi.agent.events import ToolFinished, ToolOutput, ToolProgress, ToolStarted, TurnFinished
from rumi.agent.tool import ToolResult
from rumi.channels.page.socket import SocketView, shapes
from rumi.channels.page.stored import entries_of
from rumi.channels.page.transcript import Transcript
from rumi.chats.events import ChatEvent, Happening, TurnStarted
from rumi.models.model import TextDelta, ToolCall
from rumi.store.journal.transcript import read_transcript
from tests.channels.page.axe import violations_in_both_schemes
from tests.channels.page.served import ELSEWHERE, Served, obeys
from tests.fakes.groq_replies import Answer, Behaviour, Body, answered_calls, last_user_text

ANSWER = """# What I found

A *word*, a `path`, and $x^2$.

| Supplier | Sum |
|---|--:|
| Water | 184.20 |

> A quote

<details><summary>More</summary>

Hidden.

</details>

A claim[^1].

[^1]: Its source.
"""


def works(body: Body) -> Behaviour:
    """`work` makes five calls; `code N` shows N lines of Python, slowly."""
    word, _, rest = last_user_text(body).partition(" ")
    if word == "work":
        calls = [
            ("bash", {"command": "echo one"}),
            ("bash", {"command": "echo two"}),
            ("write_file", {"path": "a.txt", "content": "one\ntwo\n"}),
            ("bash", {"command": "echo three"}),
            ("edit_file", {"path": "none.txt", "old": "x", "new": "y"}),
        ]
        if len(done := answered_calls(body)) < len(calls):
            name, arguments = calls[len(done)]
            return Answer(calls=[(name, json.dumps(arguments))])
        return Answer(ANSWER, pieces=10)
    if word == "code":
        lines = "".join(f"value_{n} = compute({n})  # line {n}\n" for n in range(int(rest)))
        return Answer(
            f"Here *it* is:\n\n```python\n{lines}```\n\nThat is *all* of it.", pieces=40, pause_s=0.05
        )
    return obeys(body)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("talk") / "home", model=works) as served:
        yield served


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    """A window that has just come in. The page may complain of nothing."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    complaints = list[str]()
    context.on("weberror", lambda error: complaints.append(str(error.error)))
    context.on("console", lambda said: complaints.extend([said.text] * (said.type == "error")))
    page = context.new_page()
    page.goto(served.new_link())
    expect(page.locator("body[data-state=live]")).to_have_count(1)
    yield page
    context.close()
    assert complaints == []


def enter(page: Page, served: Served, chat: str) -> None:
    page.goto(f"{served.url}/?chat={chat}")
    expect(page.locator("body[data-state=live]")).to_have_count(1)


def say(page: Page, text: str) -> None:
    page.fill("#message", text)
    page.press("#message", "Enter")


@pytest.mark.browser
def test_a_turn_is_read_folded_copied_edited_and_taken_back(page: Page, served: Served) -> None:
    enter(page, served, "acts")
    say(page, "work")
    answer = page.locator(".entry.answer.done").last
    expect(answer.locator(".many > summary")).to_contain_text("5 steps")
    expect(answer.locator("h3, h4").first).to_have_text("What I found")
    expect(answer.locator("math")).to_be_visible()
    assert violations_in_both_schemes(page) == []

    answer.get_by_role("button", name="Copy as Markdown").click()
    assert page.evaluate("navigator.clipboard.readText()").startswith("# What I found")
    answer.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Details").click()
    expect(page.locator("dialog dl")).to_contain_text("model calls")
    page.keyboard.press("Escape")

    answer.get_by_role("button", name="Undo").click()
    expect(page.locator("dialog .effects")).to_contain_text("a.txt")
    page.locator("dialog").get_by_role("button", name="Undo").click()
    expect(page.locator(".entry.answer.undone")).to_have_count(1)
    expect(page.locator(".entry.answer.undone")).to_contain_text("undone")

    say(page, "say zebra")
    expect(page.locator(".entry.answer.done").last).to_contain_text("zebra")
    said = page.locator(".entry.you", has_text="say zebra")
    said.hover()
    said.get_by_role("button", name="Edit and run again").click()
    page.keyboard.press("Escape")
    expect(said.locator(".text")).to_have_text("say zebra")
    said.hover()
    said.get_by_role("button", name="Edit and run again").click()
    page.fill(".editor textarea", "say gnu")
    page.keyboard.press("Enter")
    expect(page.locator(".entry.answer.done").last).to_contain_text("gnu")
    fold = page.get_by_role("button", name="Earlier version (2)")
    expect(fold).to_be_visible()
    expect(said).to_be_hidden()
    fold.click()
    expect(said).to_be_visible()


@pytest.mark.browser
def test_code_grows_by_itself_and_a_selection_survives(page: Page, served: Served) -> None:
    enter(page, served, "grows")
    say(page, "code 90")
    pre = page.locator(".entry.answer .code pre")
    expect(pre).to_contain_text("value_45")
    end = "(pre) => pre.scrollHeight - pre.scrollTop - pre.clientHeight"
    assert pre.evaluate(end) < 60
    page.evaluate("""() => {
        const code = document.querySelector('.entry.answer .code code').firstChild;
        const at = code.data.indexOf('value_40');
        getSelection().setBaseAndExtent(code, at, code, at + 8);
        document.querySelector('.entry.answer .code pre').scrollTop = 40;
    }""")
    expect(page.locator(".entry.answer.done")).to_have_count(1)
    expect(page.locator(".entry.answer .c-c").last).to_have_text("# line 89")
    assert page.evaluate("getSelection().toString()") == "value_40"
    assert pre.evaluate("(pre) => pre.scrollTop") == 40

    page.set_viewport_size({"width": 1280, "height": 500})
    page.locator("#log").evaluate("(log) => { log.scrollTop = 0; }")
    expect(page.locator("#to-end")).to_be_visible()
    served.say("grows", "say news")
    expect(page.locator("#to-end")).to_contain_text("New")
    assert page.locator("#log").evaluate("(log) => log.scrollTop") == 0
    page.click("#to-end")
    expect(page.locator(".entry.answer.last")).to_be_in_viewport()
    expect(page.locator("#spoken")).to_contain_text("news")


@pytest.mark.browser
def test_questions_are_answered_by_buttons_and_keys(page: Page, served: Served) -> None:
    enter(page, served, "asks")
    say(page, f"read http://{served.site}/")
    card = page.locator(".ask-card")
    expect(card.locator("dd").first).to_have_text(ELSEWHERE)
    expect(card.locator(".ask-from")).to_contain_text("content from files or the web")
    expect(page.locator("#message")).to_be_focused()
    page.keyboard.press("y")  # in the field, it is a letter
    expect(page.locator("#message")).to_have_value("y")
    page.fill("#message", "")
    assert violations_in_both_schemes(page) == []
    page.wait_for_timeout(500)
    page.locator("#log").focus()
    page.keyboard.press("n")
    expect(card).to_have_count(0)
    expect(page.locator(".asked").last).to_contain_text("No.")
    expect(page.locator(".entry.answer.done")).to_have_count(1)
    say(page, f"read http://{served.site}/")
    expect(card).to_be_visible()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    expect(card.get_by_role("button", name="Yes")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".asked").last).to_contain_text("Yes.")
    expect(page.locator("#message")).to_be_focused()


@pytest.mark.browser
def test_earlier_messages_come_by_scrolling_and_a_hit_is_found(page: Page, served: Served) -> None:
    for number in range(70):
        served.say("long", f"/help {number}")
    enter(page, served, "long")
    expect(page.locator(".entry.you .text").last).to_have_text("/help 69")
    page.locator("#log").evaluate("(log) => { log.scrollTop = 0; }")
    expect(page.locator(".entry.you .text").first).to_have_text("/help 0")
    first = page.locator(".entry.you").first.get_attribute("id") or ""
    page.goto(f"{served.url}/?chat=long&entry={first.removeprefix('entry-')}")
    expect(page.locator(f"#{first}")).to_be_in_viewport()


def test_bytes_on_the_wire_are_at_most_three_times_the_text(served: Served) -> None:
    texts = {
        "code": "```python\n"
        + "".join(f"value_{n} = compute({n})  # line {n}\n" for n in range(600))
        + "```\n",
        "table": "| a | b | c |\n|---|---|---|\n"
        + "".join(f"| name {n} | {n} | {n * n} |\n" for n in range(230)),
        "prose": "".join(f"This is sentence {n} of a long answer with *marks*. " for n in range(160)) + "\n",
    }
    for name, text in texts.items():
        transcript = Transcript()
        view = SocketView(served.page.board, transcript, lambda: True, served.page.offload)
        sent = sum(len(message.encode()) for message in view.begin())
        transcript.happened(ChatEvent(name, "t1", 1.0, TurnStarted("go", 1)))
        for start in range(0, len(text), 40):
            transcript.happened(ChatEvent(name, "t1", 1.0, TextDelta(text[start : start + 40])))
            for part in transcript.growing():
                assert part.growing is not None
                part.growing.advance(part.raw, ended=part.ended)
                transcript.rendered(part, part.growing, ended=part.ended)
            sent += sum(len(message.encode()) for message in view.take())
        transcript.happened(ChatEvent(name, "t1", 2.0, TurnFinished("complete", text)))
        for part in transcript.growing():
            assert part.growing is not None
            part.growing.advance(part.raw, ended=part.ended)
            transcript.rendered(part, part.growing, ended=part.ended)
        sent += sum(len(message.encode()) for message in view.take())
        assert sent <= 3 * len(text.encode()), f"{name}: {sent} of {len(text)}"


@pytest.mark.long
def test_what_was_live_is_the_same_when_it_is_read_from_the_journal(tmp_path: Path) -> None:
    with Served(tmp_path / "home", model=works) as served:
        talk = served.do(served.page.talk, "same")
        served.run(talk.begin)
        for text in ("work", "say zebra", "/usage"):
            served.say("same", text)
            served.until(lambda: _quiet(talk.transcript))
        served.say("same", "hang")
        served.until(lambda: talk.transcript.working)
        served.say("same", "/stop")
        served.until(lambda: _quiet(talk.transcript))
        served.say("same", "/undo")
        served.until(lambda: _quiet(talk.transcript))
        time.sleep(0.5)
        live = served.do(lambda: json.loads(json.dumps(shapes(talk.transcript.in_order()))))
        stored = served.run(served.app.services.journal.ask, read_transcript("same", limit=60))
        read = json.loads(json.dumps(shapes([entry for message in stored for entry in entries_of(message)])))
        assert [entry["id"] for entry in live] == [entry["id"] for entry in read]
        for one, other in zip(live, read, strict=True):
            assert _fixed(one) == _fixed(other)


def _quiet(transcript: Transcript) -> bool:
    states = [entry.state for entry in transcript.in_order()]
    return bool(states) and not transcript.working and not transcript.wanted and "queued" not in states


def _fixed(entry: dict[str, object]) -> dict[str, object]:
    """Return an entry without its times, and without whether somebody has seen it."""
    return {name: value for name, value in entry.items() if name not in ("began", "ended", "delivery")}


@pytest.mark.browser
def test_steps_output_and_changes_are_shown_as_they_come(page: Page, served: Served) -> None:
    turn = f"t{2 * 10**6}"

    def tell(*happened: Happening) -> None:
        for what in happened:
            served.do(served.app.services.hub.publish, ChatEvent("steps", turn, time.time(), what))

    enter(page, served, "steps")
    calls = [
        ToolCall(id, name, "{}")
        for id, name in (("north", "research"), ("make", "bash"), ("c1", "edit_file"))
    ]
    arguments = ({"question": "north"}, {"command": "make"}, {"path": "a"})
    tell(TurnStarted("go", 2 * 10**6), *map(ToolStarted, calls, arguments))
    tools = page.locator(".entry.answer .tool")
    expect(tools).to_have_count(3)
    summary = tools.nth(0).locator("summary")
    summary.focus()
    page.keyboard.press("Enter")
    tell(*(ToolProgress("north", f"<b>page</b> {number}", number) for number in range(1, 101)))
    steps = tools.nth(0).locator(".steps li")
    expect(steps.last).to_have_text("<b>page</b> 100")
    expect(steps).to_have_count(50)
    expect(steps.last).to_be_in_viewport()
    expect(summary).to_be_focused()
    tell(ToolOutput("make", "one\n<b>two</b>\n10 %\r90 %"))
    expect(tools.nth(1).locator(".step")).to_have_text("90 %")
    tools.nth(1).locator("summary").click()
    expect(tools.nth(1).locator("pre")).to_have_text("one\n<b>two</b>\n90 %")
    diff = "--- a\n+++ a\n@@ -1,2 +1,2 @@\n one\n-<b>two</b>\n+dos"
    tell(ToolFinished(calls[2], ToolResult(True, "edited a", diff=diff)))
    tools.nth(2).locator("summary").click()
    expect(tools.nth(2).locator(".removed")).to_have_text("-<b>two</b>")
    expect(tools.nth(2).locator(".added")).to_have_text("+dos")
    tell(ToolFinished(calls[1], ToolResult(True, "exit code 0\noutput:\nall", 0, 3000)))
    expect(tools.nth(1)).to_contain_text("3.0 s")
    tell(ToolFinished(calls[0], ToolResult(True, "found it"), 100), TurnFinished("complete", "done"))
    expect(page.locator(".entry.answer.done")).to_contain_text("100 steps")
