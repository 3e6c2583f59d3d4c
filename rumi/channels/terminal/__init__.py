"""Terminal front ends: for a person, for pipes, for a single turn, and for programs (JSON lines).

`run_terminal` picks the front end that fits the streams and the options. All of them use a `ChatPort`,
whether the chat is in this process or in the daemon. `show_progress` shows startup steps before the chat
begins.
"""
