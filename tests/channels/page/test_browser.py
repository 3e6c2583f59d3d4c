"""The page in Chromium as a whole: what others wrote stays text, and windows outlive servers and sessions."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect

from rumi.channels.telegram.formatting.reply import format_reply
from rumi.channels.terminal.paint import AnswerMarkdown, Painter
from tests.channels.page.axe import violations_in_both_schemes
from tests.channels.page.served import Served

pytestmark = pytest.mark.browser

LIVE = "body[data-state=live]"


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
    page.wait_for_selector(LIVE)
    yield page
    context.close()
    assert seen.complaints == []


def say(page: Page, text: str) -> None:
    page.fill("#message", text)
    page.press("#message", "Enter")


HOSTILE = (
    r"""<img src=x onerror="document.title='x'"><script>document.title='x'</script>
[click](javascript:document.title='x') [here](http://real.test/"onclick="x) <a href=//evil.test>a</a>
**<b>bold</b>** `<i>code</i>` http://real.test/?q=<s>
"""
    + "w" * 500
)


def test_what_others_have_written_is_text(page: Page) -> None:
    text = HOSTILE.replace("\n", "\\n")
    say(page, f"shows {text}")
    answer = page.locator(".entry.answer.done").last
    expect(answer).to_contain_text("<script>")
    expect(answer.locator("a").first).to_be_attached()  # the last block is rendered
    assert answer.locator(":is(img, script, b, i, iframe, style)").count() == 0
    links = answer.locator("a").evaluate_all("all => all.map((each) => each.href)")
    assert links
    assert all(re.match(r"http://real\.test/", link) for link in links)
    expect(page).to_have_title(re.compile("Rumi"))
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
    expect(answer.locator("ol > li")).to_have_count(3)
    assert (answer.locator("ol").count(), answer.locator("ol > li").count()) == (1, 3)
    assert answer.locator("ol ul > li").all_text_contents() == ["nested one", "nested two"]
    assert answer.locator("li blockquote").inner_text() == "quote in a list"
    assert answer.locator("td.r").all_text_contents() == ["100000.00", "5"]
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


@pytest.mark.parametrize("width", [1440, 768, 320])
def test_axe_finds_nothing_in_a_talk(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    say(page, f"shows {SAMPLE}\nshown at {width}".replace("\n", "\\n"))
    expect(page.locator(".entry.answer.done").last).to_contain_text(f"shown at {width}")
    assert violations_in_both_schemes(page) == []


def test_code_from_elsewhere_does_not_run_there(browser: Browser, served: Served) -> None:
    page = browser.new_page()
    page.goto(served.new_link())
    page.wait_for_selector(LIVE)
    title = page.title()
    page.evaluate("""async () => {
        const add = (tag, more) => document.body.append(Object.assign(document.createElement(tag), more));
        add("script", {textContent: "document.title = 'inline'"});
        add("script", {src: "data:text/javascript,document.title='data'"});
        add("div", {innerHTML: "<img src=x onerror=\\"document.title='handler'\\">"});
        await fetch("https://elsewhere.test/").catch(() => {});
        await new Promise((tell) => setTimeout(tell, 50));
    }""")
    assert page.title() == title
    page.close()


def test_an_old_link_and_a_wrong_one_lead_to_the_terminal(browser: Browser, served: Served) -> None:
    page = browser.new_page()
    link = served.new_link()
    page.goto(link)
    page.wait_for_selector(LIVE)
    page.context.clear_cookies()
    for wrong in (link, f"{served.url}/login?code=guessed", served.url):
        answer = page.goto(wrong)
        assert answer is not None
        assert answer.status == 403
        expect(page.locator("h1")).to_have_text("Closed")
    page.goto(served.link)
    page.wait_for_selector(LIVE)
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("menuitem", name="Log out").click()
    expect(page.locator("h1")).to_have_text("Closed")
    page.close()


@pytest.mark.long
def test_a_window_comes_back_with_the_server_and_says_when_its_session_is_over(
    browser: Browser, tmp_path: Path
) -> None:
    with Served(tmp_path / "home") as first:
        page = browser.new_context().new_page()
        page.goto(first.link)
        page.wait_for_selector(LIVE)
        say(page, "say before")
        answer = page.locator(".entry.answer.done")
        expect(answer).to_contain_text("before")
        answer.evaluate("each => { each.dataset.kept = 'yes'; }")
        first.crash_page()
        page.wait_for_selector("body[data-state=lost]")
        page.wait_for_selector(LIVE)
        where = first.url.removeprefix("http://")
    page.wait_for_selector("body[data-state=lost]")
    expect(answer).to_contain_text("before")
    with Served(tmp_path / "home", where=where, RUMI_LANGUAGE="es") as second:
        page.wait_for_selector(LIVE)  # it is logged in still
        assert answer.get_attribute("data-kept") == "yes"  # what is read was not made anew
        say(page, "say after")
        expect(answer.last).to_contain_text("after")
        page.evaluate(
            "fetch('/logout', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{}'})"
        )
        page.wait_for_selector("body[data-state=over]")
        page.fill("#message", "nowhere to go")
        page.press("#message", "Enter")
        expect(page.locator("body")).to_contain_text("nowhere to go")
        page.goto(second.new_link())
        page.wait_for_selector(LIVE)
        expect(answer.first).to_contain_text("before")
        assert page.evaluate("document.documentElement.lang") == "es"
        assert "{{" not in page.content()
    page.context.close()


def test_a_chat_is_the_one_of_the_terminal_and_is_joined_in_the_middle_of_a_turn(
    page: Page, served: Served
) -> None:
    served.say("joined", "grow fern")
    page.goto(f"{served.url}/?chat=joined")
    expect(page.locator(".entry.you").last).to_contain_text("grow fern")
    expect(page.locator(".entry.answer").last).to_contain_text("fern " * 39)
    expect(page.locator(".entry.answer.done")).to_have_count(1)
    page.reload()
    expect(page.locator(".entry.answer.done")).to_contain_text("fern " * 39)
