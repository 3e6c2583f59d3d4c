"""Checks of an installation. Each finding says how to fix the problem, if there is one.

`machine` checks Python, the disk and the clock, `files` the home, `databases` the home's databases,
`settings` the configuration and its keys, `docker` and `sandboxes` the engines that run commands; `online`
calls the model's and Telegram's servers. All checks work while another process has locked the home, and
change nothing in it.
"""
