"""Reminders and schedules: what fires once, or again and again, in the local time of its owner."""
