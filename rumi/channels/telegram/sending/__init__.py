"""Sending of replies: each chat's outbox is sent to Telegram in order and within Telegram's rate limits."""
