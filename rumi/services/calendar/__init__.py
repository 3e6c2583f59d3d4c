"""Calendars of people: private ICS addresses and CalDAV servers."""
