"""A request's parameters, whichever way they came."""

import json
from collections.abc import Mapping
from typing import Any

from tests.fakes.bot_api_world import Json, Refused, Upload


class Params:
    """Parameters as text (from a form) or as JSON values; `files` are a multipart request's, by part."""

    __slots__ = ("fields", "files")

    def __init__(self, fields: Mapping[str, Any], files: Mapping[str, Upload]) -> None:
        self.fields = fields
        self.files = files

    def text(self, name: str) -> str:
        value = self.fields.get(name)
        return "" if value is None else value if isinstance(value, str) else str(value)

    def integer(self, name: str, default: int = 0) -> int:
        value = self.fields.get(name)
        if value is None or value == "":
            return default
        try:
            return int(value)
        except (TypeError, ValueError):
            raise Refused(400, f"Bad Request: invalid {name} specified") from None

    def flag(self, name: str) -> bool:
        value = self.fields.get(name)
        return value is True or (isinstance(value, str) and value.lower() in ("true", "1", "yes"))

    def structure(self, name: str) -> Any:
        value = self.fields.get(name)
        if not isinstance(value, str):
            return value
        if not value:
            return None
        try:
            return json.loads(value)
        except ValueError:
            raise Refused(400, f"Bad Request: can't parse {name.replace('_', ' ')} JSON object") from None

    def record(self, name: str) -> Json | None:
        """A JSON object."""
        value = self.structure(name)
        if value is not None and not isinstance(value, dict):
            raise Refused(400, f"Bad Request: object expected as {name.replace('_', ' ')}")
        return value
