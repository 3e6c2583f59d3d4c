"""The audit log, read for a person: which lines, what they say, what they add up to."""

from rumi.logbook.entries import Entry, Wanted, follow, read
from rumi.logbook.lines import line_of
from rumi.logbook.summary import Day, summed_up, table

__all__ = ["Day", "Entry", "Wanted", "follow", "line_of", "read", "summed_up", "table"]
