"""The control socket: what other processes of the same user ask the one that holds the home.

Its clients import what they need when they first ask for it: a script's `rumi status --json` should not wait
for libraries that it has no use for.
"""
