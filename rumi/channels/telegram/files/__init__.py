"""Fetches users' files and recordings, within limits."""
