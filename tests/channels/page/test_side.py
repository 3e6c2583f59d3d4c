"""The side of the page in Chromium: chats, search, the first screen, keys, and what calls a person back."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from rumi.store.journal.inbox import accept_messages
from rumi.store.journal.records import Incoming
from tests.channels.page.axe import violations_in_both_schemes
from tests.channels.page.served import Served

pytestmark = pytest.mark.browser

LIVE = "body[data-state=live]"
PHONE = {"width": 390, "height": 844}

COUNT_NOTIFICATIONS = """
    window.notified = [];
    const Real = window.Notification;
    window.Notification = class extends Real {
        constructor(title, about) { super(title, about); window.notified.push([title, about.body, this]); }
    };
"""


@pytest.fixture
def context(browser: Browser, served: Served) -> Iterator[BrowserContext]:
    """A browser that has just come in. Its pages may complain of nothing."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, accept_downloads=True)
    complaints: list[str] = []
    context.on("weberror", lambda error: complaints.append(str(error.error)))
    context.on("console", lambda said: said.type == "error" and complaints.append(said.text))
    yield context
    context.close()
    assert complaints == []


def come_in(context: BrowserContext, served: Served, chat: str = "") -> Page:
    page = context.new_page()
    if not context.cookies():  # another login would end the session of the other pages
        page.goto(served.new_link())
    if chat:
        page.goto(f"{served.url}/?chat={chat}")
    page.wait_for_selector(LIVE)
    return page


def say(page: Page, text: str) -> None:
    page.fill("#message", text)
    page.press("#message", "Enter")


def menu_of(page: Page, title: str, item: str) -> None:
    page.get_by_role("button", name=f"Actions: {title}").focus()
    page.keyboard.press("Enter")
    page.get_by_role("menuitem", name=item, exact=True).click()


def test_chats_are_begun_named_pinned_archived_exported_and_deleted(
    context: BrowserContext, served: Served
) -> None:
    page = come_in(context, served)
    chats = page.locator("#chats li[data-chat]")
    page.keyboard.press("Control+Shift+O")
    expect(page).to_have_url(re.compile(r"chat=c-[a-z0-9]{8}$"))
    expect(page.locator("#message")).to_be_focused()
    expect(page).to_have_title("New chat · Rumi")
    say(page, "say the <b>Ladder</b> leans")
    row = chats.filter(has=page.locator("[aria-current]"))
    expect(row).to_have_text("say the <b>Ladder</b> leans")
    expect(page.locator("#chats h2")).to_have_text(["Today"])

    served.say("other", "say a word")
    other = chats.filter(has_text="say a word")
    expect(other).to_contain_text("new answer")
    expect(page).to_have_title(re.compile(r"^\(1\) "))
    expect(page.locator("link[rel=icon]")).to_have_attribute("href", "/static/icon-mark.svg")
    other.locator("a").dblclick()
    page.keyboard.type("Words & more")
    page.keyboard.press("Escape")
    expect(chats.filter(has_text="say a word")).to_have_count(1)
    page.keyboard.press("F2")
    page.keyboard.type("Words & more")
    page.keyboard.press("Enter")
    renamed = chats.filter(has_text="Words & more")
    expect(renamed.locator("a")).to_be_focused()
    expect(renamed).not_to_contain_text("new answer")  # it was read meanwhile
    expect(page).to_have_title("Words & more · Rumi")

    second = context.new_page()
    second.goto(f"{served.url}/?chat=other")
    menu_of(page, "Words & more", "Pin")
    for window in (page, second):
        expect(window.locator("#chats h2").first).to_have_text("Pinned")
    with page.expect_download() as loading:
        menu_of(page, "Words & more", "Export as JSON")
    assert loading.value.suggested_filename == "Words & more.json"
    kept = json.loads(Path(loading.value.path()).read_text())
    assert {"say a word", "a word"} <= {entry["text"] for entry in kept["entries"]}
    with page.expect_download() as loading:
        menu_of(page, "Words & more", "Export as Markdown")
    assert "say a word" in Path(loading.value.path()).read_text()

    menu_of(page, "Words & more", "Archive")
    expect(renamed).to_have_count(0)
    page.click("#archive summary")
    menu_of(page, "Words & more", "Delete")
    expect(page.get_by_role("dialog")).to_contain_text("can't be undone")
    assert violations_in_both_schemes(page) == []
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator("#archive")).not_to_contain_text("Words & more")
    expect(page).not_to_have_url(re.compile("other"))  # it was the current one


def test_a_search_marks_the_words_and_leads_to_the_message(context: BrowserContext, served: Served) -> None:
    served.say("wall", "say the Ladder leans on the wall")
    served.say("tg77", "say a secret ladder")
    page = come_in(context, served)
    expect(page.locator("#chats")).to_contain_text("on the wall")
    page.keyboard.press("Control+k")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("LADDER wall")
    found = page.locator("#found a")
    expect(found).to_have_count(3)  # the title, what was said, and the answer
    expect(found.first.locator("mark")).to_have_text(["Ladder", "wall"])
    expect(found.last).to_contain_text("You: say the Ladder leans on the wall")
    expect(page.locator("#chats")).to_be_hidden()
    assert violations_in_both_schemes(page) == []
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("chat=wall"))
    expect(page.locator(".entry:focus")).to_contain_text("on the wall")
    page.fill("#search", "no such <i>words</i>")
    expect(page.locator("#found")).to_contain_text("Nothing was found for “no such <i>words</i>”.")
    page.keyboard.press("Escape")
    expect(page.locator("#chats")).to_be_visible()
    expect(page.locator("#search")).to_have_value("")
    expect(page.locator("#search")).to_be_focused()


