"""Files that come in and go out through the page: over real sockets, and in Chromium."""

import base64
import os
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from rumi.store.journal.inbox import load_chat
from rumi.store.journal.records import ChatRecord
from tests.channels.page.served import Served
from tests.web.readers import files

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


@pytest.fixture
def workspace(served: Served) -> Path:
    return served.folder / "workspace"


def put(client: httpx.Client, chat: str, name: str, content: bytes = b"hello") -> httpx.Response:
    return client.post("/files", params={"chat": chat, "name": name}, content=content)


def record(served: Served, chat: str) -> ChatRecord:
    return served.run(served.app.services.journal.ask, load_chat(chat, 100))


def answered(served: Served, chat: str) -> None:
    served.until(lambda: chat not in served.app.services.pending.unreplied)


def test_a_file_that_comes_in_is_marked_before_any_message_names_it(
    served: Served, client: httpx.Client, workspace: Path
) -> None:
    served.say("marked", "say hello")
    answered(served, "marked")
    assert not record(served, "marked").files_tainted
    came = put(client, "marked", "../../etc/pass wd‮.txt")
    assert (came.status_code, came.json()) == (200, {"path": "pass_wd.txt", "size": 5})
    assert put(client, "marked", "pass wd.txt").json()["path"] == "pass_wd.txt"  # the same content
    assert (workspace / "marked" / "pass_wd.txt").read_bytes() == b"hello"
    assert record(served, "marked").files_tainted
    assert not record(served, "marked").tainted, "no turn has read it yet"
    served.say("marked", "sh cat pass_wd.txt")  # by the actor that was there before the file
    answered(served, "marked")
    assert record(served, "marked").tainted, "the command may have read it"


def test_a_message_with_a_file_is_tainted_as_on_telegram(served: Served, client: httpx.Client) -> None:
    path = put(client, "sent", "notes.txt").json()["path"]
    sent = client.post("/chat/send", json={"chat": "sent", "text": "say thanks", "files": [path]})
    assert sent.status_code == 200
    answered(served, "sent")
    found = record(served, "sent")
    contents = [entry.message.content for entry in found.history]
    assert contents[0] == "[The user sends files.]"
    (block,) = [entry for entry in found.history if "The user sent a file" in entry.message.content]
    assert "[The user sent a file: /workspace/notes.txt (text/plain, 5 bytes)]" in block.message.content
    assert 'source="a file that the user sent"' in block.message.content
    assert block.tainted
    assert found.tainted
    assert contents[-1] == "thanks"


def test_the_text_of_documents_from_the_page_reaches_the_model(served: Served, client: httpx.Client) -> None:
    paths = [
        put(client, "papers", name, content).json()["path"]
        for name, content in (("bill.pdf", files.pdf("hola pdf")), ("rent.xlsx", files.sheet(("rent", 500))))
    ]
    assert client.post("/chat/send", json={"chat": "papers", "text": "say thanks", "files": paths}).is_success
    answered(served, "papers")
    contents = "\n".join(entry.message.content for entry in record(served, "papers").history)
    assert "hola pdf" in contents
    assert "| rent | 500 |" in contents


def test_a_stopped_message_with_a_file_is_run_again_with_its_file(
    served: Served, client: httpx.Client
) -> None:
    path = put(client, "again", "notes.txt").json()["path"]
    client.post("/chat/send", json={"chat": "again", "text": "sh sleep 600", "files": [path]})
    turns = []
    for again in (False, True):
        if again:
            client.post("/chat/send", json={"chat": "again", "text": "/retry"})
        served.until(lambda: bool(served.app.services.hub.turn("again").calls))
        turns.append(served.do(lambda: served.app.services.hub.turn("again").turn))
        assert client.post("/chat/stop", json={"chat": "again"}).status_code in (200, 204)
        answered(served, "again")
    assert turns[0] != turns[1]
    history = record(served, "again").history
    for turn in turns:
        mine = [entry for entry in history if entry.turn == turn]
        assert mine[0].message.content == "[The user sends files.]"
        (block,) = [entry for entry in mine if "/workspace/notes.txt" in entry.message.content]
        assert block.tainted
        assert "sh sleep 600" in [entry.message.content for entry in mine]
        assert mine[-1].message.content.endswith("[stopped: this attempt ended without an answer]")


