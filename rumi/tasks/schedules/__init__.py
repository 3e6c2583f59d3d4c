"""Reminders and schedules that fire once or repeatedly, in the local time of their owner."""
