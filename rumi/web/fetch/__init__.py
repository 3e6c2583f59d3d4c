"""Fetching: the actor for pages and searches, and the HTTP client, which opens one connection per request."""
