"""The page's parts in Chromium: menus, dialogs, fields, lists, tabs, toasts and the columns, by keyboard."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from tests.channels.page.axe import violations, violations_in_both_schemes
from tests.channels.page.parts.server import parts

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with parts() as address:
        yield address


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """The page of all parts; it may complain of nothing."""
    page = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    complaints: list[str] = []

    def console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    page.on("console", console)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(address)
    expect(page.locator("#model")).to_be_visible()
    yield page
    page.close()
    assert complaints == []


def done(page: Page) -> list[object]:
    """What was done since the last look."""
    found: list[object] = page.evaluate("done.splice(0)")
    return found


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def focused(page: Page) -> str:
    text: str = page.evaluate("document.activeElement.ariaLabel || document.activeElement.innerText || ''")
    return text.split("\n", 1)[0]


def test_a_menu_is_used_by_keys_alone(page: Page) -> None:
    page.evaluate("addEventListener('keydown', (event) => event.key === 'Escape' && done.push('Escape'))")
    more = page.locator("#side .list [aria-haspopup]").nth(1)
    more.focus()
    press(page, "Enter")
    expect(more).to_have_attribute("aria-expanded", "true")
    assert focused(page) == "Rename"
    press(page, "ArrowUp")
    assert focused(page) == "Delete"
    press(page, "ArrowDown", "p")
    assert focused(page) == "Pin"
    assert violations_in_both_schemes(page) == []
    press(page, "Escape")
    expect(page.get_by_role("menu")).to_have_count(0)
    assert focused(page) == "Actions: Trip to Lisbon"
    press(page, "ArrowDown", "e", "Enter")
    press(page, "ArrowUp", "ArrowUp", "Enter")  # what is disabled does nothing
    expect(page.get_by_role("menu")).to_have_count(1)
    press(page, "Tab")
    expect(page.get_by_role("menu")).to_have_count(0)
    assert done(page) == ["export"]  # and Escape reached nobody else
    page.click("#model")
    expect(page.get_by_role("menuitemradio", checked=True)).to_contain_text("gpt-oss-120b")
    box = page.get_by_role("menu").bounding_box()
    assert box
    assert box["x"] + box["width"] <= 1440
    page.mouse.click(700, 700)
    expect(page.get_by_role("menu")).to_have_count(0)


def test_a_dialog_keeps_the_focus_says_errors_and_returns_what_was_typed(page: Page) -> None:
    primary = page.get_by_role("button", name="Primary")
    primary.focus()
    press(page, "Enter")
    title = page.get_by_role("textbox", name="Title")
    expect(title).to_be_focused()
    title.fill("")
    press(page, "Enter")
    expect(title).to_have_attribute("aria-invalid", "true")
    expect(title).to_have_accessible_description("Fill this in.")
    title.fill("taken")
    press(page, "Enter")
    expect(page.get_by_role("alert").filter(has_text="Another chat has this title.")).to_be_visible()
    assert violations_in_both_schemes(page) == []
    for _ in range(6):  # not out of the dialog; Chromium may visit its own bar
        press(page, "Tab")
        assert page.evaluate(
            "document.activeElement === document.body || !!document.activeElement.closest('dialog')"
        )
    title.fill("Lisbon")
    press(page, "Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(primary).to_be_focused()
    press(page, "Enter", "Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert done(page) == ["Lisbon", None]


def test_a_confirmation_starts_on_cancel_and_its_toast_offers_undo(page: Page) -> None:
    danger = page.get_by_role("button", name="Danger")
    danger.click()
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    press(page, "Enter")
    expect(danger).to_be_focused()
    danger.click()
    press(page, "Tab", "Enter")
    toast = page.locator(".toasts[role=status] .toast")
    expect(toast).to_contain_text("The chat was deleted.")
    assert violations_in_both_schemes(page) == []
    toast.get_by_role("button", name="Undo").press("Enter")
    expect(toast).to_have_count(0)
    assert done(page) == [False, True, "undo"]
    busy = page.locator("#busy")
    busy.click()
    expect(busy).to_have_attribute("aria-busy", "true")
    expect(busy).to_be_focused()
    expect(busy).not_to_have_attribute("aria-busy", "true")


def test_the_drawer_lies_beside_the_talk_or_over_it_with_tabs_lists_and_fields(page: Page) -> None:
    expect(page.locator("#drawer")).to_be_hidden()
    status = page.get_by_role("button", name="Status")
    status.press("Enter")
    assert focused(page) == "Close"
    assert page.locator("#talk").get_attribute("inert") is None
    page.get_by_role("tab", name="Lists").focus()
    assert violations(page) == []
    press(page, "ArrowRight")
    expect(page.get_by_role("tab", name="Tables")).to_have_attribute("aria-selected", "true")
    page.get_by_role("button", name="stopped").focus()
    kept = {"chat": "work-notes", "tokens": 900, "end": "stopped"}
    page.evaluate("(rows) => trees.update(rows)", [kept, {"chat": "new", "tokens": 1, "end": "failed"}])
    assert focused(page) == "stopped"
    expect(page.locator("tbody th")).to_have_text(["work-notes", "new"])
    assert violations(page) == []
    press(page, "Escape")
    expect(status).to_be_focused()
    status.press("Enter")
    page.get_by_role("tab", name="Tables").focus()
    press(page, "End")
    limit = page.get_by_label("Tokens a day")
    limit.fill("0")
    press(page, "Tab")
    expect(limit).to_have_accessible_description("Enter at least 1.")
    limit.fill("5")
    expect(limit).not_to_have_attribute("aria-invalid", "true")
    assert violations_in_both_schemes(page) == []
    page.set_viewport_size({"width": 1000, "height": 800})
    expect(page.locator("#talk")).to_have_attribute("inert", "")
    page.mouse.click(300, 500)
    expect(page.locator("#drawer")).to_be_hidden()
    expect(status).to_be_focused()
    assert done(page) == ["tables", "forms"]


def test_on_a_phone_the_talk_fills_the_screen_and_the_side_opens_over_it(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.locator("#side")).to_be_hidden()
    box = page.locator("#talk").bounding_box()
    assert box
    assert (box["x"], box["width"], box["height"]) == (0, 390, 844)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.get_by_role("button", name="Chats").press("Enter")
    assert focused(page) == "New chat"
    expect(page.locator("#talk")).to_have_attribute("inert", "")
    assert violations_in_both_schemes(page) == []
    press(page, "Escape")
    expect(page.locator("#side")).to_be_hidden()
    assert focused(page) == "Chats"
    page.get_by_role("button", name="Status").press("Enter")
    box = page.locator("#drawer").bounding_box()
    assert box
    assert box["width"] == 390
