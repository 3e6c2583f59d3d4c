"""The composer in Chromium: drafts, the queue, completion, files, and what is sent while nobody answers."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.channels.page.served import Served

pytestmark = pytest.mark.browser

PASTE = """([text, name]) => {
    const data = new DataTransfer();
    if (name) data.items.add(new File([text], name, { type: "text/plain" }));
    else data.setData("text/plain", text);
    const event = new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true });
    document.getElementById("message").dispatchEvent(event);
}"""

DROP = """(kind) => {
    const data = new DataTransfer();
    data.items.add(new File(["dropped"], "dropped.txt", { type: "text/plain" }));
    const about = { dataTransfer: data, bubbles: true, cancelable: true };
    document.getElementById("log").dispatchEvent(new DragEvent(kind, about));
}"""


@pytest.fixture
def page(browser: Browser, served: Served, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A window at a chat of its own."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto(served.new_link())
    go(page, f"{served.url}/?chat={re.sub('[^a-z]', '-', request.node.name)[5:45]}")
    yield page
    context.close()


def go(page: Page, url: str) -> None:
    page.goto(url)
    expect(page.locator("body[data-state=live]")).to_be_attached()


def say(page: Page, text: str) -> None:
    page.fill("#message", text)
    page.press("#message", "Enter")


def complaints(page: Page) -> list[tuple[str, str]]:
    found = Axe().run(page).response["violations"]
    return [(violation["id"], violation["nodes"][0]["html"]) for violation in found]


def test_drafts_with_files_stay_with_their_chat_over_reloads_and_in_other_windows(page: Page) -> None:
    here = page.url
    page.evaluate(PASTE, ["word " * 4000, None])  # 20,000 characters
    expect(page.locator("#chosen li")).to_contain_text("20.0 KB")
    page.fill("#message", "see the file")
    page.wait_for_timeout(400)
    go(page, f"{here}-other")
    expect(page.locator("#message")).to_have_value("")
    expect(page.locator("#chosen li")).to_have_count(0)
    go(page, here)
    expect(page.locator("#message")).to_have_value("see the file")
    expect(page.locator("#chosen li")).to_contain_text("pasted-1.txt")
    other = page.context.new_page()
    go(other, here)
    other.fill("#message", "newer")
    expect(other.locator("#message")).to_have_value("newer")
    other.wait_for_timeout(400)
    page.close()  # it has the older text, and must not bring it back
    other.reload()
    expect(other.locator("#message")).to_have_value("newer")
    other.get_by_role("button", name="Edit pasted-1.txt as text").click()
    expect(other.locator("#chosen li")).to_have_count(0)
    assert other.input_value("#message") == "word " * 4000 + "\n\nnewer"
    other.fill("#message", "x" * 30_001)
    expect(other.locator("#length")).to_contain_text("at most 30,000 fit")
    expect(other.locator("#send")).to_be_disabled()
    other.get_by_role("button", name="Send it as a file").click()
    expect(other.locator("#chosen li")).to_contain_text("30.0 KB")


def test_what_waits_is_edited_and_dropped_and_one_button_stops_and_sends(page: Page) -> None:
    send = page.locator("#send")
    expect(send).to_have_text("Send")
    say(page, "hang")
    expect(send).to_have_text("Stop")
    page.fill("#message", "say first")
    expect(send).to_have_text("Send")
    send.click()
    say(page, "say second")
    other = page.context.new_page()
    go(other, page.url)
    for window in (page, other):
        expect(window.locator("#queue li")).to_have_count(2)
    expect(page.locator("#queue li").first).to_contain_text("say first")
    assert complaints(page) == []
    page.locator("#queue li").first.get_by_role("button", name="Drop this message").click()
    for window in (page, other):
        expect(window.locator("#queue li")).to_have_count(1)
    page.press("#message", "ArrowUp")
    expect(page.locator("#message")).to_have_value("say second")
    for window in (page, other):
        expect(window.locator("#queue li")).to_have_count(0)
    page.fill("#message", "")
    expect(send).to_have_text("Stop")
    page.press("#message", "Escape")
    expect(page.locator(".entry.answer").last).to_contain_text("Stopped")
    expect(send).to_have_text("Send")
    page.press("#message", "ArrowUp")
    expect(page.locator("#message")).not_to_have_value("")


def test_commands_and_files_are_completed_and_mentioned_files_go_with_the_message(
    page: Page, served: Served
) -> None:
    chat = page.url.partition("chat=")[2]
    folder = served.folder / "workspace" / chat
    folder.mkdir(parents=True)
    (folder / "two words.txt").write_text("milk")
    page.locator("#message").press_sequentially("/st")
    offers = page.locator("#offers [role=option]")
    expect(offers).to_have_text(["/stopstop what is running", "/statuswhat it is doing"])
    assert complaints(page) == []
    page.press("#message", "ArrowDown")
    page.press("#message", "Enter")
    assert page.input_value("#message") == "/status "
    page.fill("#message", "/reset")
    page.press("#message", "Escape")
    page.fill("#message", "")
    page.locator("#message").press_sequentially("say @tw")
    expect(offers).to_have_text(["two words.txt"])
    offers.first.click()
    assert page.input_value("#message") == 'say @"two words.txt" '
    page.press("#message", "Enter")
    expect(page.locator(".entry.you").last).to_contain_text("two words.txt")
    expect(page.locator(".entry.you .file")).to_have_count(1)
    say(page, "say @two_word.txt")
    refused = page.locator("#pending .entry")
    expect(refused).to_contain_text("Did you mean @two words.txt?")
    refused.get_by_role("button", name="Send it as it is").click()
    expect(page.locator(".entry.answer.done").last).to_contain_text("@two_word.txt")
    expect(page.locator("#pending .entry")).to_have_count(0)


def test_enter_sends_nothing_while_an_input_method_composes(page: Page) -> None:
    page.fill("#message", "にほん")
    page.dispatch_event("#message", "keydown", {"key": "Enter", "isComposing": True, "keyCode": 229})
    page.dispatch_event("#message", "keydown", {"key": "Enter", "keyCode": 229})
    page.press("#message", "Shift+Enter")
    assert page.input_value("#message") == "にほん\n"
    page.keyboard.insert_text("x" * 4000)
    box = page.locator("#message").bounding_box()
    assert box is not None
    assert 250 < box["height"] <= 320  # it grows with wrapped text, to 40 % of the window


def test_files_are_dropped_uploaded_previewed_attached_and_deleted(
    page: Page, served: Served, tmp_path: Path
) -> None:
    page.evaluate(DROP, "dragenter")
    expect(page.locator("#drop")).to_be_visible()
    page.evaluate(DROP, "drop")
    expect(page.locator("#drop")).to_be_hidden()
    expect(page.locator("#chosen li")).to_contain_text("dropped.txt")
    served.page.uploads.max_bytes, before = 100_000, served.page.uploads.max_bytes
    (tmp_path / "big.bin").write_bytes(bytes(300_000))
    try:
        page.set_input_files("#attached", [tmp_path / "big.bin"])
        expect(page.locator(".toast")).to_contain_text("big.bin was not uploaded: It is larger than")
    finally:
        served.page.uploads.max_bytes = before
    page.get_by_role("button", name="Upload big.bin again").click()
    expect(page.locator("#chosen li").last).to_contain_text("300.0 KB")
    page.get_by_role("button", name="Remove big.bin").click()
    expect(page.locator("#chosen li")).to_have_count(1)
    say(page, "say got it")
    expect(page.locator("#chosen li")).to_have_count(0)
    expect(page.locator(".entry.you .file")).to_contain_text("dropped.txt")
    folder = served.folder / "workspace" / page.url.partition("chat=")[2]
    (folder / "sums.csv").write_text("name;sum\n<b>water</b>;184,20\npower;411,75\n")
    page.click("#show-files")
    page.locator("#files-list .what", has_text="sums.csv").click()
    expect(page.locator(".file-table tbody tr").first).to_have_text("<b>water</b>184,20")
    assert complaints(page) == []
    page.get_by_role("button", name="Back", exact=True).click()
    page.locator("#files-list .what", has_text="dropped.txt").click()
    expect(page.locator(".numbered .line")).to_have_text(["dropped\n"])
    page.get_by_role("button", name="Actions: dropped.txt").click()
    page.get_by_role("menuitem", name="Attach to the message").click()
    expect(page.locator("#chosen li")).to_contain_text("dropped.txt")
    page.get_by_role("button", name="Actions: dropped.txt").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator("#files-list .what")).to_have_count(2)  # big.bin and sums.csv
    assert not (folder / "dropped.txt").exists()


@pytest.mark.long
def test_six_windows_of_a_browser_are_answered_and_the_sixth_stops_its_turn(page: Page) -> None:
    windows = [page, *(page.context.new_page() for _ in range(5))]
    for number, window in enumerate(windows):
        if number:
            go(window, f"{page.url}-{number}")
        say(window, f"say window {number}")
        expect(window.locator(".entry.answer.done").last).to_contain_text(f"window {number}")
    say(windows[5], "hang")
    windows[5].locator("#send[data-does=stop]").click()
    expect(windows[5].locator(".entry.answer").last).to_contain_text("Stopped")


PROGRAM = """
import os, pathlib, signal
from rumi.channels.page.transcript import Transcript
from rumi.cli import main
said = Transcript.said
def planted(self, number, text, *more):
    died = pathlib.Path(os.environ["RUMI_HOME"]) / "died"
    if text == "die once" and not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)  # the message is stored, and its sender not told
    return said(self, number, text, *more)
