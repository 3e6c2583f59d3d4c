"""Triggers: events of other programs, by a signed request or `rumi schedule trigger`, and their turns."""