@pytest.mark.parametrize("name", ["../marked/x", "/etc/passwd", "no-such-file"])
def test_a_message_names_no_file_of_another_place(served: Served, client: httpx.Client, name: str) -> None:
    chat = f"names{len(name)}"
    client.post("/chat/send", json={"chat": chat, "text": "say hi", "files": [name]})
    answered(served, chat)
    assert "The user sent a file" not in str(record(served, chat).history)


def test_a_file_that_is_too_large_leaves_nothing(
    client: httpx.Client, workspace: Path, served: Served
) -> None:
    served.page.uploads.max_bytes = 100_000
    try:
        answer = put(client, "large", "big.bin", bytes(3_000_000))
    except httpx.WriteError:  # the server has closed the connection already
        pass
    else:
        assert answer.status_code == 409
        assert "larger than" in answer.json()["error"]
    finally:
        served.page.uploads.max_bytes = 50_000_000
    assert not (workspace / "large" / "big.bin").exists()


def test_downloads_are_stored_and_never_shown(client: httpx.Client, workspace: Path) -> None:
    folder = workspace / "down"
    (folder / "deep").mkdir(parents=True)
    content = os.urandom(600_000)
    (folder / "deep" / "página <b>.html").write_bytes(content)
    got = client.get("/files/download", params={"chat": "down", "path": "deep/página <b>.html"})
    assert (got.status_code, got.content) == (200, content)
    assert got.headers["content-type"] == "application/octet-stream"
    assert got.headers["content-disposition"] == "attachment; filename*=UTF-8''p%C3%A1gina_b_.html"
    assert got.headers["x-content-type-options"] == "nosniff"
    listed = client.get("/files", params={"chat": "down"}).json()
    assert [(file["name"], file["folder"]) for file in listed["files"]] == [("deep", True)]
    (inner,) = client.get("/files", params={"chat": "down", "folder": "deep"}).json()["files"]
    assert (inner["name"], inner["size"]) == ("página <b>.html", 600_000)


def test_what_commands_left_there_leads_nowhere(client: httpx.Client, workspace: Path) -> None:
    folder = workspace / "traps"
    folder.mkdir()
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "out").symlink_to("/etc")
    os.mkfifo(folder / "pipe")
    (folder / "bad\udcff").write_text("x")
    for path in ("link", "out/passwd", "pipe", "../traps/link", "/etc/passwd", "", "none", "a\0b", "."):
        for what in ("download", "picture"):
            answer = client.get(f"/files/{what}", params={"chat": "traps", "path": path})
            assert answer.status_code == 404, path
    for path in ("out", "..", "/etc"):
        assert client.get("/files", params={"chat": "traps", "folder": path}).status_code == 404
    assert client.get("/files", params={"chat": "traps"}).json() == {"files": [], "left_out": 4}


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0JFIF", "image/jpeg"),
        (b"GIF89a...", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", "image/svg+xml"),
        (b"<?xml version='1.0'?>\n<!-- a -->\n<svg></svg>", "image/svg+xml"),
        (b"<p><svg></svg>", ""),
        (b"<html><script>alert(1)</script>", ""),
        (b"", ""),
    ],
)
def test_only_pictures_without_code_are_shown(client: httpx.Client, content: bytes, kind: str) -> None:
    path = put(client, "pictures", "x.png", content).json()["path"]
    answer = client.get("/files/picture", params={"chat": "pictures", "path": path})
    assert answer.status_code == (200 if kind else 415)
    assert answer.headers["content-type"] == (kind or "application/json")
    assert answer.headers["x-content-type-options"] == "nosniff"
    policy = answer.headers["content-security-policy"]
    if kind:
        assert policy == "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"
    else:
        assert "script-src 'self'" in policy


def test_files_of_other_owners_and_from_other_sites_are_refused(served: Served, client: httpx.Client) -> None:
    for answer in (
        put(client, "tg5", "x"),
        client.get("/files", params={"chat": "tg5"}),
        client.get("/files/download", params={"chat": "tg5", "path": "x"}),
    ):
        assert answer.status_code == 404
    given = {"chat": "cli", "name": "x"}
    for headers in ({"Origin": "http://evil.test"}, {"Sec-Fetch-Site": "cross-site"}):
        assert client.post("/files", params=given, content=b"x", headers=headers).status_code == 403
    assert httpx.post(f"{served.url}/files", params=given, content=b"x").status_code == 403
    with httpx.Client(base_url=served.url, headers={"Origin": served.url}) as stranger:
        assert stranger.post("/files", params=given, content=b"x").status_code == 403
        assert stranger.get("/files/download", params={"chat": "cli", "path": "x"}).status_code == 403


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, accept_downloads=True)
    page = context.new_page()
    page.goto(served.new_link())
    page.goto(f"{served.url}/?chat=browsed")
    expect(page.locator("#connection")).to_have_text("live")
    yield page
    context.close()


