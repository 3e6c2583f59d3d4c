"""Reads the audit log for a person: selects entries, formats them, and sums them up."""

from rumi.logbook.entries import Entry, Wanted, follow, read
from rumi.logbook.lines import line_of
from rumi.logbook.summary import Day, summed_up, table

__all__ = ["Day", "Entry", "Wanted", "follow", "line_of", "read", "summed_up", "table"]
