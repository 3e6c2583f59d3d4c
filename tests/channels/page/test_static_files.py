"""Static files: in folders, named by path, and sent once."""

import gzip
import re
from pathlib import Path

import httpx
from starlette.datastructures import Headers

from rumi.channels.page.static_files import StaticFiles, read_static
from tests.channels.page.served import Served


def test_files_of_all_folders_are_served_by_their_path_and_nothing_else(tmp_path: Path) -> None:
    static = tmp_path / "static"
    (static / "talk" / "parts").mkdir(parents=True)
    (static / "page.js").write_text("1")
    (static / "talk" / "parts" / "tool.js").write_text("2")
    (static / "talk" / "icon.png").write_bytes(b"3")
    (static / "index.html").write_text("a template")
    (static / "talk" / "old.js~").write_text("of an editor")
    (tmp_path / "secret.js").write_text("outside")
    found = read_static(static)
    assert {path: file.kind for path, file in found.items()} == {
        "page.js": "text/javascript",
        "talk/parts/tool.js": "text/javascript",
        "talk/icon.png": "image/png",
    }


def test_a_reload_transfers_only_what_has_changed(tmp_path: Path) -> None:
    (tmp_path / "page.js").write_text("old")
    old = read_static(tmp_path)["page.js"]
    (tmp_path / "page.js").write_text("new")
    new = read_static(tmp_path)["page.js"]
    for asked in (new.tag, f"W/{new.tag}", f'"x", {new.tag}', "*"):
        answer = new.answer(Headers({"If-None-Match": asked}))
        assert (answer.status_code, bytes(answer.body)) == (304, b"")
        assert answer.headers["etag"] == new.tag
    assert new.answer(Headers({"If-None-Match": old.tag})).body == b"new"


def test_a_browser_keeps_static_files_and_nothing_else(served: Served, client: httpx.Client) -> None:
    first = client.get("/static/page.js")
    assert (first.status_code, first.headers["cache-control"]) == (200, "no-cache")
    again = client.get("/static/page.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["content-security-policy"] == first.headers["content-security-policy"]
    for path in ("/", "/chats", "/static/none.js"):
        assert client.get(path).headers["cache-control"] == "no-store"
    for path in ("../page.py", "..%2fpage.py", "%2e%2e/page.py", "/etc/passwd", "page.js/", ""):
        assert client.get(f"/static/{path}").status_code == 404, path


def test_modules_are_requested_with_the_module_that_imports_them(tmp_path: Path) -> None:
    (tmp_path / "talk").mkdir()
    (tmp_path / "page.js").write_text(
        'import * as talk from "./talk/talk.js";\nimport {\n  say,\n} from "./dom.js";\n'
        'await import("./later.js");\n/** @type {import("./types.js").T} */\nconst x = "./none.js";\n'
    )
    (tmp_path / "talk" / "talk.js").write_text('export { say } from "../dom.js";\nimport "./parts.js";\n')
    for name in ("dom.js", "later.js", "types.js", "none.js", "talk/parts.js"):
        (tmp_path / name).write_text('import "./page.js"; // in a circle\n')
    static = StaticFiles(tmp_path)
    assert static.imports("page.js") == ["talk/talk.js", "dom.js", "talk/parts.js"]
    named = static.named('<script type="module" src="/static/page.js"></script>')
    assert re.findall(r'"modulepreload" href="/static/([^"]+)"', named) == [
        f"{static.version}/{path}" for path in static.imports("page.js")
    ]
    assert f'src="/static/{static.version}/page.js"' in named


def test_a_warm_load_asks_for_the_page_alone(served: Served, client: httpx.Client) -> None:
    named = re.findall(r'(?:src|href)="(/static/[^"]+)"', client.get("/").text)
    assert len(named) > 20
    for path in named:
        answer = client.get(path)
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "max-age=31536000, immutable")
    version = named[0].split("/")[2]
    other = client.get("/static/v-0123456789ab/page.js")  # a window of another version is still open
    assert (other.status_code, other.headers["cache-control"]) == (200, "no-cache")
    assert other.content == client.get(f"/static/{version}/page.js").content
    for path in (f"/static/{version}", f"/static/{version}/{version}/page.js", "/static/v-1/page.js"):
        assert client.get(path).status_code == 404


def test_texts_are_sent_compressed_to_those_who_read_that(tmp_path: Path) -> None:
    (tmp_path / "page.js").write_text("let x = 1;\n" * 100)
    (tmp_path / "icon.png").write_bytes(b"3" * 1000)
    found = read_static(tmp_path)
    script, both = found["page.js"], Headers({"Accept-Encoding": "br, gzip"})
    packed = script.answer(both)
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(bytes(packed.body)) == script.answer(Headers({})).body == script.content
    assert {answer.headers["vary"] for answer in (packed, script.answer(Headers({})))} == {"accept-encoding"}
    assert "content-encoding" not in found["icon.png"].answer(both).headers
    refusing = Headers({"Accept-Encoding": "br, gzip;q=0"})
    assert "content-encoding" not in script.answer(refusing).headers


def test_the_page_itself_is_compressed_for_those_who_read_that(client: httpx.Client) -> None:
    packed, plain = (client.get("/", headers={"Accept-Encoding": how}) for how in ("gzip", "identity"))
    assert (packed.headers["content-encoding"], packed.text) == ("gzip", plain.text)
    assert int(packed.headers["content-length"]) < int(plain.headers["content-length"]) / 2
