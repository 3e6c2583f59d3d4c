"""The page in Chromium, used as a person would."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect

from rumi.agent.events import ToolFinished, ToolOutput, ToolProgress, ToolStarted, TurnFinished
from rumi.agent.tool import ToolResult
from rumi.channels.telegram.formatting.reply import format_reply
from rumi.channels.terminal.paint import AnswerMarkdown, Painter
from rumi.chats.events import ChatEvent, Happening, TurnStarted
from rumi.models.model import ToolCall
from tests.channels.page.served import ELSEWHERE, Served

BOUND_S = 10.0

pytestmark = pytest.mark.browser


class Seen:
    """What a browser did beside what it showed: complaints, and requests that went elsewhere."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.complaints: list[str] = []
        self._url = url
        context.on("console", self._console)
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))
        context.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))
        context.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _request(self, request: Request) -> None:
        if not request.url.startswith(f"{self._url}/"):
            self.complaints.append(f"asked for {request.url}")


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    """A window that has just come in. It may complain of nothing and ask nobody else for anything."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    seen = Seen(context, served.url)
    page = context.new_page()
    page.goto(served.new_link())
    expect(page.locator("#connection")).to_have_text("live")
    yield page
    context.close()
    assert seen.complaints == []


def say(page: Page, text: str) -> None:
    page.fill("#message", text)
    page.press("#message", "Enter")


def test_a_research_begins_and_its_result_comes_as_a_message_of_its_own(page: Page) -> None:
    say(page, "/research say zebra")
    expect(page.locator(".entry", has_text="Task 1 has begun")).to_be_visible()
    expect(page.locator(".entry", has_text="Task 1 (succeeded): say zebra")).to_contain_text("zebra")
    say(page, "/tasks")
    expect(page.locator("#log li", has_text="1 · web · succeeded · say zebra")).to_be_visible()
    page.reload()
    expect(page.locator(".entry", has_text="Task 1 (succeeded)")).to_have_count(1)


def test_a_bot_at_work_has_a_row_until_it_ends(page: Page, served: Served) -> None:
    folder = served.folder / "bots" / "garden"
    folder.mkdir(mode=0o700, parents=True)
    (folder / "config.md").write_text("+++\nsleep_secs = 3600\n+++\nYou keep the garden.")
    say(page, "/bot garden say zebra")
    expect(page.locator(".entry", has_text="The bot garden has begun session")).to_be_visible()
    row = page.locator("#bots tbody tr", has_text="garden")
    expect(row).to_contain_text("sleeps")
    expect(row).to_contain_text("1 model calls")
    assert [
        (violation["id"], violation["nodes"][0]["html"])
        for violation in Axe().run(page).response["violations"]
    ] == []
    say(page, "/stop garden")
    expect(page.locator("#bots-panel")).to_be_hidden()
    expect(page.locator(".entry", has_text="(stopped): say zebra")).to_be_visible()


@pytest.mark.long
def test_a_message_is_answered_as_the_answer_grows_and_stays_after_a_reload(page: Page) -> None:
    other = page.context.new_page()
    other.goto("/".join(page.url.split("/")[:3]))
    say(page, "grow moss")
    running = page.locator(".entry.answer.running .text")
    lengths = set[int]()
    end = time.monotonic() + BOUND_S
    while len(lengths) < 3 and time.monotonic() < end:
        lengths.update(len(text) for text in running.all_text_contents())
    assert len(lengths) == 3
    answer = page.locator(".entry.answer.done").last
    expect(answer).to_contain_text("moss " * 39)
    expect(other.locator(".entry.answer.done").last).to_contain_text("moss " * 39)
    expect(page.locator("#turns tbody tr").first).to_contain_text("cli")
    page.reload()
    expect(page.locator(".entry.you").last).to_have_text("grow moss")
    expect(page.locator(".entry.answer.done").last).to_contain_text("moss " * 39)


def test_stop_works_by_button_and_by_escape(page: Page) -> None:
    def by_button() -> None:
        page.click("#stop")

    def by_escape() -> None:
        page.press("#message", "Escape")

    for stop in (by_button, by_escape):
        expect(page.locator("#stop")).to_be_disabled()
        say(page, "hang")
        expect(page.locator("#stop")).to_be_enabled()
        stop()
        expect(page.locator(".entry.answer").last).to_contain_text("⏹ Stopped.")
        expect(page.locator("#stop")).to_be_disabled()


def test_the_button_for_everything_asks_and_stops_the_turns_of_all_chats(page: Page, served: Served) -> None:
    served.run(served.app.inbox.accept, "elsewhere", "hang")
    say(page, "hang")
    expect(page.locator("#stop")).to_be_enabled()
    expect(page.locator("#chats tbody tr")).to_have_count(2)
    page.click("#stop-all")
    expect(page.locator("#stop-all")).to_have_text("All turns, tasks, bots and schedules? Press again")
    expect(page.locator("#stop")).to_be_enabled()
    page.click("#stop-all")
    expect(page.locator("#log")).to_contain_text("⏹ Stopped 2 turns and 0 tasks. No process is left.")
    expect(page.locator("#stop-all")).to_have_text("Stop everything")
    expect(page.locator("#stop")).to_be_disabled()


def test_what_waits_says_so_and_is_counted_until_it_is_dropped(browser: Browser, tmp_path: Path) -> None:
    with Served(tmp_path / "home") as served:
        page = browser.new_page()
        page.goto(served.new_link())
        expect(page.locator("#connection")).to_have_text("live")
        for text in ("hang", "say two", "say three"):
            say(page, text)
            expect(page.locator(".entry.you.sent").last).to_have_text(text)
        expect(page.locator(".entry.queued .note").last).to_contain_text("Queued (2 of 20)")
        expect(page.locator("#queued")).to_have_text("2 queued")
        expect(page.locator("#chats tbody tr").first).to_contain_text("2 queued")
        say(page, "/queue drop all")
        expect(page.locator("#log")).to_contain_text("2 queued messages were dropped.")
        expect(page.locator("#queued")).to_be_hidden()
        page.context.close()


def test_what_the_turn_asks_is_answered_by_button_and_by_keys(page: Page, served: Served) -> None:
    say(page, f"read http://{served.site}/")
    expect(page.locator("#question-text")).to_contain_text(ELSEWHERE)
    expect(page.locator("#message")).to_be_focused()  # an Enter that was on its way is no yes
    page.click("#no")
    expect(page.locator(".asked").last).to_contain_text("No.")
    expect(page.locator("#question")).to_be_hidden()
    expect(page.locator("#stop")).to_be_disabled()
    say(page, f"read http://{served.site}/")
    expect(page.locator("#question")).to_be_visible()
    expect(page.locator("#question-text")).to_contain_text(ELSEWHERE)
    page.keyboard.press("Shift+Tab")
    expect(page.locator("#no")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".asked").last).to_contain_text("Yes.")
    expect(page.locator("#message")).to_be_focused()
    expect(page.locator("#stop")).to_be_disabled()


def test_a_restart_appears_within_a_second(page: Page, served: Served) -> None:
    served.say("somebody", "say hello")
    expect(page.locator("#chats")).to_contain_text("somebody")
    page.evaluate("""() => {
        window.seen = new Promise((tell) => new MutationObserver(() => {
            const row = document.querySelector("#tree tr[data-key='rumi/chats/somebody'] td:nth-child(3)");
            const list = document.getElementById("restarted").textContent;
            if (row && row.textContent === "1" && list.includes("chats/somebody restarted")) tell(Date.now());
            setTimeout(tell, 5000, Infinity);
        }).observe(document.body, {subtree: true, childList: true, characterData: true}));
    }""")
    happened = time.time()
    served.crash("somebody")
    assert page.evaluate("window.seen") / 1000 - happened < 1


HOSTILE = (
    r"""<img src=x onerror="document.title='x'"><script>document.title='x'</script>
