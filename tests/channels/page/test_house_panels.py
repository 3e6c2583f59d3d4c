"""The panels that manage the house, in Chromium: what is done by the keyboard or by a press is stored."""

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Error, Locator, Page, expect

from rumi.agent.mcp.messages import RemoteTool, ServerSettings
from rumi.agent.mcp.pins import AcceptedTools
from rumi.platform.config.schema import McpSection
from rumi.platform.home import Home
from tests.channels.page.axe import violations_in_both_schemes
from tests.channels.page.served import Served, script
from tests.fakes.groq_server import KEY

pytestmark = pytest.mark.browser

OPEN = f"async (name) => (await import({script('drawer/drawer.js')})).openPanel(name)"
CALL = f"async (fields) => (await import({script('connection.js')})).call(...fields)"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A house with a guest, a server whose tool has changed since it was accepted, and a dead server."""
    home = Home(tmp_path_factory.mktemp("panels") / "home").make()
    words = [sys.executable, "-m", "tests.fakes.mcp_http", "official"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        (home.root / "config.toml").write_text(
            "[people.guest1]\ntelegram = [11111111]\nrole = 'guest'\n"
            f"[mcp.echoes]\nurl = '{url}'\n[mcp.away]\nurl = 'http://127.0.0.1:1/mcp'\n"
        )
        before = RemoteTool("echo", "Return nothing.", {})
        AcceptedTools(home.root).accept(ServerSettings("echoes", McpSection(url=url)), [before])
        try:
            with Served(home.root) as served:
                yield served
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def window(browser: Browser, served: Served) -> Iterator[Page]:
    """A window that has just come in. It may not complain."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    complaints = list[str]()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(served.new_link())
    expect(page.locator("body")).to_have_attribute("data-state", "live")
    yield page
    context.close()
    assert complaints == []


def opened(page: Page, name: str) -> Locator:
    page.evaluate(OPEN, name)
    panel = page.locator(f".panel.{name}")
    expect(panel).to_be_visible()
    return panel


def call(page: Page, *fields: object) -> Any:
    return page.evaluate(CALL, list(fields))


def test_a_fact_is_added_found_changed_and_forgotten_by_the_keyboard(window: Page) -> None:
    panel = opened(window, "memory")
    panel.get_by_role("button", name="Add a fact").press("Enter")
    window.keyboard.type("dentist")
    window.keyboard.press("Tab")
    window.keyboard.type("on Mondays\nnear the station")
    window.get_by_role("dialog").get_by_role("button", name="Save").press("Enter")
    row = panel.locator("[data-key=dentist]")
    expect(row).to_contain_text("on Mondays")
    panel.get_by_role("searchbox").fill("NOTHING")
    expect(panel).to_contain_text("Nothing was found.")
    panel.get_by_role("searchbox").fill("MONDAYS")
    row.locator(".what").press("Enter")
    expect(window.get_by_role("dialog")).to_contain_text("told to Rumi")
    window.keyboard.press("Control+A")
    window.keyboard.type("on Fridays")
    window.get_by_role("dialog").get_by_role("button", name="Save").press("Enter")
    expect(window.get_by_role("dialog")).to_have_count(0)
    assert [fact["value"] for fact in call(window, "memory", "list")["facts"]] == ["on Fridays"]
    panel.get_by_role("searchbox").fill("")
    assert violations_in_both_schemes(window) == []
    row.get_by_role("button", name="Actions").press("Enter")
    window.keyboard.press("ArrowDown")
    window.keyboard.press("Enter")
    expect(window.get_by_role("dialog")).to_contain_text("on Mondays")
    window.keyboard.press("Escape")
    # The question to forget everything must be typed.
    panel.get_by_role("button", name="Forget everything").press("Enter")
    window.keyboard.type("yes")
    window.keyboard.press("Enter")
    expect(window.get_by_role("dialog")).to_contain_text("Type: forget everything")
    window.keyboard.press("Escape")
    assert call(window, "memory", "list")["all"] == 1
    row.get_by_role("button", name="Actions").press("Enter")
    window.keyboard.press("End")
    window.keyboard.press("Enter")
    window.get_by_role("dialog").get_by_role("button", name="Forget").press("Enter")
    expect(panel).to_contain_text("remembers nothing about you yet")


