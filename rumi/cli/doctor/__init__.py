"""Checks of an installation; each finding names the fix.

`machine` checks Python, the disk and the clock, `files` the home, `databases` the home's databases,
`settings` the configuration and its keys, `docker` and `sandboxes` the engines that run commands; `online`
calls the servers. All checks work while another process has locked the home, and change nothing in it.
"""
