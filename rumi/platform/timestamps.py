"""Timestamps as text in ISO 8601, for programs."""

from datetime import UTC, datetime


def utc(seconds: float) -> str:
    """Format a time in ISO 8601, in UTC with milliseconds: `2026-08-01T12:00:00.000Z`."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
