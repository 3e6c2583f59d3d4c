"""The panels of the drawer about work: schedules, bots, tasks, budgets and the state of the house."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.channels.page.axe import violations_in_both_schemes
from tests.channels.page.served import ELSEWHERE, Served, script

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(browser: Browser, served: Served) -> Iterator[Page]:
    """One window for all tests of this module. It may complain of nothing."""
    complaints: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.on(
        "console",
        lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None,
    )
    context.on("weberror", lambda error: complaints.append(str(error.error)))
    page = context.new_page()
    page.goto(served.new_link())
    expect(page.locator("body[data-state=live]")).to_have_count(1)
    yield page
    context.close()
    assert complaints == []


def panel(page: Page, name: str) -> Locator:
    """Open a panel, and return its content."""
    page.evaluate(
        f"""async (name) => {{
            const drawer = await import({script("drawer/drawer.js")});
            drawer.close();
            await drawer.openPanel(name);
        }}""",
        name,
    )
    expect(page.locator("#drawer-body .skeleton")).to_have_count(0)
    return page.locator("#drawer-body")


def accessible(page: Page) -> None:
    assert violations_in_both_schemes(page) == []


def test_a_schedule_is_made_paused_run_approved_and_deleted_by_keys(page: Page, served: Served) -> None:
    shown = panel(page, "schedules")
    shown.get_by_role("button", name="New schedule").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Text").fill(f"read http://{served.site}/")
    dialog.get_by_label("When").fill("whenever")
    expect(dialog.locator(".error:not(:empty)")).to_contain_text('Write it like "in 20 minutes"')
    dialog.get_by_label("When").fill("every monday 08:00")
    expect(dialog.locator(".understood")).to_contain_text("Understood: every Monday, 08:00; first")
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    row = shown.locator("li", has_text="every Monday, 08:00")
    row.get_by_role("button").last.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")  # the menu's first entry
    expect(row.locator(".badge")).to_have_text("paused")
    row.locator("button.what").focus()
    page.keyboard.press("Enter")
    shown.get_by_role("button", name="Run now").click()
    asks = shown.locator(".asks")
    expect(asks).to_contain_text(ELSEWHERE)  # whole
    expect(asks).to_contain_text("Always allow this here")
    accessible(page)
    asks.get_by_role("button", name="Always allow this here").click()
    expect(asks).to_have_count(0)
    standing = shown.locator(".panel-section", has_text="Allowed without asking")
    expect(standing).to_contain_text("elsewhere.test")
    standing.get_by_role("button", name="Take it back").click()
    dialog.get_by_role("button", name="Take it back").click()
    expect(standing).to_have_count(0)
    shown.get_by_role("button", name="Delete").click()
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    dialog.get_by_role("button", name="Delete").click()
    expect(shown).to_contain_text("You have none yet.")


def test_a_bot_is_made_started_woken_and_stopped_and_forgets(page: Page, served: Served) -> None:
    shown = panel(page, "bots")
    dialog = page.get_by_role("dialog")
    shown.get_by_role("button", name="New bot").click()
    dialog.get_by_label("Name").fill("no name")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_contain_text("It takes letters, digits")  # the advice
    dialog.get_by_label("Name").fill("garden")
    dialog.get_by_role("button", name="Create").click()
    expect(shown.locator(".page-head")).to_contain_text("garden")
    file = served.folder / "bots" / "garden" / "config.md"
    file.write_text("+++\nsleep_secs = 3600\n+++\nYou keep the garden.")
    shown.get_by_role("button", name="Start").click()
    dialog.get_by_label("Goal").fill("say zebra")
    page.keyboard.press("Enter")  # a new line in a long text is no end of the dialog
    dialog.get_by_role("button", name="Start").click()
    expect(shown).to_contain_text("sleeps until")
    shown.get_by_role("button", name="Wake it with a message").click()
    dialog.get_by_label("Message").fill("say moss")
    dialog.get_by_role("button", name="Wake it with a message").click()
    expect(dialog).to_have_count(0)
    expect(shown.locator("[aria-busy=true]")).to_have_count(0)
    accessible(page)
    shown.get_by_role("button", name="Stop").click()
    session = shown.locator(".session")
    expect(session).to_contain_text("stopped")
    session.locator("summary").click()
    expect(session.locator(".steps")).to_contain_text("zebra")
    shown.get_by_role("tab", name="Project").click()
    expect(shown).to_contain_text("has no project of yours")
    shown.get_by_role("button", name="Back").click()
    expect(shown.locator("button.what", has_text="garden")).to_be_focused()


def test_a_research_runs_is_stopped_shows_its_result_and_is_deleted(page: Page) -> None:
    shown = panel(page, "tasks")
    dialog = page.get_by_role("dialog")

    def ask(question: str) -> Locator:
        shown.get_by_role("button", name="New research").click()
        dialog.get_by_label("What do you want to know?").fill(question)
        dialog.get_by_role("button", name="Start").click()
        return shown.locator("li", has_text=question)

    ended = ask("say **zebra** <b>x</b>")
    expect(ended).to_contain_text("took")
    running = ask("hang")
    expect(running.locator(".badge")).to_have_text("at work")
    running.locator("button.what").click()
    shown.get_by_role("button", name="Stop").click()
    expect(shown.get_by_role("button", name="Delete")).to_be_visible()
    shown.get_by_role("button", name="Back").click()
    ended.locator("button.what").click()
    result = shown.locator(".panel-section", has_text="Result")
    expect(result.locator("strong")).to_have_text("zebra")  # rendered by the server
    assert result.locator("b").count() == 0
    accessible(page)
    shown.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(ended).to_have_count(0)


def test_usage_and_budgets_are_shown_and_more_is_allowed_after_a_question(
    page: Page, served: Served, browser: Browser, tmp_path: Path
) -> None:
    served.say("cli", "say hello")
    shown = panel(page, "budgets")
    expect(shown.get_by_role("button", name="Set a budget")).to_be_visible()
    expect(shown.locator("table").first).to_contain_text("groq")
    shown.get_by_role("tab", name="today").press("ArrowRight")
    expect(shown.locator("[role=tabpanel]:not([hidden]) table").first).to_contain_text("groq")
    accessible(page)
    with Served(tmp_path / "home", RUMI_BUDGET__TOTAL_USD_PER_DAY="2") as limited:
        other = browser.new_page()
        other.goto(limited.new_link())
        expect(other.locator("body[data-state=live]")).to_have_count(1)
        shown = panel(other, "budgets")
        budget = shown.locator("li", has_text="Everything together, per day")
        expect(budget).to_contain_text("$0.00 of $2.00")
        shown.get_by_role("button", name="Allow more today").click()
        dialog = other.get_by_role("dialog")
        dialog.get_by_role("button", name="Allow more today").click()
        expect(dialog.last).to_contain_text("Allow 1 usd more for the chat cli?")
        dialog.last.get_by_role("button", name="Allow more today").click()
        expect(budget).to_contain_text("of $3.00")
        other.close()


def test_the_status_is_in_words_and_stop_everything_asks(page: Page, served: Served) -> None:
    shown = panel(page, "status")
    expect(shown.locator(".headline")).to_have_text("All well")
    shown.locator(".engineer > summary").click()
    expect(shown.locator("td, th", has_text="chats").first).to_be_visible()
    served.say("elsewhere", "hang")
    expect(shown.get_by_role("status")).to_contain_text("One chat is at work.")
    accessible(page)
    happened = time.time()
    served.crash("crashing")
    expect(shown.locator(".restarted")).to_contain_text("chats/crashing restarted", timeout=5000)
    assert time.time() - happened < 5
    shown.get_by_role("button", name="Stop everything").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop everything").click()
    expect(page.locator(".toast").last).to_contain_text("Stopped 1 turn")
    expect(shown.get_by_role("status")).to_contain_text("Nothing is at work.")
    page.keyboard.press("Escape")
    expect(page.locator("#drawer")).to_be_hidden()
