"""Fetching: the actor that is asked for pages and searches, and the one connection that each page takes."""
