"""The control socket: requests from other processes of the same user to the daemon.

Clients import each module only when they first use it: a script's `rumi status --json` should not wait for
libraries that it does not need.
"""
