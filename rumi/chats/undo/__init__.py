"""The files of chats as they were before their last turns: snapshots, and their way back.

A snapshot is made before the first call of a turn that may change files, so that other turns cost nothing.
"""
