"""The process that converts pages, one after the other.

A request consists of two frames: JSON, and the body of the page. Pages are untrusted, so the process first
gives up all rights that it does not need. See `rumi.sandbox.confined.child`.
"""

import resource
import time
from dataclasses import asdict
from typing import Final

from rumi.sandbox.confined.child import ParentProcess
from rumi.sandbox.confined.confinement import confine
from rumi.web.readers.pages.charset import load_codecs
from rumi.web.readers.pages.page import read_page

# Little memory, few open files, and no writing to files.
_BOUNDS: Final = {
    resource.RLIMIT_AS: 512_000_000,
    resource.RLIMIT_NOFILE: 16,
    resource.RLIMIT_FSIZE: 0,
}
CPU_S: Final = 30
NICE: Final = 10
# A page of each kind, to import all modules that are imported at first use.
_SAMPLES: Final = (
    (b"<title>a</title><p>caf\xe9 <a href='/b'>b</a><table><tr><th>c</table>", "text/html"),
    (b"<rss><channel><item><title>a</title><description>b</description></item></channel></rss>", "text/xml"),
    (b"caf\xe9", "text/plain"),
)
_OUT_OF_MEMORY: Final = "it takes too much memory"


def prepare() -> None:
    """Import all modules that a page may need, because the confined process cannot open files."""
    import charset_normalizer.md  # noqa: F401

    from rumi.web.readers.pages.documents.samples import read_all

    load_codecs()
    read_all()
    for body, media_type in _SAMPLES:
        read_page(body, media_type=media_type, charset="", url="http://example.com/", max_chars=100)


def bound_cpu() -> None:
    """Limit the conversion of the next page to `CPU_S` seconds of processor time.

    The parent process has a shorter time limit.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(time.process_time()) + CPU_S
    resource.setrlimit(
        resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard)
    )


def answer(request: dict[str, object], body: bytes) -> dict[str, object]:
    """Convert a page; return the page's text, or the reason why the conversion failed."""
    try:
        text = read_page(
            body,
            media_type=str(request["media_type"]),
            charset=str(request["charset"] or ""),
            url=str(request["url"]),
            max_chars=int(str(request["max_chars"])),
        )
    except MemoryError:
        return {"failed": _OUT_OF_MEMORY}
    except RecursionError:
        return {"failed": "it is nested too deeply"}
    except Exception as error:  # noqa: BLE001 - parsers raise what they like; a page must not end the process
        return {"failed": f"its reader failed ({type(error).__name__})"}
    return asdict(text)


def main() -> None:
    """Convert pages until the parent sends no more requests."""
    parent = ParentProcess(_BOUNDS, nice=NICE)
    prepare()
    confine()  # if the kernel does not support this, the resource limits above remain
    parent.ready()
    while True:
        request = parent.hear()
        body = parent.receive()
        bound_cpu()
        said = answer(request, body)
        del body  # otherwise an idle process would hold the page until its next request
        parent.send(said)


if __name__ == "__main__":
    main()
