"""The terminal: a person at the keyboard, a pipe, one turn for a script, or JSON lines for a program.

`run_terminal` picks the kind that fits the streams and the options. All of them talk to a `ChatPort` and
know nothing of what is behind it. `show_progress` shows what happens before the chat begins.
"""
