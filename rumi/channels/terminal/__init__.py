"""The terminal: a person at the keyboard, a pipe, one turn for a script, or JSON lines for a program.

`run_terminal` picks the front end that fits the streams and the options. All of them use a `ChatPort`,
whether the chat is in this process or in the daemon. `show_progress` shows startup steps before the chat
begins.
"""
