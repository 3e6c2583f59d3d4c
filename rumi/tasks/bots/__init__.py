"""Bots: autonomous agents that work towards a goal in iterations, within limits, and end with a report.

Each bot has a folder in `bots/`, which `files` reads and writes; `config` parses its `config.md`. A bot's
session is a task (`kind`) with the tools in `tools`; `receipts` checks the claims that the session makes.
`bots` starts, wakes and stops sessions; `bot_calls` answers control calls from other processes.
"""
