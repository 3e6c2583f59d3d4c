"""The process that reads pages: `python -I -m rumi.web.reading.process LIFE`, requests in, answers out.

`LIFE` is the read end of a pipe whose other end the parent holds. When that is gone this process is ended by
the kernel, whatever it is doing. Pages come from anybody, so it first gives up what it does not need.
"""

import json
import os
import resource
import sys
import time
from dataclasses import asdict
from typing import BinaryIO, Final

from rumi.child import give_up, live_as_long_as
from rumi.frames import framed
from rumi.web.reading.charset import load_codecs
from rumi.web.reading.confinement import confine
from rumi.web.reading.page import read_page

MEMORY_BYTES: Final = 512_000_000
OPEN_FILES: Final = 16
CPU_S: Final = 30
NICE: Final = 10
# One of each kind, so that what is loaded at first use is loaded.
_SAMPLES: Final = (
    (b"<title>a</title><p>caf\xe9 <a href='/b'>b</a><table><tr><th>c</table>", "text/html"),
    (b"<rss><channel><item><title>a</title><description>b</description></item></channel></rss>", "text/xml"),
    (b"caf\xe9", "text/plain"),
    (b"%PDF-1.4", "application/pdf"),
)
_OUT_OF_MEMORY: Final = "it takes too much memory"


def give_up_rights() -> None:
    """No large memory, no file that grows, no core; behind everybody else for the processor."""
    os.nice(NICE)
    give_up(
        {
            resource.RLIMIT_AS: MEMORY_BYTES,
            resource.RLIMIT_NOFILE: OPEN_FILES,
            resource.RLIMIT_FSIZE: 0,
            resource.RLIMIT_CORE: 0,
        }
    )


def prepare() -> None:
    """Load all that any page may need: afterwards no file can be opened."""
    import charset_normalizer.md  # noqa: F401
    import pypdfium2  # noqa: F401

    load_codecs()
    for body, media_type in _SAMPLES:
        read_page(body, media_type=media_type, charset="", url="http://example.com/", max_chars=100)


def bound_cpu() -> None:
    """The next page may take `CPU_S` seconds of processor time; the parent's patience ends earlier."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(time.process_time()) + CPU_S
    resource.setrlimit(
        resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard)
    )


def answer(request: dict[str, object], body: bytes) -> dict[str, object]:
    """Read a page; say what went wrong if it cannot be read."""
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
    except Exception as error:  # noqa: BLE001 - parsers raise what they like; a page must not end the house's day
        return {"failed": f"its reader failed ({type(error).__name__})"}
    return asdict(text)


def _frame(requests: BinaryIO) -> bytes:
    """The next frame; ends the process where there is none."""
    length = requests.read(4)
    if len(length) < 4:
        sys.exit(0)
    return requests.read(int.from_bytes(length, "big"))


def main() -> None:
    """Serve until standard input ends."""
    live_as_long_as(int(sys.argv[1]))
    give_up_rights()
    prepare()
    confine()  # where the kernel cannot, the limits above and the guard around the house remain
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    answers.write(framed(b""))
    answers.flush()
    while True:
        request = json.loads(_frame(requests))
        body = _frame(requests)
        bound_cpu()
        said = json.dumps(answer(request, body)).encode()
        del body
        answers.write(framed(said))
        answers.flush()


if __name__ == "__main__":
    main()