[click](javascript:document.title='x') [here](http://real.test/"onclick="x) <a href=//evil.test>a</a>
**<b>bold</b>** `<i>code</i>` http://real.test/?q=<s>
"""
    + "w" * 500
)


def test_what_others_have_written_is_text(page: Page, served: Served) -> None:
    text = HOSTILE.replace("\n", "\\n")
    say(page, f"shows {text}")
    answer = page.locator(".entry.answer.done").last
    expect(answer).to_contain_text("<script>")
    served.say("b-u-b_" + "x" * 58, "sh <b>bold</b>")
    expect(page.locator("#turns")).to_contain_text("b-u-b_")
    assert page.locator("main :is(img, script, b, i, s, iframe)").count() == 0
    links = page.locator(".entry a").evaluate_all("all => all.map((each) => each.href)")
    assert links
    assert all(re.match(r"http://real\.test/", link) for link in links)
    expect(page).to_have_title("cli · Rumi")
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert page.evaluate("log.scrollWidth - log.clientWidth") <= 0


SAMPLE = """\
# Plan

1. First
   - nested one
   - nested two
2. Second
3. Third

- [ ] open task
- [x] done task
- plain
  > quote in a list

| item | price |
|:-----|------:|
| rent | 100000.00 |
| ~~old~~ | 5 |

~~gone~~ **bold** *it* `code`

```python
def tea(cups: int = 2) -> str:  # in words
    return f"{cups} cups"
```

```diff
-old
+new
```
"""


def test_markdown_says_what_it_says_in_the_terminal_and_on_telegram(page: Page, tmp_path: Path) -> None:
    say(page, f"shows {SAMPLE}".replace("\n", "\\n"))
    answer = page.locator(".entry.answer.done").last
    expect(answer).to_contain_text("nested two")
    assert (answer.locator("ol").count(), answer.locator("ol > li").count()) == (1, 3)
    assert answer.locator("ol ul > li").all_text_contents() == ["nested one", "nested two"]
    assert answer.locator("li blockquote").inner_text() == "quote in a list"
    assert answer.locator("td.right").all_text_contents() == ["100000.00", "5"]
    assert answer.locator("td s").inner_text() == "old"
    for width in (1440, 390, 320):
        page.set_viewport_size({"width": width, "height": 800})
        price = answer.locator("td", has_text="100000.00")
        assert price.evaluate("each => each.getClientRects().length && each.firstChild.length") == 9
        lines = price.evaluate(
            "each => { const range = document.createRange(); range.selectNodeContents(each);"
            " return range.getClientRects().length; }"
        )
        assert lines == 1  # the number stands on one line
    terminal = "\n".join(Painter({"TERM": "dumb"}).paint(AnswerMarkdown(SAMPLE), 80))
    telegram = "".join(part.text for part in format_reply(SAMPLE))
    shown = [re.sub(r"[^\w.☐☑]+", " ", text) for text in (answer.inner_text(), terminal, telegram)]
    for words in ("Plan", "nested one", "Second", "Third", "☐ open task", "☑ done task", "quote in a list",
                  "rent 100000.00", "old 5", "gone bold it code"):  # fmt: skip
        assert [words in text for text in shown] == [True] * 3, (words, shown)


def test_a_stopped_turn_shows_what_it_had_said_after_a_reload(page: Page) -> None:
    say(page, "grow fern")
    expect(page.locator(".entry.answer.running .text")).to_contain_text("fern fern")
    page.press("#message", "Escape")
    expect(page.locator(".entry.answer.done").last).to_contain_text("⏹ Stopped.")
    page.reload()
    answer = page.locator(".entry.answer.done").last
    expect(answer).to_contain_text("fern fern")
    expect(answer).to_contain_text("stopped")
    expect(answer).not_to_contain_text("[stopped")


@pytest.mark.parametrize("width", [1440, 768, 320])
def test_axe_finds_nothing(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.click("#open-shelf")
    page.click("#open-files")
    say(page, f"shows {SAMPLE}\nshown at {width}".replace("\n", "\\n"))
    expect(page.locator(".entry.answer.done").last).to_contain_text(f"shown at {width}")
    expect(page.locator(".dots")).to_have_count(0)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = Axe().run(page).response["violations"]
        assert [(violation["id"], violation["nodes"][0]["html"]) for violation in found] == []


def test_code_from_elsewhere_does_not_run_there(browser: Browser, served: Served) -> None:
    page = browser.new_page()
    page.goto(served.new_link())
    expect(page.locator("#connection")).to_have_text("live")
    page.evaluate("""async () => {
        const add = (tag, more) => document.body.append(Object.assign(document.createElement(tag), more));
        add("script", {textContent: "document.title = 'inline'"});
        add("script", {src: "data:text/javascript,document.title='data'"});
        add("div", {innerHTML: "<img src=x onerror=\\"document.title='handler'\\">"});
        await fetch("https://elsewhere.test/").catch(() => {});
        await new Promise((tell) => setTimeout(tell, 50));
    }""")
    expect(page).to_have_title("cli · Rumi")
    page.close()


WHERE = """() => {
    const at = document.activeElement;
    if (at.closest(".entry")) return at.tagName;
    return at.id || at.getAttribute("aria-labelledby") || at.getAttribute("href") || at.tagName;
}"""


def test_keys_are_enough(page: Page) -> None:
    say(page, "sh say something")
    expect(page.locator(".entry.you").last).to_have_text("sh say something")
    expect(page.locator("#log > article").last).to_have_class("entry answer done")
    page.focus(".skip")
    places = [page.evaluate(WHERE)]
    while places[-1] != "BODY" and len(places) < 100:
        page.keyboard.press("Tab")
        places.append(page.evaluate(WHERE))
        if places[-1] != "BODY":
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", places
    titles = ["chats-title", "spending-title", "tree-title", "turns-title"]
    assert [place for place in places if place not in ("SUMMARY", "PRE", "A", "DIV", "BUTTON")] == [
        "#message", "logout", "open-shelf", "open-files", "log", "message", "attach", "send", "stop-all",
            *titles, "BODY",
    ]  # fmt: skip
    assert "SUMMARY" in places  # what a tool said is folded
    page.focus("#message")
    page.keyboard.type("say one")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("two")
    page.keyboard.press("Enter")
    expect(page.locator(".entry.you").last).to_have_text("say one\ntwo")
    expect(page.locator(".entry.answer.done").last).to_have_text(re.compile("one\ntwo"))
    expect(page.locator("#message")).to_have_value("")


def test_an_old_link_and_a_wrong_one_lead_to_the_terminal(browser: Browser, served: Served) -> None:
    page = browser.new_page()
    link = served.new_link()
    page.goto(link)
    expect(page.locator("#connection")).to_have_text("live")
    page.context.clear_cookies()
    for wrong in (link, f"{served.url}/login?code=guessed", served.url):
        answer = page.goto(wrong)
        assert answer is not None
        assert answer.status == 403
        expect(page.locator("h1")).to_have_text("Closed")
    page.goto(served.link)
    expect(page.locator("#connection")).to_have_text("live")
    page.click("#logout")
    expect(page.locator("h1")).to_have_text("Closed")
    page.close()


@pytest.mark.long
def test_a_window_comes_back_with_the_server_and_says_when_its_session_is_over(
    browser: Browser, tmp_path: Path
) -> None:
    with Served(tmp_path / "home") as first:
        page = browser.new_context().new_page()
        page.goto(first.link)
        expect(page.locator("#connection")).to_have_text("live")
        say(page, "say before")
        expect(page.locator(".entry.answer.done")).to_contain_text("before")
        first.crash_page()
        expect(page.locator("#connection")).to_have_text("no connection; trying again…")
        expect(page.locator("#connection")).to_have_text("live")
        expect(page.locator(".entry.answer.done")).to_contain_text("before")
        where = first.url.removeprefix("http://")
    expect(page.locator("#connection")).to_have_text("no connection; trying again…")
    with Served(tmp_path / "home", where=where, RUMI_LANGUAGE="es") as second:
        expect(page.locator("#connection")).to_have_text("live")  # it is logged in still
        say(page, "say after")
        expect(page.locator(".entry.answer.done").last).to_contain_text("after")
        other = page.context.new_page()
        other.goto(second.url)
        other.click("#logout")
        expect(page.locator("#notice")).to_contain_text("a new link in the terminal")
        expect(page.locator("#send")).to_be_disabled()
        page.fill("#message", "nowhere to go")
        page.press("#message", "Enter")
        expect(page.locator("#message")).to_have_value("nowhere to go")
        page.goto(second.new_link())
        expect(page.locator("#connection")).to_have_text("en vivo")
        expect(page.locator("#send")).to_be_enabled()
        expect(page.locator("#send")).to_have_text("Enviar")
        expect(page.locator(".entry.answer.done").first).to_contain_text("before")
        assert page.evaluate("document.documentElement.lang") == "es"
        assert "{{" not in page.content()
    page.context.close()


def test_chats_are_listed_opened_searched_and_renamed(page: Page, served: Served) -> None:
    served.say("work-notes", "say the Ladder leans on the wall")
    served.say("tg77", "say a secret ladder")
    say(page, "say nothing of interest")
    expect(page.locator(".entry.answer.done").last).to_contain_text("of interest")
    page.click("#open-shelf")
    expect(page.locator("#words")).to_be_focused()
    chats = page.locator("#shelf-chats button")
    expect(chats.filter(has_text="work-notes")).to_have_count(1)
    expect(chats.filter(has_text="tg77")).to_have_count(0)
    expect(page.locator("#shelf-chats [aria-current]")).to_contain_text("cli")
    page.fill("#words", "LADDER")
    found = page.locator("#shelf-found button")
    expect(found.first).to_contain_text("Ladder leans")
    expect(found.filter(has_text="secret")).to_have_count(0)
    found.first.click()
    expect(page.locator("#shelf")).to_be_hidden()
    expect(page.locator(".entry:focus")).to_contain_text("Ladder leans")
    expect(page).to_have_url(re.compile(r"\?chat=work-notes$"))
    expect(page.locator("#log")).not_to_contain_text("of interest")
    page.click("#open-shelf")
    page.fill("#new-title", "The <b>house</b>")
    page.press("#new-title", "Enter")
    expect(page.locator("#talk-title")).to_have_text("The <b>house</b>")
    say(page, "say in the other chat")
    expect(page.locator(".entry.answer.done").last).to_contain_text("in the other chat")
    page.go_back()
    expect(page.locator("#talk-title")).to_have_text("cli")
    expect(page.locator(".entry.answer.done").last).to_contain_text("of interest")
    expect(chats.first).to_contain_text("The <b>house</b>")  # the list stays open
    page.fill("#words", "no such words anywhere")
    expect(page.locator("#shelf-none")).to_be_visible()
    page.fill("#new-chat", "brand-new")
    page.press("#new-chat", "Enter")
    expect(page.locator("#talk-title")).to_have_text("brand-new")
    expect(page.locator("#empty")).to_be_visible()
    expect(page.locator("#send")).to_be_enabled()
    page.reload()
    expect(page.locator("#talk-title")).to_have_text("brand-new")


def test_a_chat_is_the_one_of_the_terminal_and_is_joined_in_the_middle_of_a_turn(
    page: Page, served: Served
) -> None:
    served.say("joined", "grow fern")
    page.goto(f"{served.url}/?chat=joined")
    expect(page.locator(".entry.you").last).to_have_text("grow fern")
    expect(page.locator(".entry.answer").last).to_contain_text("fern " * 39)
    expect(page.locator(".entry.answer.done")).to_have_count(1)


def test_earlier_messages_come_when_they_are_asked_for(page: Page, served: Served) -> None:
    from rumi.models.model import Message
    from rumi.store.journal.history import append_history
    from rumi.store.journal.inbox import load_chat
    from rumi.store.journal.records import HistoryEntry

    journal = served.app.services.journal
    session = served.run(journal.ask, load_chat("long", 1)).session
    said = (HistoryEntry(f"t{n}", Message("user", f"message {n}.")) for n in range(450))
    served.run(journal.ask, append_history("long", session, tuple(said)))
    page.goto(f"{served.url}/?chat=long")
    expect(page.locator(".entry.you")).to_have_count(200)
    page.click("#earlier")
    expect(page.locator(".entry.you")).to_have_count(400)
    page.click("#earlier")
    expect(page.locator(".entry.you")).to_have_count(450)
    expect(page.locator("#earlier")).to_be_hidden()
    texts = page.locator(".entry.you").all_text_contents()
    assert texts == [f"message {number}." for number in range(450)]


def test_a_changed_file_is_shown_in_colours(page: Page, served: Served) -> None:
    call = ToolCall("c1", "edit_file", "{}")
    diff = "--- a\n+++ a\n@@ -1,2 +1,2 @@\n one\n-<b>two</b>\n+dos"
    happened = (
        TurnStarted("edit", 10**6),
        ToolStarted(call, {"path": "a"}),
        ToolFinished(call, ToolResult(True, "edited a", diff=diff)),
    )
    for what in happened:
        served.do(served.app.services.hub.publish, ChatEvent("cli", "t1000000", time.time(), what))
    tool = page.locator(".tool").last
    tool.locator("summary").click()
    expect(tool.locator(".removed")).to_have_text("-<b>two</b>")
    expect(tool.locator(".added")).to_have_text("+dos")
    expect(tool.locator("pre").last).to_have_text("@@ -1,2 +1,2 @@\n one\n-<b>two</b>\n+dos\n")


@pytest.mark.long
def test_steps_of_calls_change_in_place_and_can_be_expanded(page: Page, served: Served) -> None:
    turn = f"t{2 * 10**6}"

    def tell(*happened: Happening) -> None:
        for what in happened:
            served.do(served.app.services.hub.publish, ChatEvent("cli", turn, time.time(), what))

    calls = [ToolCall(id, "research", "{}") for id in ("north", "south", "east")]
    tell(TurnStarted("go", 2 * 10**6), *(ToolStarted(call, {"query": call.id}) for call in calls))
    tools = page.locator(".entry.answer").last.locator(".tool")
    expect(tools).to_have_count(3)
    tell(*(ToolProgress(call.id, f"{call.id}: <b>page</b> 1", 1) for call in calls))
    for place, call in enumerate(calls):
        expect(tools.nth(place).locator(".step")).to_have_text(f"{call.id}: <b>page</b> 1")
    summary = tools.nth(1).locator("summary")
    summary.focus()
    page.keyboard.press("Enter")
    tell(*(ToolProgress("south", f"page {number}", number) for number in range(2, 101)))
    expect(tools.nth(1).locator(".step")).to_have_text("page 100")
    expect(summary).to_be_focused()
    steps = tools.nth(1).locator(".steps li")
    expect(steps).to_have_count(50)
    expect(steps.last).to_be_in_viewport()
    assert [steps.nth(place).get_attribute("value") for place in (0, -1)] == ["51", "100"]
    expect(tools.nth(0).locator(".steps")).to_be_hidden()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # what breathes is faint at times
        found = Axe().run(page).response["violations"]
        assert [(violation["id"], violation["nodes"][0]["html"]) for violation in found] == []

    page.reload()
    tools = page.locator(".entry.answer").last.locator(".tool")
    expect(tools.nth(1).locator(".step")).to_have_text("page 100")
    tell(ToolProgress("south", "page 101", 101))
    expect(tools.nth(1).locator(".step")).to_have_text("page 101")
    for call, count in zip(calls, (1, 101, 1), strict=True):
        tell(ToolFinished(call, ToolResult(True, "found it"), count))
    expect(tools.nth(1)).to_contain_text("101 steps")
    expect(tools.nth(0)).to_contain_text("1 step")
    expect(tools.nth(1).locator(".step")).to_be_empty()
    tools.nth(1).locator("summary").click()
    expect(tools.nth(1).locator(".steps li").last).to_have_text("page 101")
    expect(tools.nth(1).locator("pre")).to_have_text("found it")
    tell(TurnFinished("complete", "done"))


@pytest.mark.long
def test_output_of_a_command_is_read_while_it_comes(page: Page, served: Served) -> None:
    turn = f"t{3 * 10**6}"

    def tell(*happened: Happening) -> None:
        for what in happened:
            served.do(served.app.services.hub.publish, ChatEvent("cli", turn, time.time(), what))

    call = ToolCall("make", "bash", "{}")
    tell(TurnStarted("go", 3 * 10**6), ToolStarted(call, {"command": "make"}))
    tool = page.locator(".entry.answer").last.locator(".tool")
    expect(tool).to_have_count(1)  # until its entry is there, the last one is that of an earlier turn
    tell(ToolOutput("make", "one\n<b>two</b>\n10 %\r90 %"))
    expect(tool.locator(".step")).to_have_text("90 %")
    tool.locator("summary").click()
    expect(tool.locator("pre")).to_have_text("one\n<b>two</b>\n90 %")
    page.reload()
    tool = page.locator(".entry.answer").last.locator(".tool")
    expect(tool).to_have_count(1)
    tell(ToolOutput("make", "\nthree\n"))
    expect(tool.locator(".step")).to_have_text("three")
    tell(ToolFinished(call, ToolResult(True, "exit code 0\noutput:\nall", 0, 3000)))
    expect(tool.locator(".step")).to_be_empty()
    tool.locator("summary").click()
    expect(tool.locator("pre")).to_have_text("exit code 0\noutput:\nall")
    tell(TurnFinished("complete", "done"))


def test_code_and_answers_can_be_copied(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    say(page, f"shows {SAMPLE}".replace("\n", "\\n"))
    answer = page.locator(".entry.answer.done").last
    expect(answer.locator("pre .k").first).to_have_text("def")
    answer.locator(".block").first.hover()
    answer.locator(".block .copy").first.click()
    expect(answer.locator(".block .copy").first).to_have_text("Copied")
    copied = "navigator.clipboard.readText()"
    assert page.evaluate(copied).startswith("def tea(cups: int = 2) -> str:  # in words\n    return")
    answer.locator(":scope > .copy").click()
    expect(answer.locator(":scope > .copy")).to_have_text("Copied")
    text = page.evaluate(copied)
    assert "nested one" in text
    assert "return f" in text
    assert "Copy" not in text