@pytest.mark.long
@pytest.mark.browser
def test_a_person_attaches_sees_and_downloads_files(page: Page, tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(PNG)
    (tmp_path / "notes.txt").write_text("remember the milk")
    page.set_input_files("#attached", [tmp_path / "dot.png", tmp_path / "notes.txt"])
    expect(page.locator("#chosen li")).to_have_count(2)
    expect(page.locator("#chosen")).to_contain_text("17 B")
    page.fill("#message", "say got them")
    page.press("#message", "Enter")
    expect(page.locator("#chosen li")).to_have_count(0)
    expect(page.locator(".entry.answer.done").last).to_contain_text("got them")
    for _ in range(2):  # as it is sent, and as the history has it
        mine = page.locator("#log .file")
        expect(mine).to_have_count(2)
        mine.first.locator("summary").click()
        picture = mine.first.locator("img")
        expect(picture).to_be_visible()
        assert picture.evaluate("each => each.decode().then(() => each.naturalWidth)") == 1
        page.reload()
    with page.expect_download() as downloaded:
        page.locator("#log .file a", has_text="notes.txt").click()
    assert downloaded.value.suggested_filename == "notes.txt"
    assert Path(downloaded.value.path()).read_text() == "remember the milk"
    page.click("#open-files")
    expect(page.locator("#files-list li")).to_have_count(2)
    expect(page.locator("#files-list")).to_contain_text(re.compile("dot.png.*notes.txt", re.DOTALL))


@pytest.mark.browser
def test_a_file_that_is_refused_says_why_and_a_removed_one_is_not_sent(
    page: Page, served: Served, tmp_path: Path
) -> None:
    (tmp_path / "big.bin").write_bytes(bytes(300_000))
    served.page.uploads.max_bytes = 100_000
    try:
        page.set_input_files("#attached", [tmp_path / "big.bin"])
        expect(page.locator("#notice")).to_contain_text("big.bin was not uploaded")
    finally:
        served.page.uploads.max_bytes = 50_000_000
    expect(page.locator("#chosen li")).to_have_count(0)
    (tmp_path / "small.txt").write_text("x")
    page.set_input_files("#attached", [tmp_path / "small.txt"])
    expect(page.locator("#chosen")).to_contain_text("1 B")
    page.get_by_role("button", name="Remove small.txt").click()
    page.fill("#message", "say without")
    page.press("#message", "Enter")
    expect(page.locator(".entry.you").last).to_have_text("say without")


DRAWING = """<svg xmlns="http://www.w3.org/2000/svg" width="90" height="40">
<script>document.title = "run"; fetch("/chats")</script><rect width="90" height="40" fill="red"/></svg>"""


@pytest.mark.long
@pytest.mark.browser
def test_a_pasted_picture_has_a_preview_and_a_shown_chart_stands_in_the_answer(
    page: Page, workspace: Path
) -> None:
    page.evaluate(
        """([name, data]) => {
            const bytes = Uint8Array.from(atob(data), (each) => each.charCodeAt(0));
            const pasted = new DataTransfer();
            pasted.items.add(new File([bytes], name, { type: "image/png" }));
            const event = new ClipboardEvent("paste", { clipboardData: pasted, bubbles: true });
            document.getElementById("message").dispatchEvent(event);
        }""",
        ["shot.png", base64.b64encode(PNG).decode()],
    )
    preview = page.get_by_alt_text("Preview of shot.png")
    expect(preview).to_be_visible()
    assert preview.evaluate("each => each.decode().then(() => each.naturalWidth)") == 1
    (workspace / "browsed" / "chart.svg").write_text(DRAWING)
    page.fill("#message", "send chart.svg")
    page.press("#message", "Enter")
    expect(page.locator("#chosen li")).to_have_count(0)
    expect(page.locator(".entry.answer.done").last).to_contain_text("sent chart.svg")
    chart = page.locator(".tool .file img[alt='chart.svg']")
    expect(chart).to_be_visible()
    assert chart.evaluate("each => each.decode().then(() => each.naturalWidth)") == 90
    title = page.title()
    other = page.context.new_page()
    other.goto(page.url.split("?")[0] + "files/picture?chat=browsed&path=chart.svg")
    other.wait_for_timeout(200)
    assert "run" not in (page.title(), other.title())
    assert page.title() == title
