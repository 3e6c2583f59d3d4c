"""Logins at remote servers of tools, by OAuth: discovery, registration, tokens, and their storage.

The client library's `OAuthClientProvider` is not used. It holds its lock during whole requests, so a stream
of events blocks every call; it forgets when a stored token ends; it opens a browser in the middle of a call;
and it reads answers of any size from any address. Its models of metadata and tokens, and its rules for
addresses of metadata, are used.
"""
