"""Serves the page's shell with every part of `ui.js` in it, under the page's own content policy.

`python -m tests.channels.page.parts.server` prints its address, for eyes.
"""

import html
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from rumi.channels.page.guard import HEADERS
from rumi.platform.texts.page import page_words

STATIC = Path(__file__).parents[4] / "rumi" / "channels" / "page" / "static"
SCRIPT = Path(__file__).with_name("parts.js")
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def _shell() -> bytes:
    text = (STATIC / "index.html").read_text("utf-8").replace("/static/page.js", "/parts.js")
    words = page_words("en")
    for name, value in {
        **words,
        "words": json.dumps(words),
        "lang": "en",
        "command_list": "[]",
        "message_limits": "{}",
        "session_id": "",
    }.items():
        text = text.replace(f"{{{{{name}}}}}", html.escape(value, quote=True))
    return text.encode()


class _Parts(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body, kind = _shell(), "text/html"
        if self.path != "/":
            path = SCRIPT if self.path == "/parts.js" else STATIC / self.path.removeprefix("/static/")
            body, kind = path.read_bytes() if path.exists() else b"", TYPES[path.suffix]
        self.send_response(200)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        for name, value in HEADERS:
            self.send_header(name.decode(), value.decode())
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def parts() -> Iterator[str]:
    """Serve within a block; yields the address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Parts) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


if __name__ == "__main__":
    with parts() as address:
        print(address, flush=True)
        threading.Event().wait()
