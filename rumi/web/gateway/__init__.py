"""The way out of a sandbox that has a network namespace of its own: an HTTP proxy, and a DNS server."""
