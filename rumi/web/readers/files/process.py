"""The process that converts one file and then ends.

A request consists of two frames: JSON, and the bytes of the file. Files are untrusted. So the process imports
the modules for the kind of the file and then gives up all rights, like the process that reads pages: it can
no longer open files or sockets, or start programs. See `rumi.sandbox.confined.child`.
"""

import importlib
import resource
from base64 import b64decode, b64encode
from contextlib import suppress
from typing import Any, Final

from rumi.errors import RumiError
from rumi.platform import text_decoding
from rumi.sandbox.confined.child import ParentProcess
from rumi.sandbox.confined.confinement import confine
from rumi.web.readers.files import pdf_pages, scaling

_BOUNDS: Final = {
    resource.RLIMIT_AS: 768_000_000,
    resource.RLIMIT_NOFILE: 32,
    resource.RLIMIT_FSIZE: 0,
    resource.RLIMIT_CPU: 30,
}
NICE: Final = 10
MOST_FAULT_CHARS: Final = 300


def load(request: dict[str, Any]) -> None:
    """Import all modules that a kind of file needs, by reading a small sample."""
    text_decoding.load()
    kind = request["kind"]
    if kind == "picture":
        scaling.load()
    elif kind == "page":
        pdf_pages.load()
    elif kind == "html":
        _html(b"<p>a</p><table><tr><td>b</td></tr></table>", 100)
    elif kind == "plugin":
        with suppress(Exception):  # its own error is that of the file itself
            _plugins_text(request, b64decode(request["sample"]))
    else:
        from rumi.web.readers.pages.documents.samples import read_all

        read_all()


def answer(request: dict[str, Any], body: bytes) -> dict[str, object]:
    """Convert a file; return the picture or the text, or the reason why the conversion failed."""
    try:
        if request["kind"] == "picture":
            seen = scaling.scaled(body, int(request["most_px"]), int(request["most_bytes"]))
            data = seen["data"]
            assert isinstance(data, bytes)
            return seen | {"data": b64encode(data).decode()}
        if request["kind"] == "page":
            return pdf_pages.page_of(body, int(request["page"]), int(request["most_px"]))
        if request["kind"] == "html":
            return _html(body, int(request["most_chars"]))
        if request["kind"] == "plugin":
            return _plugins_text(request, body)
        return _document(body, str(request["name"]), int(request["most_chars"]))
    except scaling.NoPictureError as error:
        return {"failed": str(error)}
    except MemoryError:
        return {"failed": "it takes too much memory"}
    except RecursionError:
        return {"failed": "it is nested too deeply"}
    except Exception as error:  # noqa: BLE001 - parsers raise what they like
        return {"failed": f"it is broken ({type(error).__name__})"}


def _html(body: bytes, most_chars: int) -> dict[str, object]:
    """Convert the HTML of a mail, in UTF-8, of which nothing counts as a menu or a banner."""
    from rumi.web.readers.pages.cleaning import clean
    from rumi.web.readers.pages.html import to_markdown

    page = to_markdown(clean(body.decode("utf-8", "replace")), "", whole=True)
    return {"text": clean(page.text).strip()[:most_chars]}


def _plugins_text(request: dict[str, Any], body: bytes) -> dict[str, object]:
    """Read a file by the function of a plugin."""
    from rumi.web.readers.pages.cleaning import clean
    from rumi.web.readers.pages.documents.lines import text_of

    module, _, name = str(request["function"]).partition(":")
    try:
        read = getattr(importlib.import_module(module), name)(body, str(request["name"]))
        text, cut = text_of([read] if isinstance(read, str) else read, int(request["most_chars"]))
    except RumiError as error:
        return {"failed": error.message.rstrip(".")}
    except (ValueError, TypeError) as error:
        return {"failed": f"its reader says: {type(error).__name__}: {error}"[:MOST_FAULT_CHARS]}
    return {"format": str(request["format"]), "text": clean(text), "cut": cut}


def _document(body: bytes, name: str, most_chars: int) -> dict[str, object]:
    from rumi.web.readers.pages.documents.document import read_document
    from rumi.web.readers.pages.documents.lines import NoDocumentError

    try:
        read = read_document(body, name, most_chars)
    except NoDocumentError as error:
        return {"failed": str(error)}
    return {"format": read.format, "title": read.title, "text": read.text, "lost": read.lost, "cut": read.cut}


def main() -> None:
    """Read one request, convert its file, and send the answer."""
    parent = ParentProcess(_BOUNDS, nice=NICE)
    parent.ready()
    request = parent.hear()
    # In this order: after `confine` no module can be imported, and before it no byte of the file is read.
    load(request)
    confine()  # if the kernel does not support this, the resource limits above remain
    parent.send(answer(request, parent.receive()))


if __name__ == "__main__":
    main()
