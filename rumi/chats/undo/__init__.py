"""Snapshots of chats' files, taken before turns change them, and restoring files from these snapshots.

A snapshot is taken before a turn's first tool call that may change files. Turns without such calls need no
snapshot.
"""
