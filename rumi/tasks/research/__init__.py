"""Research: what was read is numbered and kept, and an answer is checked against it.

A task uses this. It gives a model the instructions and the tools, and what the model answers to `check`.

What it exports is imported when it is first asked for: commands that research nothing start without it.
"""
