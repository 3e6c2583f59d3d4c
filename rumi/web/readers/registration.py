"""Readers of plugins: their registration, and the choice of a reader for a file."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar

from rumi.platform.config.plugins import PluginPart, Registration
from rumi.platform.file_kinds import is_viewable


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderPlugin(Registration):
    """The registration of a reader of files, for the group `rumi.readers`.

    `function` is `module:name` of a function that takes a file's bytes and its name, and returns its text or
    yields its lines; it raises an error if it cannot read the file. It runs in a confined process, which can
    open no file and no socket and has limited time and memory. So before that process is confined, it calls
    the function with `sample`, a small file of that kind, to have all modules imported.

    The reader gets the files whose names end with one of `endings`, such as `.ipynb`, and those that begin
    with one of `begins`, unless Rumi reads that kind itself.
    """

    group: ClassVar[str] = "rumi.readers"

    function: str
    sample: bytes
    endings: tuple[str, ...] = ()
    begins: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        """Check the fields.

        Raises:
            TypeError: One has another type.
        """
        if not isinstance(self.function, str) or not isinstance(self.sample, bytes):
            raise TypeError("a reader's function is a str, and its sample bytes")
        for name, kind in (("endings", str), ("begins", bytes)):
            found: object = getattr(self, name)
            if not isinstance(found, tuple) or not all(isinstance(one, kind) for one in found):
                raise TypeError(f"a reader's {name} are a tuple of {kind.__name__}")

    def reads(self, head: bytes, name: str) -> bool:
        """Return True if the reader gets a file with these first bytes and this name."""
        ending = PurePosixPath(name).suffix.lower()
        return ending in self.endings or (bool(self.begins) and head.startswith(self.begins))


@dataclass(frozen=True, slots=True)
class PluginReaders:
    """The readers of all enabled plugins."""

    parts: Sequence[PluginPart[ReaderPlugin]] = ()

    def request(self, head: bytes, name: str) -> dict[str, object] | None:
        """Return the fields of a request to the confined process; None if no plugin reads the file."""
        for part in self.parts:
            if part.registration.reads(head, name):
                sample = b64encode(part.registration.sample).decode()
                return {"function": part.registration.function, "sample": sample, "format": part.name}
        return None

    def can_view(self, head: bytes, name: str) -> bool:
        """Return True if a file with these first bytes and this name is viewed as more than plain text."""
        return is_viewable(head, name) or self.request(head, name) is not None
