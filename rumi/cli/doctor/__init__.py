"""The checks of a working installation, each with its fix.

`machine` checks Python, the disk and the clock, `files` the home, `databases` its two databases, `settings`
the configuration and its keys, `sandboxes` the engines that run commands; `online` asks the servers. All
checks work while another process holds the home, and change nothing in it.
"""