def test_hundreds_of_chats_come_in_pages_and_keep_the_focus(context: BrowserContext, served: Served) -> None:
    batch = [
        Incoming(chat=f"many-{number}", text=f"Chat {number}", answer="Yes.", unattended=True)
        for number in range(130)
    ]
    served.run(served.app.services.journal.ask, accept_messages(tuple(batch)))
    page = come_in(context, served)
    rows = page.locator("#chats li[data-chat]")
    expect(rows.nth(50)).to_be_attached()
    assert rows.count() < 80
    rows.nth(5).locator("a").focus()
    name = rows.nth(5).inner_text()
    served.say("newest", "say hello")
    expect(rows.first).to_contain_text("say hello")
    expect(page.locator("#chats a:focus")).to_have_text(name)
    page.locator("#chats").evaluate("(list) => list.scrollTo(0, list.scrollHeight)")
    expect(rows.nth(100)).to_be_attached()
    page.keyboard.press("Alt+ArrowDown")
    expect(page).to_have_url(re.compile("chat="))


def test_one_window_of_many_notifies_of_a_chat_that_none_shows(
    context: BrowserContext, served: Served
) -> None:
    context.grant_permissions(["notifications"])
    context.add_init_script(COUNT_NOTIFICATIONS)
    pages = [come_in(context, served, chat) for chat in ("one", "two", "three")]
    assert pages[0].evaluate("Notification.permission") == "granted"

    def notified() -> list[tuple[str, str]]:
        return [
            (title, body)
            for page in pages
            for title, body in page.evaluate("notified.map(([title, body]) => [title, body])")
        ]

    pages[0].get_by_role("button", name="More", exact=True).first.click()
    pages[0].get_by_role("menuitem", name="This browser").click()
    assert violations_in_both_schemes(pages[0]) == []
    switch = pages[0].get_by_role("switch", name="Notifications", exact=True)
    assert not switch.is_checked()  # nothing is asked or shown unless a person wants it
    switch.check()
    pages[0].get_by_label("Colours").select_option("dark")
    pages[0].keyboard.press("Escape")
    for page in pages:  # the other windows follow
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    served.say("two", "say in a window")
    served.say("elsewhere", "say for nobody")
    for page in pages:
        expect(page.locator("#chats li", has_text="say for nobody")).to_contain_text("new answer")
        expect(page.locator("#chats li", has_text="say in a window")).not_to_contain_text("new answer")
    pages[0].wait_for_timeout(500)
    assert notified() == [("say for nobody", "for nobody")]
    leader = next(page for page in pages if page.evaluate("notified.length"))
    leader.evaluate("notified[0][2].dispatchEvent(new Event('click'))")
    expect(leader).to_have_url(re.compile("chat=elsewhere"))
    leader.reload()  # the colours are there before the first script of the page runs
    expect(leader.locator("html")).to_have_attribute("data-theme", "dark")


@pytest.mark.long
def test_an_empty_chat_has_examples_that_the_demo_model_can_do(browser: Browser, tmp_path: Path) -> None:
    with Served(tmp_path / "home", RUMI_MODEL__DEFAULT="offline") as served:
        context = browser.new_context(viewport=PHONE, has_touch=True, is_mobile=True)
        page = come_in(context, served, "fresh")
        first = page.locator("#first")
        expect(first.locator(".example")).to_have_count(4)
        expect(first).to_contain_text("demo model")
        assert violations_in_both_schemes(page) == []
        opener = page.locator("#open-side")
        opener.click()
        side = page.locator("#side")
        expect(side).to_be_visible()
        assert page.evaluate("side.contains(document.activeElement)")
        assert violations_in_both_schemes(page) == []
        page.keyboard.press("Escape")
        expect(side).to_be_hidden()
        expect(opener).to_be_focused()
        first.get_by_role("button", name="Remember something").click()
        expect(page.locator(".entry.you")).to_contain_text("I live in Rome")
        expect(first).to_be_hidden()
        expect(page.locator(".entry.answer.done")).to_contain_text("Rome")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        context.close()


def test_the_keys_are_listed_and_the_house_opens_its_panels(context: BrowserContext, served: Served) -> None:
    page = come_in(context, served, "keys")
    page.focus("#log")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Next or previous chat")
    assert violations_in_both_schemes(page) == []
    page.keyboard.press("Escape")
    expect(page.locator("#log")).to_be_focused()
    expect(page.locator("#house [data-panel=status] small")).to_contain_text("all well")
    page.get_by_role("button", name="Hide the chats").click()
    expect(page.locator("#side")).to_be_hidden()
    page.reload()
    page.wait_for_selector(LIVE)
    expect(page.locator("#side")).to_be_hidden()
    page.keyboard.press("Control+k")
    expect(page.locator("#search")).to_be_focused()
