"""Terminal front ends: interactive, for pipes, for one turn of a script, and as JSON lines for programs.

`run_terminal` picks the front end that fits the streams and the options. All of them use a `ChatPort`,
whether the chat is in this process or in the daemon. `show_progress` shows startup steps before the chat
begins.
"""
