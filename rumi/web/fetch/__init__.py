"""Fetching: the actor for pages and searches, and the HTTP client, with one connection per request."""
