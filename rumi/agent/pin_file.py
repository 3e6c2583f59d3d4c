"""A JSON file that stores what the user has accepted: a frozen dataclass of digests for each name."""

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from rumi.errors import RumiError
from rumi.platform.atomic_write import atomic_write, folder_lock
from rumi.texts import os_error

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

PinT = TypeVar("PinT", bound="DataclassInstance")

MOST_BYTES: Final = 50_000_000


class PinFile(Generic[PinT]):
    """The file at `path`, with the pins under the key `key`. Each method reads the file again, and blocks.

    `decode` makes a pin of its JSON object; if an object is malformed, the whole file counts as unreadable.
    """

    def __init__(
        self, path: Path, key: str, decode: Callable[[dict[str, Any]], PinT], error: type[RumiError]
    ) -> None:
        self.path = path
        self._key = key
        self._decode = decode
        self._error = error

    def pins(self) -> dict[str, PinT]:
        """Return the stored pins by name. Raises the file's `error` if the file exists and cannot be read."""
        try:
            with self.path.open("rb") as file:
                found = json.loads(file.read(MOST_BYTES))[self._key]
            return {name: self._decode(pin) for name, pin in found.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            # An unreadable file must not count as empty: then the next connection would accept everything.
            raise self._error("{path} cannot be read.", "Restore it, or delete it.", path=self.path) from None

    def set(self, name: str, pin: PinT | None) -> None:
        """Store a pin, or remove the stored one. Raises the file's `error` if the file cannot be changed."""
        try:
            # Read and written under one lock: a command may change the file at the same time.
            with folder_lock(self.path.parent):
                pins = {**self.pins(), name: pin}
                stored = {
                    name: {field.name: getattr(pin, field.name) for field in fields(pin)}
                    for name, pin in sorted(pins.items())
                    if pin is not None
                }
                text = json.dumps({self._key: stored}, indent=1, default=dict)
                atomic_write(self.path, f"{text}\n".encode())
        except OSError as error:
            raise self._error(
                "{path} cannot be written: {reason}.", path=self.path, reason=os_error(error)
            ) from error
