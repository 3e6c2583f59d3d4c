"""Bots: each works on its own towards a goal, in iterations, within bounds, and ends with a report.

A bot is a folder in `bots/` (`config`, `files`). A session of it is a task (`kind`), with `tools` of its own,
and claims that are checked (`receipts`). `bots` starts, wakes and stops them; `serving` serves other
processes.
"""
