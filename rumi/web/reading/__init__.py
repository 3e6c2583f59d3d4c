"""Converts bytes to text for a model, each page in a process that can be ended."""

from rumi.web.reading.kinds import kind_of, readable
from rumi.web.reading.readers import Readers
from rumi.web.types import Text

__all__ = ["Readers", "Text", "kind_of", "readable"]
