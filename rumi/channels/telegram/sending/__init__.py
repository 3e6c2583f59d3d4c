"""Replies out: the outbox reaches Telegram in order in each chat, within its limits."""
