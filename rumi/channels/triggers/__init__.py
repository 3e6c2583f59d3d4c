"""Triggers: events that other programs send, by a signed request or by `rumi trigger`, and their turns."""
