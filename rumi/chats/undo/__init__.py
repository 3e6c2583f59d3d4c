"""Snapshots of chats' files from before their last turns, and restoring files from these snapshots.

A snapshot is taken before the first tool call of a turn that may change files. Turns without such calls cost
nothing.
"""
