"""Snapshots of the files of chats before their last turns, and the restoring of files from snapshots.

A snapshot is taken before the first call of a turn that may change files, so that other turns cost nothing.
"""
