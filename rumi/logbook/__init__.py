"""Reads the audit log for a person: selects entries, formats them, and sums them up."""

from rumi.logbook.entries import Wanted, follow, read
from rumi.logbook.lines import colour_of, line_of, parts_of
from rumi.logbook.summary import summed_up, table

__all__ = ["Wanted", "colour_of", "follow", "line_of", "parts_of", "read", "summed_up", "table"]
