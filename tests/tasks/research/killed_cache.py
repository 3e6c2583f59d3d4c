"""Stores a repository in a cache again and again, until it is killed."""

import os
import sys
import tempfile
from pathlib import Path

from rumi.tasks.research.repository.cache import CloneState, RepositoryCache


def pack(content: bytes) -> int:
    file = tempfile.TemporaryFile()  # noqa: SIM115
    file.write(content)
    file.flush()
    return os.dup(file.fileno())


def main() -> None:
    cache = RepositoryCache(Path(sys.argv[1]), 3_000_000)
    print("ready", flush=True)
    for n in range(10**6):
        letter = "0123456789abcdef"[n % 16]
        oid, content = letter * 40, letter.encode() * (100_000 + n % 7 * 100_000)
        files = {f"pack-{oid}.{kind}": pack(content) for kind in ("pack", "idx", "rev")}
        known = CloneState("sha1", {"refs/heads/main": oid}, {oid}, 1, True)
        cache.store(f"https://example.com/{n % 5}", known, files)
        for file in files.values():
            os.close(file)


if __name__ == "__main__":
    main()