def test_a_skill_is_read_and_switched_and_a_projects_skill_is_trusted_after_its_text(
    window: Page, served: Served
) -> None:
    project = served.folder / "project"
    for name in ("moss", "torn"):
        folder = project / ".rumi" / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: About moss.\n---\nWater it.\n")
    (project / ".rumi" / "skills" / "torn" / "SKILL.md").write_text("nothing")
    panel = opened(window, "skills")
    switch = panel.get_by_role("switch", name="Use the skill explain")
    expect(switch).to_be_checked()
    switch.press("Space")
    expect(panel.locator("[data-key='bundled/explain'] .unseen")).to_have_text("off")
    assert {s["name"]: s["state"] for s in call(window, "skills", "list")["skills"]}["explain"] == "off"
    switch.press("Space")
    expect(panel.locator("[data-key='bundled/explain'] .unseen")).to_have_text("on")
    panel.get_by_text("Skills of a project").click()
    panel.get_by_label("Folder of the project").fill(str(project))
    panel.get_by_role("button", name="Show its skills").press("Enter")
    row = panel.locator("[data-key='project/moss']")
    expect(row).to_contain_text("waits for your trust")
    expect(panel.locator(".notice.bad")).to_contain_text("torn")
    assert violations_in_both_schemes(window) == []
    row.locator(".what").press("Enter")
    expect(window.locator(".skill-text .whole")).to_contain_text("Water it.")
    window.get_by_role("button", name="Trust it…").press("Enter")
    question = window.get_by_role("dialog", name="Trust the skill moss?")
    expect(question).to_contain_text("Water it.")
    question.get_by_role("button", name="Trust it").press("Enter")
    expect(question).to_have_count(0)
    window.keyboard.press("Escape")
    expect(row).not_to_contain_text("waits for your trust")


def test_a_changed_tool_is_accepted_after_its_change_is_read_and_a_dead_server_says_why(window: Page) -> None:
    panel = opened(window, "servers")
    panel.get_by_text("How to add a server").click()
    expect(panel.get_by_text("rumi mcp add NAME -- COMMAND")).to_be_visible()
    dialog = window.get_by_role("dialog")
    panel.locator("[data-key=away] .what").press("Enter")
    dialog.get_by_role("button", name="Test it and read its tools").press("Enter")
    expect(dialog.locator(".notice.bad")).to_be_visible()
    window.keyboard.press("Escape")
    panel.locator("[data-key=echoes] .what").press("Enter")
    dialog.get_by_role("button", name="Test it and read its tools").press("Enter")
    expect(dialog.locator("del", has_text="Return nothing.")).to_be_visible()
    expect(dialog.locator("ins", has_text="Return the text.")).to_be_visible()
    assert violations_in_both_schemes(window) == []
    with pytest.raises(Error, match="describes its tools differently now"):
        call(window, "mcp", "accept", {"name": "echoes", "digest": "of something else"})
    dialog.get_by_role("button", name="Accept these tools").press("Enter")
    expect(dialog).to_contain_text("The server works")
    window.keyboard.press("Escape")
    assert all(tool["accepted"] for tool in call(window, "mcp", "test", {"name": "echoes"})["tools"])


def test_a_model_is_tested_and_chosen_and_no_key_is_shown(window: Page) -> None:
    panel = opened(window, "models")
    rows = panel.locator(".list").first.locator("li")
    expect(rows.first).to_contain_text("this chat")
    expect(rows.first).to_contain_text("key set")
    rows.first.get_by_role("button", name="Actions").press("Enter")
    window.keyboard.press("End")
    window.keyboard.press("Enter")
    expect(rows.first).to_contain_text(re.compile("answered in|no answer"))
    panel.get_by_text("More models").click()
    panel.get_by_label("Another model").fill("nonsense")
    panel.get_by_role("button", name="Use in this chat").press("Enter")
    expect(panel.locator(".notice.bad")).to_be_visible()
    panel.get_by_label("Another model").fill("offline")
    panel.get_by_role("button", name="Use in this chat").press("Enter")
    expect(panel).to_contain_text("This chat uses the demo model.")
    assert call(window, "models", "chosen", {"chat": "cli"})["model"] == "offline"
    assert KEY not in window.content()
    assert violations_in_both_schemes(window) == []


