"""Bots: agents that work on their own towards a goal, in iterations, within limits, and end with a report.

A bot is a folder in `bots/` (`config`, `files`). A bot's session is a task (`kind`) with its own `tools`; the
program checks its claims (`receipts`). `bots` starts, wakes and stops sessions; `bot_calls` answers the
control calls of other processes.
"""
