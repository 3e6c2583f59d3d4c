"""Sending replies: each chat's outbox reaches Telegram in order and within Telegram's rate limits."""
