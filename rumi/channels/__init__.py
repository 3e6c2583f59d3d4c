"""Channels: they receive messages and deliver replies.

A `Channel`, such as Telegram or the page, is plugged into a running Rumi (`open_app(channels=…)`). The
terminal is not a channel and has no actor in the supervision tree: it uses chats in its own process, or
connects to a daemon over the control socket.
"""