Transcript.said = planted
main()
"""


@pytest.mark.long
@pytest.mark.bubblewrap
def test_what_is_sent_to_a_frozen_or_killed_server_is_taken_once(browser: Browser, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        where = f"127.0.0.1:{free.getsockname()[1]}"
    config = 'language = "en"\n[model]\ndefault = "offline"\n[sandbox]\nbackend = "bubblewrap"\n'
    (tmp_path / "config.toml").write_text(config)
    tmp_path.chmod(0o700)
    told = tmp_path / "told"

    def start() -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-c", PROGRAM, "serve", "--no-telegram", "--web", where]
        with told.open("w") as out:
            started = subprocess.Popen(
                command, env={**os.environ, "RUMI_HOME": str(tmp_path)}, stdout=out, stderr=out
            )
        end = time.monotonic() + 60
        while "/login?code=" not in told.read_text():
            assert time.monotonic() < end, told.read_text()
            time.sleep(0.05)
        return started

    rumi = start()
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(next(word for word in told.read_text().split() if "/login?code=" in word))
        expect(page.locator("body[data-state=live]")).to_be_attached()
        say(page, "before")
        answers = page.locator(".entry.answer.done")
        expect(answers).to_have_count(1)
        page.evaluate("document.querySelector('.entry.answer').dataset.read = 'yes'")

        rumi.send_signal(signal.SIGSTOP)
        say(page, "while it is frozen")
        sending = page.locator("#pending .entry", has_text="while it is frozen")
        expect(sending).to_contain_text("sending")
        expect(page.locator("body[data-state=lost]")).to_be_attached()  # the watchdog, after 25 s
        expect(page.locator("#banner")).to_contain_text("no connection")
        expect(sending).to_contain_text("I'll send it again")
        page.wait_for_timeout(4000)
        rumi.send_signal(signal.SIGCONT)
        expect(answers).to_have_count(2)
        expect(page.locator("body[data-state=live]")).to_be_attached()
        expect(page.locator(".entry.answer[data-read=yes]")).to_have_count(
            1
        )  # what was read was not replaced
        expect(sending).to_have_count(0)

        say(page, "die once")
        assert rumi.wait(30) == -signal.SIGKILL
        expect(page.locator("#pending .entry", has_text="die once")).to_be_visible()
        rumi = start()
        expect(page.locator("body[data-state=live]")).to_be_attached()
        expect(page.locator("#pending .entry")).to_have_count(0)
        expect(answers).to_have_count(3)
        for text in ("while it is frozen", "die once"):
            expect(page.locator(".entry.you", has_text=text)).to_have_count(1)

        # A window that was closed before its message was sent has left this.
        left = {"chat": "cli", "text": "from before", "files": [], "nonce": 77, "began": 1, "asItIs": False}
        page.evaluate("(left) => localStorage.setItem('rumi.unsent.77', JSON.stringify(left))", left)
        page.reload()
        expect(answers).to_have_count(4)
        expect(page.locator(".entry.you", has_text="from before")).to_have_count(1)
        assert page.evaluate("Object.keys(localStorage).filter((key) => key.includes('unsent')).length") == 0
    finally:
        context.close()
        rumi.send_signal(signal.SIGCONT)
        rumi.terminate()
        rumi.wait(30)
