"""Snapshots of the chats' files from before their last turns, and the restoring of these files.

A snapshot is taken before the first tool call of a turn that may change files. Turns without such calls need
no snapshot.
"""
