"""The names in the header `Content-Encoding`, and which of them stand for a compression."""

from collections.abc import Sequence
from typing import Final

CODINGS: Final = {
    "gzip": "gzip",
    "x-gzip": "gzip",
    "deflate": "deflate",
    "x-deflate": "deflate",
    "zlib": "deflate",
    "br": "br",
    "brotli": "br",
    "zstd": "zstd",
}
"""The compressions that can be undone, under all names that servers use for them."""

UNSUPPORTED: Final = frozenset(("compress", "x-compress", "bzip2", "xz", "lzma", "sdch", "dcb", "dcz"))


def coding_names(values: Sequence[str]) -> list[str]:
    """Return the names in all values of the header, in lower case and without parameters and quotes."""
    return [name.partition(";")[0].strip(" \t\"'").lower() for value in values for name in value.split(",")]


def is_packed(values: Sequence[str]) -> bool:
    """Return True if a value of the header names a compression; names such as `utf-8` are no compression."""
    return any(name in CODINGS or name in UNSUPPORTED for name in coding_names(values))
