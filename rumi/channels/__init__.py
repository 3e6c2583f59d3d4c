"""Channels: the ways in which messages come in and replies go out.

A `Channel` is plugged into a running Rumi (`open_app(channels=…)`): Telegram, the page. The terminal needs no
place in the tree: it talks to chats of its own process, or of another one over the control socket.
"""
