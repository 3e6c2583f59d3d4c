"""Files that come in and go out through the page, over real sockets."""

import base64
import os
from pathlib import Path
from typing import Any

import httpx
import pypdfium2
import pytest

from rumi.store.journal.inbox import load_chat
from rumi.store.journal.records import ChatRecord
from rumi.store.journal.transcript import read_transcript
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


def test_previews_show_texts_tables_and_pages_and_nothing_beyond_their_limits(
    client: httpx.Client, workspace: Path
) -> None:
    folder = workspace / "shown"
    (folder / "sub").mkdir(parents=True)
    document = pypdfium2.PdfDocument.new()
    for size in ((300, 400), (400, 300)):
        document.new_page(*size)
    document.save(folder / "two.pdf")
    (folder / "long.txt").write_text("line\n" * 100_000)
    (folder / "a.csv").write_text('name;sum\n"a;b";1\n' + "x;2\n" * 600)
    (folder / "a.json").write_text('{"a":[1]}')
    (folder / "a.bin").write_bytes(bytes(range(256)))
    (folder / "a.png").write_bytes(PNG)
    (folder / "link.txt").symlink_to("long.txt")

    def preview(path: str) -> dict[str, Any]:
        found: dict[str, Any] = client.get("/files/preview", params={"chat": "shown", "path": path}).json()
        return found

    long = preview("long.txt")
    assert (long["kind"], long["size"], long["cut"], len(long["text"])) == ("text", 500_000, True, 200_000)
    table = preview("a.csv")
    assert (table["rows"][1], len(table["rows"]), table["cut"]) == (["a;b", "1"], 500, True)
    assert preview("a.json")["text"] == '{\n  "a": [\n    1\n  ]\n}'
    assert [preview(name)["kind"] for name in ("a.bin", "a.png", "two.pdf")] == ["other", "picture", "pdf"]
    assert "symbolic link" in preview("link.txt")["error"]

    def page_of(path: str, page: str) -> httpx.Response:
        return client.get("/files/page", params={"chat": "shown", "path": path, "page": page})

    second = page_of("two.pdf", "2")
    assert (second.headers["x-pages"], second.headers["content-type"]) == ("2", "image/jpeg")
    assert "sandbox" in second.headers["content-security-policy"]
    assert page_of("two.pdf", "3").status_code == page_of("a.png", "1").status_code == 409
    assert page_of("two.pdf", "-1").status_code == 400
    offered = client.get("/files/offers", params={"chat": "shown", "line": "see @a."}).json()["offers"]
    assert [offer["text"] for offer in offered] == ["@a.bin", "@a.csv", "@a.json", "@a.png"]


def test_a_file_is_deleted_by_its_own_name_only(client: httpx.Client, workspace: Path) -> None:
    folder = workspace / "deleted"
    (folder / "sub").mkdir(parents=True)
    outside = workspace / "outside.txt"
    outside.write_text("stays")
    (folder / "sub" / "a.txt").write_text("goes")
    (folder / "link.txt").symlink_to(outside)
    (folder / "way").symlink_to(workspace)

    def delete(path: str) -> int:
        return client.post("/files/delete", json={"chat": "deleted", "path": path}).status_code

    refused = (
        "../outside.txt",
        "link.txt",
        "way/outside.txt",
        "sub",
        "sub/..",
        ".",
        "none",
        "a\0b",
        str(outside),
    )
    assert {path: delete(path) for path in refused} == dict.fromkeys(refused, 409)
    assert delete("") == 400
    assert outside.read_text() == "stays"
    assert delete("sub/a.txt") == 204
    assert not (folder / "sub" / "a.txt").exists()
    stranger = client.post("/files/delete", json={"chat": "tg-1001", "path": "x"})
    assert stranger.status_code == 404


def test_what_a_message_mentions_goes_with_it_and_its_length_is_bounded(
    client: httpx.Client, served: Served, workspace: Path
) -> None:
    (workspace / "mentioned" / "sub").mkdir(parents=True)
    (workspace / "mentioned" / "notes.txt").write_text("milk")
    fields = {"chat": "mentioned", "nonce": 41}
    missing = client.post("/chat/send", json={**fields, "text": "say @note.txt"})
    assert (missing.status_code, missing.json()["unclear"]) == (409, True)
    assert missing.json()["error"] == "The file @note.txt does not exist. Did you mean @notes.txt?"
    sent = client.post("/chat/send", json={**fields, "text": "say @notes.txt and @sub"})
    again = client.post("/chat/send", json={**fields, "text": "say @notes.txt and @sub"})
    assert sent.json() == again.json()
    (message,) = served.run(served.app.services.journal.ask, read_transcript("mentioned", limit=5))
    assert [(one.kind, one.reference) for one in message.attachments] == [
        ("file", "notes.txt"),
        ("words", ""),
    ]
    long = {"chat": "mentioned", "text": "é" * 30_001}
    refused = client.post("/chat/send", json=long)
    assert (refused.status_code, "30,000" in refused.json()["error"]) == (413, True)
    assert client.post("/chat/send", json={**long, "text": "say " + "é" * 29_996}).status_code == 200
