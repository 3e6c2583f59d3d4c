"""A reader of files as a plugin brings it. It runs in the confined process."""

from collections.abc import Iterator


def shout(body: bytes, name: str) -> Iterator[str]:
    """The file's words in capitals."""
    if body == b"crash":
        raise ValueError("no words")
    if body == b"open":
        open("/etc/passwd").close()
    yield from body.decode().upper().splitlines()
