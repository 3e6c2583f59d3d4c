"""Git servers on loopback: git's own, behind TLS, and scripted ones that do what a hostile server may."""

import itertools
import os
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import trio

from tests.fakes.web_server import Answering, Asked, gives, head

ADVERTISED = "application/x-git-upload-pack-advertisement"
RESULT = "application/x-git-upload-pack-result"
GIT_ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@example.com",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.com",
}


def git(folder: Path, *words: str, stdin: bytes = b"") -> str:
    """Run git in a folder of the test, and return what it printed."""
    done = subprocess.run(
        ["git", "-C", str(folder), *words], input=stdin, capture_output=True, check=False, env=GIT_ENV
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout.decode(errors="replace").strip()


def imported(folder: Path, stream: bytes) -> Path:
    """Make a bare repository from a stream for git fast-import, packed and ready to be served."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--bare", "--initial-branch=main", ".")
    git(folder, "fast-import", "--quiet", "--force", stdin=stream)
    for setting in ("uploadpack.allowFilter=true", "http.receivepack=false"):
        git(folder, "config", *setting.split("="))
    return folder


def history(commits: int, *, lines: int = 40) -> bytes:
    """Return a stream of commits, each of which changes a line of `code.py` and, of every tenth, a document.

    Commit n has the subject `Change n` and changes line n % lines; tags `v1`, `v2`, … stand at each thousand.
    """
    content = [f"line {at} of the beginning" for at in range(lines)]
    parts = list[bytes]()
    for n in range(1, commits + 1):
        content[n % lines] = f"value_{n % lines} = {n}"
        author = f"Dev {n % 7} <dev{n % 7}@example.com> {1_500_000_000 + n * 3600} +0000"
        parts.append(_commit(n, author, f"Change {n}", {"src/code.py": "\n".join(content) + "\n"}))
        if n % 10 == 0:
            parts.append(_file("docs/notes.md", f"# Notes\n\nAt change {n}.\n".encode()))
        if n % 1000 == 0:
            parts.append(
                f"\ntag v{n // 1000}\nfrom :{n}\ntagger {author}\ndata 5\nv{n // 1000:04}\n".encode()
            )
    parts.append(b"done\n")
    return b"".join(parts)


def _commit(n: int, author: str, subject: str, files: dict[str, str]) -> bytes:
    text = f"commit refs/heads/main\nmark :{n}\nauthor {author}\ncommitter {author}\n"
    text += f"data {len(subject.encode())}\n{subject}\n"
    if n > 1:
        text += f"from :{n - 1}\n"
    return text.encode() + b"".join(_file(name, content.encode()) for name, content in files.items())


def _file(name: str, content: bytes) -> bytes:
    return b"M 100644 inline %s\ndata %d\n%s\n" % (name.encode(), len(content), content)


def serves(folder: Path, *, config: Iterable[str] = ()) -> Answering:
    """Answer as git's own program for servers does, for the repositories below a folder."""

    async def answer(stream: trio.abc.Stream, asked: Asked) -> None:
        path, _, query = asked.target.partition("?")
        body = await body_of(stream, asked)
        done = await trio.run_process(
            ["git", *(word for setting in config for word in ("-c", setting)), "http-backend"],
            stdin=body,
            capture_stdout=True,
            check=False,
            env={
                **GIT_ENV,
                "GIT_PROJECT_ROOT": str(folder),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": asked.method,
                "CONTENT_TYPE": asked.headers.get("content-type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "GIT_PROTOCOL": asked.headers.get("git-protocol", ""),
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "safe.directory",
                "GIT_CONFIG_VALUE_0": "*",
            },
        )
        told, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in told.decode().split("\r\n"))
        status = int(headers.pop("Status", "200").split()[0])
        await stream.send_all(head(status, {**headers, "Content-Length": str(len(content))}) + content)

    return answer


async def body_of(stream: trio.abc.Stream, asked: Asked) -> bytes:
    """Return the body of a request."""
    body = asked.head.partition(b"\r\n\r\n")[2]
    while len(body) < int(asked.headers.get("content-length", "0")):
        body += await stream.receive_some(65536)
    return body


def line(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return b"%04x%s" % (len(data) + 4, data)


CAPABILITIES = b"".join(
    map(line, ("version 2\n", "agent=git/2\n", "ls-refs\n", "fetch=shallow filter\n", "object-format=sha1\n"))
)


def advertises(content: bytes = CAPABILITIES + b"0000") -> Answering:
    return gives(content, media_type=ADVERTISED)


def answers(refs: Answering, fetch: Answering | None = None) -> Answering:
    """Answer each command of the protocol with an answer of its own."""

    async def answer(stream: trio.abc.Stream, asked: Asked) -> None:
        body = await body_of(stream, asked)
        await (refs if b"command=ls-refs" in body else fetch or refs)(stream, asked)

    return answer


def lists(*rows: str) -> Answering:
    return gives(b"".join(line(f"{row}\n") for row in rows) + b"0000", media_type=RESULT)


def dripping(content: bytes, media_type: str, every_s: float = 0.05) -> Answering:
    """Answer with these bytes again and again, one at a time."""

    async def answer(stream: trio.abc.Stream, asked: Asked) -> None:
        await stream.send_all(f"HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\n\r\n".encode())
        for byte in itertools.cycle(content):
            await stream.send_all(bytes([byte]))
            await trio.sleep(every_s)

    return answer


Make = Callable[[], bytes]