def test_a_person_is_added_changed_and_removed_and_roles_are_in_words(window: Page) -> None:
    panel = opened(window, "people")
    expect(panel.locator("[data-key='guest1/true']")).to_contain_text("11111111")
    panel.get_by_text("guest", exact=True).last.click()
    expect(panel.locator(".may")).to_contain_text("May have no schedules or reminders.")
    panel.get_by_role("button", name="Add a person").first.press("Enter")
    dialog = window.get_by_role("dialog")
    dialog.get_by_label("Name").fill("guest1")
    dialog.get_by_label("Telegram ids").fill("me")
    dialog.get_by_role("button", name="Save").press("Enter")
    expect(dialog).to_contain_text("Enter numbers")
    dialog.get_by_label("Telegram ids").fill("22222222")
    dialog.get_by_role("button", name="Save").press("Enter")
    expect(dialog).to_contain_text("There is a person guest1 already. Choose another name.")
    dialog.get_by_label("Name").fill("guest2")
    dialog.get_by_role("button", name="Save").press("Enter")
    row = panel.locator("[data-key='guest2/true']")
    expect(row).to_contain_text("member")
    assert violations_in_both_schemes(window) == []
    row.get_by_role("button", name="Actions").press("Enter")
    window.keyboard.press("End")
    window.keyboard.press("Enter")
    dialog.get_by_role("button", name="Remove").press("Enter")
    expect(row).to_have_count(0)


def test_settings_are_stored_where_they_are_changed_and_say_what_they_wait_for(window: Page) -> None:
    panel = opened(window, "settings")
    panel.get_by_label("Colours").select_option("dark")
    expect(window.locator("html")).to_have_attribute("data-theme", "dark")
    window.reload()
    expect(window.locator("html")).to_have_attribute("data-theme", "dark")
    panel = opened(window, "settings")
    panel.get_by_label("Colours").select_option("")
    panel.get_by_text("Undo", exact=True).click()
    field = panel.get_by_label("How many turns of each chat can be undone.")
    field.fill("-1")
    field.press("Tab")
    setting = panel.locator(".setting", has_text="How many turns of each chat can be undone.")
    expect(setting).to_contain_text("Enter at least 0.")
    field.fill("7")
    field.press("Tab")
    expect(setting).to_contain_text("Waits for the next start")
    assert {one["name"]: one["value"] for one in call(window, "settings", "list")}["undo.turns"] == 7
    assert violations_in_both_schemes(window) == []
    setting.get_by_role("button", name="Back to the default").press("Enter")
    expect(setting).not_to_contain_text("Waits for the next start")


def test_another_browser_logs_in_with_the_pages_link_and_is_logged_out_here(
    window: Page, browser: Browser
) -> None:
    panel = opened(window, "logins")
    expect(panel.locator(".list li")).to_have_count(1)
    panel.get_by_role("button", name="Log in another browser").press("Enter")
    dialog = window.get_by_role("dialog")
    expect(dialog.get_by_role("img", name="QR code of the login link")).to_be_visible()
    assert violations_in_both_schemes(window) == []
    link = dialog.locator(".command code").inner_text()
    window.keyboard.press("Escape")
    other = browser.new_page()
    other.goto(link)
    expect(other.locator("body")).to_have_attribute("data-state", "live")
    window.evaluate(f"async () => (await import({script('drawer/drawer.js')})).close()")
    panel = opened(window, "logins")
    expect(panel.locator(".list li")).to_have_count(2)
    expect(panel.locator(".list li").first).to_contain_text("This browser")
    panel.locator(".list li").last.get_by_role("button", name="Log out").press("Enter")
    window.get_by_role("dialog").get_by_role("button", name="Log out").press("Enter")
    expect(panel.locator(".list li")).to_have_count(1)
    other.reload()
    expect(other).to_have_title(re.compile("Closed"))
    other.close()
