"""The control socket: requests from other processes of the same user to the daemon.

Clients import modules only when they first use them: a script's `rumi status --json` should not wait for
libraries that it does not need.
"""
